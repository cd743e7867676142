import { randomUUID } from "node:crypto";
import { beforeAll, describe, expect, it } from "vitest";
import { CONTROL_PARTITION, decodePause, PAUSE_ROWS, pauseRow } from "../../src/core/controls.ts";
import { idempotencyRow, MAX_SUBSCRIPTION_NAME_LENGTH } from "../../src/core/names.ts";
import { encodeOrderId, MAX_ORDER_ID_LENGTH, parseOrderId } from "../../src/core/order-id.ts";
import type { Storage, TableValue } from "../../src/core/ports.ts";
import { failure, newOrder, transaction, type Connect } from "./harness.ts";

export function describeSingleRows(connect: Connect): void {
  describe("single rows", () => {
    let storage: Storage;
    beforeAll(async () => {
      ({ storage } = await connect());
    });

    it("a row that was put is listed as it is, with etag and age", async () => {
      const order = newOrder();
      const properties = { actor: "ann", n: 5n, at: new Date("2026-02-03T04:05:06.789Z"), ok: true };
      await storage.orders.putEntity(order, "a", properties);
      const [row, ...more] = await storage.orders.listEntities(order, { from: "a", to: "b" });
      expect(more).toEqual([]);
      expect(row).toMatchObject({ rowKey: "a", properties, etag: (await storage.orders.readEntity(order, "a"))?.etag });
      expect(row?.ageMs).toBeGreaterThanOrEqual(0);
      expect(row?.ageMs).toBeLessThan(60_000);
    });

    it("a put replaces the row as a whole, whatever was there", async () => {
      const order = newOrder();
      await storage.orders.putEntity(order, "a", { x: "1", y: "1" });
      await storage.orders.putEntity(order, "a", { x: "2" });
      expect((await storage.orders.readEntity(order, "a"))?.properties).toEqual({ x: "2" });
    });

    it("F5: an insert is refused if the row is there, which stays as it is", async () => {
      const order = newOrder();
      await storage.orders.insertEntity(order, "a", { x: "1", n: 5n });
      await failure(storage.orders.insertEntity(order, "a", { x: "2" }), "already-exists");
      expect((await storage.orders.readEntity(order, "a"))?.properties).toEqual({ x: "1", n: 5n });
    });

    it("F5: of eight inserts at once exactly one succeeds", async () => {
      const order = newOrder();
      const outcomes = await Promise.allSettled(Array.from({ length: 8 }, (_, n) => storage.orders.insertEntity(order, "a", { n })));
      const winners = outcomes.flatMap(({ status }, n) => (status === "fulfilled" ? [n] : []));
      expect(winners).toHaveLength(1);
      expect((await storage.orders.readEntity(order, "a"))?.properties).toEqual({ n: winners[0] });
    });

    it("a listing has the keys from `from` to before `to`, sorted, of its partition alone", async () => {
      const [order, other] = [newOrder(), newOrder()];
      for (const rowKey of ["b", "a", "a~", "c", "Z"]) await storage.orders.putEntity(order, rowKey, {});
      await storage.orders.putEntity(other, "a", {});
      const keys = async (from: string, to: string): Promise<readonly string[]> =>
        (await storage.orders.listEntities(order, { from, to })).map(({ rowKey }) => rowKey);
      expect(await keys("a", "c")).toEqual(["a", "a~", "b"]);
      expect(await keys("A", "~")).toEqual(["Z", "a", "a~", "b", "c"]);
      expect(await keys("d", "e")).toEqual([]);
    });

    it("F5: the control partition takes rows for subscriptions and orders", async () => {
      const order = newOrder();
      for (const rowKey of [pauseRow("mail", undefined), pauseRow("mail", order)]) {
        await storage.orders.putEntity(CONTROL_PARTITION, rowKey, { actor: "ann" });
      }
      const rows = await storage.orders.listEntities(CONTROL_PARTITION, { from: "pause:", to: "pause;" });
      expect(rows.map(({ rowKey }) => rowKey)).toEqual(["pause:mail", `pause:mail:${order}`]);
    });

    it("F5: the control partition takes a row for the longest order of the subscription with the longest name", async () => {
      const orderId = parseOrderId(`${randomUUID()}${"注".repeat(MAX_ORDER_ID_LENGTH - 36)}`);
      const rowKey = pauseRow("m".repeat(MAX_SUBSCRIPTION_NAME_LENGTH), encodeOrderId(orderId));
      await storage.orders.insertEntity(CONTROL_PARTITION, rowKey, { actor: "ann" });
      expect((await storage.orders.readEntity(CONTROL_PARTITION, rowKey))?.properties).toEqual({ actor: "ann" });
      const rows = await storage.orders.listEntities(CONTROL_PARTITION, PAUSE_ROWS);
      expect(rows.map((row) => decodePause(row.rowKey, row.properties)?.orderId)).toContain(orderId);
      expect(await storage.orders.deleteEntity(CONTROL_PARTITION, rowKey)).toBe(true);
    });

    it("delete tells whether there was something", async () => {
      const order = newOrder();
      await storage.orders.putEntity(order, "a", {});
      expect(await storage.orders.deleteEntity(order, "a")).toBe(true);
      expect(await storage.orders.deleteEntity(order, "a")).toBe(false);
      expect(await storage.orders.readEntity(order, "a")).toBeUndefined();
    });

    const refused: ReadonlyArray<readonly [name: string, rowKey: string, properties: Readonly<Record<string, TableValue>>]> = [
      ["the order's own row", "order", {}],
      ["an outbox row", "outbox:x", {}],
      ["an idempotency row", idempotencyRow("k"), {}],
      ["a key that can't be one", "a/b", {}],
      ["a value the table would drop", "a", { n: Number.NaN }],
    ];
    it.each(refused)("G6: %s is refused, and nothing is written", async (_name, rowKey, properties) => {
      const order = newOrder();
      await failure(storage.orders.putEntity(order, rowKey, properties), "invalid-state");
      await failure(storage.orders.insertEntity(order, rowKey, properties), "invalid-state");
      expect(await storage.orders.listEntities(order, { from: " ", to: "~" })).toEqual([]);
    });

    it("G6: delete takes no row of the outbox's own", async () => {
      const order = newOrder();
      await storage.orders.commit(transaction(order));
      await failure(storage.orders.deleteEntity(order, "order"), "invalid-state");
      expect(await storage.orders.readOrder(order)).toBeDefined();
    });
  });
}
