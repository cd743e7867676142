import { beforeAll, describe, expect, it } from "vitest";
import type { OrderKey } from "../../src/core/order-id.ts";
import type { ApplicationEntity, Storage, TableValue } from "../../src/core/ports.ts";
import { eventId, failure, newOrder, outboxEntity, transaction, type Connect } from "./harness.ts";

export function describeApplicationRows(connect: Connect): void {
  describe("rows of the application", () => {
    let storage: Storage;
    beforeAll(async () => {
      ({ storage } = await connect());
    });

    const commitRow = (order: OrderKey, row: ApplicationEntity): Promise<void> =>
      storage.orders.commit(transaction(order, { entities: [row] }));

    const values: ReadonlyArray<readonly [name: string, value: TableValue]> = [
      ["small whole number", 5],
      ["zero", 0],
      ["fraction", 0.1],
      ["big double", 1e21],
      ["largest safe integer", Number.MAX_SAFE_INTEGER],
      ["smallest double", Number.MIN_VALUE],
      ["Int64 beyond 2^53", 2n ** 53n + 1n],
      ["largest Int64", 2n ** 63n - 1n],
      ["smallest Int64", -(2n ** 63n)],
      ["true", true],
      ["false", false],
      ["empty text", ""],
      ["text", "ß 😀 \u2028 <&'\""],
      ["text that looks typed", '{"type":"Int64","value":"5"}'],
      ["longest text", "x".repeat(32_768)],
      ["date", new Date("2026-02-03T04:05:06.789Z")],
      ["old date", new Date("1970-01-01T00:00:00.001Z")],
      ["bytes", new Uint8Array([0, 255, 10, 13])],
      ["no bytes", new Uint8Array()],
    ];
    it.each(values)("C6, C25: %s comes back as it was", async (_name, value) => {
      const order = newOrder();
      await commitRow(order, { action: "insert", rowKey: "values", properties: { value } });
      expect((await storage.orders.readEntity(order, "values"))?.properties).toEqual({ value });
    });

    it("C25: a property called value or type is nothing special", async () => {
      const order = newOrder();
      const properties = { type: "card", value: "x", Straße: "é", _1: true };
      await commitRow(order, { action: "insert", rowKey: "values", properties });
      expect((await storage.orders.readEntity(order, "values"))?.properties).toEqual(properties);
    });

    const refused: ReadonlyArray<readonly [name: string, property: string, value: unknown]> = [
      ["NaN", "amount", Number.NaN],
      ["Infinity", "amount", Number.POSITIVE_INFINITY],
      ["-0", "amount", -0],
      ["undefined", "amount", undefined],
      ["null", "amount", null],
      ["an invalid date", "amount", new Date(Number.NaN)],
      ["a date before 1601", "amount", new Date("1600-12-31T00:00:00Z")],
      ["half a surrogate pair", "amount", "\uD83D"],
      ["32,769 units", "amount", "x".repeat(32_769)],
      ["16,385 emoji", "amount", "😀".repeat(16_385)],
      ["65,537 bytes", "amount", new Uint8Array(65_537)],
      ["an object", "amount", { a: 1 }],
      ["an empty object", "amount", {}],
      ["an array", "amount", [1]],
      ["a typed object", "amount", { type: "Int64", value: "5" }],
      ["an Int64 that is too big", "amount", 2n ** 63n],
      ["a dash in the name", "a-b", 1],
      ["a digit first in the name", "1a", 1],
      ["an empty name", "", 1],
      ["the name PartitionKey", "PartitionKey", 1],
      ["the name rowKey", "rowKey", "x"],
      ["the name timestamp", "timestamp", "x"],
      ["the name etag", "etag", "x"],
    ];
    it.each(refused)("C6, C25: %s is refused with the property's name, and nothing is written", async (_name, property, value) => {
      const order = newOrder();
      const properties = { [property]: value } as Record<string, TableValue>;
      const error = await failure(commitRow(order, { action: "insert", rowKey: "values", properties }), "invalid-state");
      expect(error.message).toContain(property);
      expect(error.message).toContain(order);
      expect(await storage.orders.readOrder(order)).toBeUndefined();
    });

    it.each([
      "order",
      "order-lines",
      "outbox:x",
      "idempotency:k",
      "",
      "a/b",
      "a\\b",
      "a#b",
      "a?b",
      "a\u0001b",
      "a%b",
      "a{b}",
      "\uDC00",
      "x".repeat(513),
    ])("row key %j is refused with invalid-state", async (rowKey) => {
      const order = newOrder();
      await failure(commitRow(order, { action: "upsert", rowKey, properties: {} }), "invalid-state");
      await failure(storage.orders.readEntity(order, rowKey), "invalid-state");
      expect(await storage.orders.readOrder(order)).toBeUndefined();
    });

    it.each(["line:1", "o", "outbox;", "Order", "zażółć", "it's", "a b", "a+b", "a&b=c", "x".repeat(512)])(
      "row key %j works for every action",
      async (rowKey) => {
        const order = newOrder();
        await commitRow(order, { action: "insert", rowKey, properties: { n: 1 } });
        const etag = (await storage.orders.readEntity(order, rowKey))?.etag ?? "";
        const commit = async (sequence: number, row: ApplicationEntity): Promise<void> => {
          const current = await storage.orders.readOrder(order);
          await storage.orders.commit(
            transaction(order, {
              etag: current?.etag,
              entity: { sequence, lastEventId: eventId(sequence), state: "{}", commitTokens: [] },
              outbox: [outboxEntity(sequence)],
              entities: [row],
            }),
          );
        };
        await commit(2, { action: "update", rowKey, etag, properties: { m: 2 } });
        expect((await storage.orders.readEntity(order, rowKey))?.properties).toEqual({ m: 2 });
        await commit(3, { action: "upsert", rowKey, properties: { k: 3 } });
        expect((await storage.orders.readEntity(order, rowKey))?.properties).toEqual({ k: 3 });
        await commit(4, { action: "delete", rowKey });
        expect(await storage.orders.readEntity(order, rowKey)).toBeUndefined();
      },
    );

    it("C04: an update at a stale etag is refused and rolls everything back", async () => {
      const order = newOrder();
      await commitRow(order, { action: "insert", rowKey: "line", properties: { n: 1 } });
      const stale = (await storage.orders.readEntity(order, "line"))?.etag ?? "";
      const first = await storage.orders.readOrder(order);
      const row = { action: "update", rowKey: "line", etag: stale, properties: { n: 2 } } as const;
      const entity = { sequence: 2, lastEventId: eventId(2), state: "{}", commitTokens: [] };
      await storage.orders.commit(transaction(order, { etag: first?.etag, entity, outbox: [outboxEntity(2)], entities: [row] }));
      const second = await storage.orders.readOrder(order);
      await failure(
        storage.orders.commit(transaction(order, { etag: second?.etag, entity, outbox: [outboxEntity(3)], entities: [row] })),
        "precondition-failed",
      );
      expect(await storage.orders.readOrder(order)).toEqual(second);
    });

    it("C04: an update without an etag, or at any etag, is refused", async () => {
      await failure(commitRow(newOrder(), { action: "update", rowKey: "line", properties: {} }), "invalid-state");
      await failure(commitRow(newOrder(), { action: "update", rowKey: "line", etag: "*", properties: {} }), "invalid-state");
    });

    it("one row twice in a commit is refused", async () => {
      const entities = [
        { action: "upsert", rowKey: "line", properties: {} },
        { action: "delete", rowKey: "line" },
      ] as const;
      await failure(storage.orders.commit(transaction(newOrder(), { entities })), "invalid-state");
    });

    it("deleting a row that is not there fails with precondition-failed", async () => {
      const order = newOrder();
      await failure(commitRow(order, { action: "delete", rowKey: "line" }), "precondition-failed");
      expect(await storage.orders.readOrder(order)).toBeUndefined();
    });

    it("253 properties are refused with too-large", async () => {
      const properties = Object.fromEntries(Array.from({ length: 253 }, (_, index) => [`p${index}`, true]));
      await failure(commitRow(newOrder(), { action: "insert", rowKey: "wide", properties }), "too-large");
    });
  });
}
