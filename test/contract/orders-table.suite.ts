import { beforeAll, describe, expect, it } from "vitest";
import type { OrderKey } from "../../src/core/order-id.ts";
import { idempotencyRow, outboxRow } from "../../src/core/names.ts";
import type { Storage, TableValue } from "../../src/core/ports.ts";
import { eventId, failure, newOrder, outboxEntity, transaction, type Connect, type Harness } from "./harness.ts";

export function describeOrdersTable(connect: Connect): void {
  describe("orders table", () => {
    let harness: Harness;
    let storage: Storage;
    beforeAll(async () => {
      harness = await connect();
      storage = harness.storage;
    });

    describe("commit", () => {
      it("G1: stores order, events, idempotency result and the application's rows together", async () => {
        const order = newOrder();
        await storage.orders.commit(
          transaction(order, {
            entity: { sequence: 2, lastEventId: eventId(2), state: '{"a":1}', commitTokens: ["t1", "t2"] },
            outbox: [outboxEntity(1), { id: eventId(2), sequence: 2, text: undefined, payloadBlob: "o/2.json" }],
            idempotency: { rowKey: idempotencyRow("k"), result: '{"sequence":2}' },
            entities: [{ action: "insert", rowKey: "line:1", properties: { amount: 5 } }],
          }),
        );
        const { order: entity, outbox, unreadable } = await storage.orders.readOutbox(order);
        expect(entity).toMatchObject({ sequence: 2, lastEventId: eventId(2), state: '{"a":1}', commitTokens: ["t1", "t2"] });
        expect(outbox).toEqual([outboxEntity(1), { id: eventId(2), sequence: 2, text: undefined, payloadBlob: "o/2.json" }]);
        expect(unreadable).toEqual([]);
        expect(await storage.orders.readOrder(order)).toEqual(entity);
        expect(await storage.orders.readIdempotency(order, idempotencyRow("k"))).toBe('{"sequence":2}');
        expect((await storage.orders.readEntity(order, "line:1"))?.properties).toEqual({ amount: 5 });
      });

      it("C1: refuses the second insert of an order with already-exists and stores nothing of it", async () => {
        const order = newOrder();
        await storage.orders.commit(transaction(order));
        await failure(storage.orders.commit(transaction(order, { outbox: [outboxEntity(7)] })), "already-exists");
        expect((await storage.orders.readOutbox(order)).outbox).toEqual([outboxEntity(1)]);
      });

      it("C1, C04: refuses a stale etag with precondition-failed and stores nothing of it", async () => {
        const order = newOrder();
        await storage.orders.commit(transaction(order));
        const stale = (await storage.orders.readOrder(order))?.etag;
        const next = { sequence: 2, lastEventId: eventId(2), state: '{"status":"picked-up"}', commitTokens: [] };
        await storage.orders.commit(transaction(order, { etag: stale, entity: next, outbox: [outboxEntity(2)] }));
        await failure(
          storage.orders.commit(transaction(order, { etag: stale, entity: { ...next, state: '"lost"' }, outbox: [outboxEntity(3)] })),
          "precondition-failed",
        );
        const { order: entity, outbox } = await storage.orders.readOutbox(order);
        expect(entity?.state).toBe(next.state);
        expect(outbox.map(({ sequence }) => sequence)).toEqual([1, 2]);
      });

      it("C1: refuses an etag of an order that is not there with precondition-failed", async () => {
        const order = newOrder();
        await storage.orders.commit(transaction(order));
        const etag = (await storage.orders.readOrder(order))?.etag;
        await failure(storage.orders.commit(transaction(newOrder(), { etag })), "precondition-failed");
      });

      it("G1: a doubled event id rolls the order back with already-exists", async () => {
        const order = newOrder();
        await storage.orders.commit(transaction(order));
        const before = await storage.orders.readOrder(order);
        await failure(
          storage.orders.commit(
            transaction(order, { etag: before?.etag, entity: { sequence: 9, lastEventId: eventId(9), state: "{}", commitTokens: [] } }),
          ),
          "already-exists",
        );
        expect(await storage.orders.readOrder(order)).toEqual(before);
      });

      it("refuses a doubled idempotency row with already-exists", async () => {
        const order = newOrder();
        const idempotency = { rowKey: idempotencyRow("once"), result: "1" };
        await storage.orders.commit(transaction(order, { idempotency }));
        const etag = (await storage.orders.readOrder(order))?.etag;
        const again = transaction(order, { etag, outbox: [outboxEntity(2)], idempotency: { ...idempotency, result: "2" } });
        await failure(storage.orders.commit(again), "already-exists");
        expect(await storage.orders.readIdempotency(order, idempotency.rowKey)).toBe("1");
      });

      it("C7: a tombstone keeps sequence and last event id, and loses every piece of the state", async () => {
        const order = newOrder();
        await storage.orders.commit(
          transaction(order, {
            entity: { sequence: 1, lastEventId: eventId(1), state: JSON.stringify("x".repeat(90_000)), commitTokens: [] },
          }),
        );
        const etag = (await storage.orders.readOrder(order))?.etag;
        const tombstone = { sequence: 2, lastEventId: eventId(2), state: undefined, commitTokens: ["t"] };
        await storage.orders.commit(transaction(order, { etag, entity: tombstone, outbox: [outboxEntity(2)] }));
        expect(await storage.orders.readOrder(order)).toMatchObject(tombstone);
      });

      it("an order may be stored before its first event", async () => {
        const order = newOrder();
        const entity = { sequence: 0, lastEventId: undefined, state: "null", commitTokens: [] };
        await storage.orders.commit(transaction(order, { entity, outbox: [] }));
        expect(await storage.orders.readOrder(order)).toMatchObject(entity);
      });

      it("C26: long texts come back to the unit, surrogate pairs on the seams included", async () => {
        const order = newOrder();
        const state = JSON.stringify(`x${"😀".repeat(40_000)}`);
        const text = JSON.stringify("é".repeat(70_000));
        const result = JSON.stringify("r".repeat(40_000));
        await storage.orders.commit(
          transaction(order, {
            entity: { sequence: 1, lastEventId: eventId(1), state, commitTokens: [] },
            outbox: [outboxEntity(1, text)],
            idempotency: { rowKey: idempotencyRow("long"), result },
          }),
        );
        const answer = await storage.orders.readOutbox(order);
        expect(answer.order?.state === state).toBe(true);
        expect(answer.outbox[0]?.text === text).toBe(true);
        expect((await storage.orders.readIdempotency(order, idempotencyRow("long"))) === result).toBe(true);
      });

      it("C19: event text comes back to the unit, whatever characters it has", async () => {
        const order = newOrder();
        const text = `{"note":"café \u2028 \u2029 📦 \u0085 <&'> }{ --batch_x--","total":1.0}`;
        const state = '"}{\\r\\nHTTP/1.1 400 \u2028"';
        const entity = { sequence: 1, lastEventId: eventId(1), state, commitTokens: [] };
        await storage.orders.commit(transaction(order, { entity, outbox: [outboxEntity(1, text)] }));
        const answer = await storage.orders.readOutbox(order);
        expect(answer.order?.state).toBe(state);
        expect(answer.outbox[0]?.text).toBe(text);
      });

      it("takes a transaction of exactly 100 operations", async () => {
        const order = newOrder();
        const outbox = Array.from({ length: 99 }, (_, index) => outboxEntity(index + 1));
        await storage.orders.commit(
          transaction(order, { entity: { sequence: 99, lastEventId: eventId(99), state: "{}", commitTokens: [] }, outbox }),
        );
        expect((await storage.orders.readOutbox(order)).outbox).toEqual(outbox);
      });

      it("refuses 101 operations with too-large and writes nothing", async () => {
        const order = newOrder();
        const outbox = Array.from({ length: 100 }, (_, index) => outboxEntity(index + 1));
        const error = await failure(storage.orders.commit(transaction(order, { outbox })), "too-large");
        expect(error.message).toMatch(new RegExp(`${order}.*100`));
        expect(await storage.orders.readOrder(order)).toBeUndefined();
      });

      it("an aborted signal ends it before anything is written", async () => {
        const order = newOrder();
        await failure(storage.orders.commit(transaction(order), { signal: AbortSignal.abort() }), "aborted");
        expect(await storage.orders.readOrder(order)).toBeUndefined();
      });

      it("C1: of eight writers at one etag exactly one wins", async () => {
        const order = newOrder();
        await storage.orders.commit(transaction(order));
        const etag = (await storage.orders.readOrder(order))?.etag;
        const attempts = Array.from({ length: 8 }, (_, index) =>
          storage.orders.commit(
            transaction(order, {
              etag,
              entity: { sequence: 2, lastEventId: eventId(10 + index), state: "{}", commitTokens: [`t${index}`] },
              outbox: [{ id: eventId(10 + index), sequence: 2, text: "{}", payloadBlob: undefined }],
            }),
          ),
        );
        const outcomes = await Promise.allSettled(attempts);
        expect(outcomes.filter(({ status }) => status === "fulfilled")).toHaveLength(1);
        expect((await storage.orders.readOutbox(order)).outbox).toHaveLength(2);
      });
    });

    describe("reads", () => {
      it("answer undefined for what is not there", async () => {
        const order = newOrder();
        expect(await storage.orders.readOrder(order)).toBeUndefined();
        expect(await storage.orders.readIdempotency(order, idempotencyRow("k"))).toBeUndefined();
        expect(await storage.orders.readEntity(order, "line")).toBeUndefined();
        expect(await storage.orders.readOutbox(order)).toEqual({ order: undefined, outbox: [], unreadable: [] });
      });

      it("readOutbox sees no other row of the order and no other order", async () => {
        const order = newOrder();
        await storage.orders.commit(
          transaction(order, {
            idempotency: { rowKey: idempotencyRow("k"), result: "{}" },
            entities: ["nearby", "outbox;", "p", "ORDER"].map((rowKey) => ({ action: "insert", rowKey, properties: {} })),
          }),
        );
        await storage.orders.commit(transaction(`${order}0` as OrderKey));
        expect(await storage.orders.readOutbox(order)).toMatchObject({ outbox: [outboxEntity(1)], unreadable: [] });
      });

      it("G6: foreign rows in the range are named and left alone", async () => {
        const order = newOrder();
        await storage.orders.commit(transaction(order));
        const foreign = ["order-lines", "outbox:note", outboxRow(eventId(2)), outboxRow(eventId(3)), outboxRow(eventId(4))];
        await harness.putForeignRow(order, "order-lines", { n: 1 });
        await harness.putForeignRow(order, "outbox:note", { event: "{}", sequence: 2n });
        await harness.putForeignRow(order, outboxRow(eventId(2)), { event: "{}" });
        await harness.putForeignRow(order, outboxRow(eventId(3)), { event: "{}", sequence: "3" });
        await harness.putForeignRow(order, outboxRow(eventId(4)), { sequence: 4n });
        const answer = await storage.orders.readOutbox(order);
        expect(answer.outbox).toEqual([outboxEntity(1)]);
        expect(answer.unreadable.toSorted()).toEqual(foreign.toSorted());
        expect((await storage.orders.readOutbox(order)).unreadable).toHaveLength(foreign.length);
      });

      const corrupt: ReadonlyArray<readonly [name: string, properties: Readonly<Record<string, TableValue>>]> = [
        ["no sequence", { deleted: false, state: "{}", commitTokens: "[]" }],
        ["a sequence of text", { sequence: "1", deleted: false, state: "{}", commitTokens: "[]" }],
        ["a negative sequence", { sequence: -1n, deleted: false, state: "{}", commitTokens: "[]" }],
        ["a sequence beyond 2^53", { sequence: 2n ** 60n, lastEventId: eventId(1), deleted: false, state: "{}", commitTokens: "[]" }],
        ["no last event", { sequence: 1n, deleted: false, state: "{}", commitTokens: "[]" }],
        ["a last event that is no ULID", { sequence: 1n, lastEventId: "x", deleted: false, state: "{}", commitTokens: "[]" }],
        ["no state", { sequence: 0n, deleted: false, commitTokens: "[]" }],
        ["a state on a tombstone", { sequence: 0n, deleted: true, state: "{}", commitTokens: "[]" }],
        ["broken tokens", { sequence: 0n, deleted: true, commitTokens: "[" }],
        ["tokens of numbers", { sequence: 0n, deleted: true, commitTokens: "[1]" }],
      ];
      it.each(corrupt)("an order row with %s is corrupt", async (_name, properties) => {
        const order = newOrder();
        await harness.putForeignRow(order, "order", properties);
        await failure(storage.orders.readOrder(order), "corrupt");
        await failure(storage.orders.readOutbox(order), "corrupt");
      });

      it("an idempotency row without a result is corrupt", async () => {
        const order = newOrder();
        await harness.putForeignRow(order, idempotencyRow("k"), { other: 1 });
        await failure(storage.orders.readIdempotency(order, idempotencyRow("k")), "corrupt");
      });
    });

    describe("deleteOutbox", () => {
      it("deletes what it is told, and nothing else", async () => {
        const order = await commitEvents(storage, 4);
        await storage.orders.deleteOutbox(order, [eventId(1), eventId(3)]);
        expect(await left(storage, order)).toEqual([2, 4]);
        await storage.orders.deleteOutbox(order, [eventId(2)]);
        expect(await left(storage, order)).toEqual([4]);
        expect(await storage.orders.readOrder(order)).toBeDefined();
      });

      it("W11: those already gone are fine, alone, among others or all of them", async () => {
        const order = await commitEvents(storage, 5);
        await storage.orders.deleteOutbox(order, [eventId(2)]);
        await storage.orders.deleteOutbox(order, [eventId(2)]);
        await storage.orders.deleteOutbox(order, [eventId(1), eventId(2), eventId(3), eventId(3)]);
        await storage.orders.deleteOutbox(order, [eventId(1), eventId(2), eventId(3)]);
        await storage.orders.deleteOutbox(order, []);
        expect(await left(storage, order)).toEqual([4, 5]);
      });

      it("deletes more than one transaction holds", async () => {
        const order = await commitEvents(storage, 130);
        await storage.orders.deleteOutbox(order, [eventId(105)]);
        await storage.orders.deleteOutbox(
          order,
          Array.from({ length: 129 }, (_, index) => eventId(index + 1)),
        );
        expect(await left(storage, order)).toEqual([130]);
      });
    });
  });
}

/** Commits `count` events of a new order. */
async function commitEvents(storage: Storage, count: number): Promise<OrderKey> {
  const order = newOrder();
  const outbox = Array.from({ length: count }, (_, index) => outboxEntity(index + 1));
  for (let start = 0; start < count; start += 90) {
    const part = outbox.slice(start, start + 90);
    const last = part.at(-1);
    const etag = (await storage.orders.readOrder(order))?.etag;
    const entity = { sequence: last?.sequence ?? 0, lastEventId: last?.id, state: "{}", commitTokens: [] };
    await storage.orders.commit(transaction(order, { etag, entity, outbox: part }));
  }
  return order;
}

/** Sequences in the outbox. */
async function left(storage: Storage, order: OrderKey): Promise<readonly number[]> {
  return (await storage.orders.readOutbox(order)).outbox.map(({ sequence }) => sequence);
}
