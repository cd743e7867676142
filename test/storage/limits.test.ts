/** What the service refuses and the emulator does not: refused here, before any request (C6, C26, C48). */
import { beforeAll, beforeEach, describe, expect, it } from "vitest";
import type { OutboxEntity } from "../../src/core/ports.ts";
import { connectTestStorage, type TestStorage } from "../support/azurite-storage.ts";
import { eventId, failure, newOrder, outboxEntity, transaction } from "../contract/harness.ts";

const withState = (length: number) => {
  const order = newOrder();
  return transaction(order, { entity: { sequence: 1, lastEventId: eventId(1), state: "x".repeat(length), commitTokens: [] } });
};

const events = (text: string): readonly OutboxEntity[] => Array.from({ length: 10 }, (_, index) => outboxEntity(index + 1, text));

describe("limits", () => {
  let storage: TestStorage;
  beforeAll(async () => {
    storage = await connectTestStorage();
  });
  beforeEach(() => storage.calls.reset());

  it("C26: an order of 480,000 units is stored", async () => {
    const commit = withState(480_000);
    await storage.orders.commit(commit);
    expect((await storage.orders.readOrder(commit.order))?.state?.length).toBe(480_000);
  });

  it("C26: an order above 1 MiB is refused before any request, naming limit and order", async () => {
    const commit = withState(500_000);
    const error = await failure(storage.orders.commit(commit), "too-large");
    expect(error.message).toContain("1000000");
    expect(error.message).toContain(commit.order);
    expect(storage.calls.snapshot().total).toBe(0);
  });

  it("a transaction above 4 MiB is refused before any request, counted in UTF-8", async () => {
    const order = newOrder();
    // 300,000 units are 600,000 bytes of an entity whatever they are, but 300,000 or 900,000 bytes of the request.
    const error = await failure(storage.orders.commit(transaction(order, { outbox: events("€".repeat(300_000)) })), "too-large");
    expect(error.message).toContain("4000000");
    expect(error.message).toContain(order);
    expect(storage.calls.snapshot().total).toBe(0);
    const entity = { sequence: 10, lastEventId: eventId(10), state: "{}", commitTokens: [] };
    await storage.orders.commit(transaction(order, { entity, outbox: events("e".repeat(300_000)) }));
  });

  it("101 operations are refused before any request", async () => {
    const outbox = Array.from({ length: 100 }, (_, index) => outboxEntity(index + 1));
    await failure(storage.orders.commit(transaction(newOrder(), { outbox })), "too-large");
    expect(storage.calls.snapshot().total).toBe(0);
  });

  it("refused values, names and row keys make no request", async () => {
    const commit = (rowKey: string, properties: Record<string, number>): Promise<void> =>
      storage.orders.commit(transaction(newOrder(), { entities: [{ action: "upsert", rowKey, properties }] }));
    await failure(commit("row", { a: Number.NaN }), "invalid-state");
    await failure(commit("row", { "a-b": 1 }), "invalid-state");
    await failure(commit("order", { a: 1 }), "invalid-state");
    await failure(storage.wakeUps.send('"o-1"', -1), "invalid-option");
    await failure(storage.blobs.create("events", "a/1", new Uint8Array(1), { a: "é" }), "bug");
    expect(storage.calls.snapshot().total).toBe(0);
  });

  it("an event with neither text nor payload blob is a bug", async () => {
    const outbox = [{ id: eventId(1), sequence: 1, text: undefined, payloadBlob: undefined }];
    await failure(storage.orders.commit(transaction(newOrder(), { outbox })), "bug");
  });
});
