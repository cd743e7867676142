import { beforeAll, describe, expect, it } from "vitest";
import { CONTROL_PARTITION } from "../../src/core/controls.ts";
import { idempotencyRow, outboxRow } from "../../src/core/names.ts";
import type { OrderKey } from "../../src/core/order-id.ts";
import type { Storage } from "../../src/core/ports.ts";
import { inLanes } from "../../src/operations/lanes.ts";
import { eventId, failure, newOrder, outboxEntity, transaction, type Connect, type Harness } from "./harness.ts";

/** More than one page holds. */
const EVENTS = 1_100;

export function describeScans(connect: Connect): void {
  describe("scans", () => {
    let harness: Harness;
    let storage: Storage;
    const orders = [newOrder(), newOrder()].sort();
    const third = newOrder();
    /** Deleted orders, so many that two orders more are more than one page. */
    const more = Array.from({ length: 999 }, newOrder);
    const [first, second] = orders as [OrderKey, OrderKey];

    beforeAll(async () => {
      harness = await connect();
      storage = harness.storage;
      await storage.orders.commit(transaction(first, { idempotency: { rowKey: idempotencyRow("k"), result: "{}" } }));
      for (let start = 0; start < EVENTS; start += 99) {
        const outbox = Array.from({ length: Math.min(99, EVENTS - start) }, (_, index) => outboxEntity(start + index + 1));
        const etag = (await storage.orders.readOrder(second))?.etag;
        const entity = { sequence: start + outbox.length, lastEventId: outbox.at(-1)?.id, state: "{}", commitTokens: [] };
        await storage.orders.commit(transaction(second, { etag, entity, outbox }));
      }
      for (const key of ["a", "b", "c"]) {
        const etag = (await storage.orders.readOrder(second))?.etag;
        const entity = { sequence: EVENTS, lastEventId: eventId(EVENTS), state: "{}", commitTokens: [] };
        await storage.orders.commit(
          transaction(second, { etag, entity, outbox: [], idempotency: { rowKey: idempotencyRow(key), result: "{}" } }),
        );
      }
      await harness.putForeignRow(first, "outbox:note", { n: 1 });
      await harness.putForeignRow(first, "line", { n: 1 });
      await harness.putForeignRow(first, "order ", { n: 1 });
      await harness.putForeignRow("no~" as OrderKey, "order", { n: 1 });
      const tombstone = { sequence: 1, lastEventId: eventId(1), state: undefined, commitTokens: [] };
      await inLanes(more, 8, (order) => storage.orders.commit(transaction(order, { entity: tombstone, outbox: [] })));
      await harness.putForeignRow("no~" as OrderKey, outboxRow(eventId(1)), { n: 1 });
      await harness.putForeignRow(CONTROL_PARTITION, "pause:mail", { n: 1 });
    });

    it("scanOutbox finds the outbox entities of all orders, their ages, and no other row", async () => {
      const { entities, next } = await storage.orders.scanOutbox(undefined, 10);
      expect(next).toBeUndefined();
      expect(entities.filter(({ order }) => order === first)).toMatchObject([{ order: first, id: eventId(1) }]);
      expect(entities).toHaveLength(1 + EVENTS);
      expect(entities.every(({ ageMs }) => ageMs >= 0 && ageMs < 60_000)).toBe(true);
    });

    it("scanOutbox stops after its pages and goes on where it stopped, without doubles or holes", async () => {
      const seen: string[] = [];
      let from: string | undefined;
      let scans = 0;
      do {
        const { entities, next } = await storage.orders.scanOutbox(from, 1);
        seen.push(...entities.map(({ order, id }) => `${order} ${id}`));
        from = next;
        scans += 1;
      } while (from !== undefined);
      expect(scans).toBeGreaterThan(1);
      expect(new Set(seen).size).toBe(1 + EVENTS);
      expect(seen).toHaveLength(1 + EVENTS);
    });

    it.each(["", "x", "e30=", Buffer.from('["a"]').toString("base64")])(
      "a place where no scan stopped (%j) is refused with invalid-option",
      async (from) => {
        await failure(storage.orders.scanOutbox(from, 1), "invalid-option");
        await failure(storage.orders.scanOrders(from, 1), "invalid-option");
        await failure(storage.orders.scanIdempotency(from, 1), "invalid-option");
      },
    );

    it("scanOrders finds every order once, deleted ones too, and no other row", async () => {
      const { orders: found, next } = await storage.orders.scanOrders(undefined, 10);
      expect(next).toBeUndefined();
      expect(found).toEqual([...orders, ...more].sort());
    });

    it("scanOrders stops after its pages and goes on where it stopped, without doubles or holes", async () => {
      const seen: OrderKey[] = [];
      let from: string | undefined;
      let scans = 0;
      do {
        const { orders: found, next } = await storage.orders.scanOrders(from, 1);
        seen.push(...found);
        from = next;
        scans += 1;
      } while (from !== undefined);
      expect(scans).toBeGreaterThan(1);
      expect(seen).toEqual([...orders, ...more].sort());
    });

    it("scanIdempotency finds the results of all orders, and no other row", async () => {
      const { entities, next } = await storage.orders.scanIdempotency(undefined, 10);
      expect(next).toBeUndefined();
      const rows = entities.map(({ order, rowKey }) => [order, rowKey]);
      expect(rows).toEqual([[first, idempotencyRow("k")], ...["a", "b", "c"].map((key) => [second, idempotencyRow(key)])]);
    });

    it("deleteIdempotency deletes what it is told, and those already gone are fine", async () => {
      const keys = ["a", "b"].map(idempotencyRow);
      await storage.orders.deleteIdempotency(second, keys.slice(0, 1));
      await storage.orders.deleteIdempotency(second, [...keys, idempotencyRow("gone")]);
      await storage.orders.deleteIdempotency(second, []);
      expect(await storage.orders.readIdempotency(second, idempotencyRow("b"))).toBeUndefined();
      expect(await storage.orders.readIdempotency(second, idempotencyRow("c"))).toBe("{}");
      expect(await storage.orders.readIdempotency(first, idempotencyRow("k"))).toBe("{}");
    });

    it("insertIdempotency: of many at once one result stays, also where there is no order", async () => {
      const row = idempotencyRow("fence");
      const outcomes = await Promise.allSettled(["1", "2", "3"].map((result) => storage.orders.insertIdempotency(third, row, result)));
      expect(outcomes.filter(({ status }) => status === "fulfilled")).toHaveLength(1);
      await failure(storage.orders.insertIdempotency(third, row, "4"), "already-exists");
      expect(await storage.orders.readIdempotency(third, row)).toBe(`${outcomes.findIndex(({ status }) => status === "fulfilled") + 1}`);
      await failure(storage.orders.insertIdempotency(third, "order", "{}"), "bug");
    });

    it("G6: deleteIdempotency takes no other row", async () => {
      await failure(storage.orders.deleteIdempotency(first, [outboxRow(eventId(1))]), "bug");
      await failure(storage.orders.deleteIdempotency(first, ["order"]), "bug");
      expect((await storage.orders.readOutbox(first)).outbox).toHaveLength(1);
    });
  });
}
