import { describe, expect, it } from "vitest";
import { CONTROL_PARTITION } from "../../src/core/controls.ts";
import { OutboxError } from "../../src/core/errors.ts";
import { outboxRow } from "../../src/core/names.ts";
import { createReconciler, type Reconciler } from "../../src/operations/reconcile.ts";
import { eventId, failure, outboxEntity, transaction } from "../contract/harness.ts";
import { connectTestStorage } from "../support/azurite-storage.ts";
import { ManualClock } from "../support/manual-clock.ts";
import { createMemoryStorage, type MemoryStorage } from "../support/memory-storage.ts";
import { DAY_MS, emptyQueue, keyOf, MINUTE_MS, wakeUps } from "./maintenance-support.ts";

interface Scene {
  readonly clock: ManualClock;
  readonly storage: MemoryStorage;
  readonly reconciler: Reconciler;
}

function scene(): Scene {
  const clock = new ManualClock();
  const storage = createMemoryStorage(clock);
  return { clock, storage, reconciler: createReconciler({ storage, clock }) };
}

/** Orders `o-0000`… with one unrelayed event each. */
function putOrders({ storage }: Scene, count: number): readonly string[] {
  const orderIds = Array.from({ length: count }, (_, index) => `o-${String(index).padStart(4, "0")}`);
  for (const orderId of orderIds) storage.putRow(keyOf(orderId), outboxRow(eventId(1)), { sequence: 1n, event: "{}" });
  return orderIds;
}

const woken = (storage: MemoryStorage): readonly string[] => wakeUps(storage).map(([orderId]) => orderId);
const cursorOf = (storage: MemoryStorage): unknown =>
  storage.rows(CONTROL_PARTITION).find(({ rowKey }) => rowKey === "reconcile")?.properties["from"];

describe("reconcile", () => {
  it("C4, C09: wakes an order whose event nobody relayed, once, however many events it has", async () => {
    const { clock, storage, reconciler } = scene();
    const outbox = [outboxEntity(1), outboxEntity(2)];
    const entity = { sequence: 2, lastEventId: eventId(2), state: "{}", commitTokens: [] };
    await storage.orders.commit(transaction(keyOf("a/b 100"), { entity, outbox }));
    await clock.advance(MINUTE_MS + 1);
    expect(await reconciler.reconcile()).toEqual({ seen: 2, overdue: 2, woken: 1, complete: true });
    expect(wakeUps(storage)).toEqual([["a/b 100", 0]]);
  });

  it("leaves events to their own wake-up for the safety delay, by the clock of the service alone", async () => {
    const { clock, storage, reconciler } = scene();
    await storage.orders.commit(transaction(keyOf("o-1")));
    clock.setNow(clock.now() + 2 * DAY_MS);
    await clock.advance(MINUTE_MS);
    expect(await reconciler.reconcile()).toMatchObject({ seen: 1, overdue: 0, woken: 0 });
    await clock.advance(1);
    expect(await reconciler.reconcile()).toMatchObject({ seen: 1, overdue: 1, woken: 1 });
  });

  it("a dry run tells whom it would wake, sends nothing and keeps no place", async () => {
    const own = scene();
    putOrders(own, 1_001);
    await own.clock.advance(2 * MINUTE_MS);
    expect(await own.reconciler.reconcile({ dryRun: true, maxPages: 1 })).toEqual({
      seen: 1_000,
      overdue: 1_000,
      woken: 1_000,
      complete: false,
    });
    expect([woken(own.storage), cursorOf(own.storage)]).toEqual([[], undefined]);
    expect(await own.reconciler.reconcile()).toMatchObject({ woken: 1_001, complete: true });
  });

  it("the safety delay is a setting", async () => {
    const { clock, storage } = scene();
    await storage.orders.commit(transaction(keyOf("o-1")));
    await clock.advance(1_001);
    expect(await createReconciler({ storage, clock, safetyDelayMs: 1_000 }).reconcile()).toMatchObject({ woken: 1 });
  });

  it("goes through the table a part a run, in any process, and then begins anew", async () => {
    const all = scene();
    const orderIds = putOrders(all, 2_500);
    await all.clock.advance(2 * MINUTE_MS);
    const runs = [];
    for (let run = 0; run < 3; run++) {
      const { storage, clock } = all;
      runs.push(await createReconciler({ storage, clock }).reconcile({ maxPages: 1 }));
    }
    expect(runs.map((run) => [run.woken, run.complete])).toEqual([
      [1_000, false],
      [1_000, false],
      [500, true],
    ]);
    expect(woken(all.storage)).toEqual(orderIds);
    expect(cursorOf(all.storage)).toBeUndefined();
  });

  it("the queue is down: the run fails, keeps its place, and the next one wakes everybody", async () => {
    const all = scene();
    const orderIds = putOrders(all, 1_500);
    await all.clock.advance(2 * MINUTE_MS);
    await all.reconciler.reconcile({ maxPages: 1 });
    const place = cursorOf(all.storage);
    expect(place).toBeTypeOf("string");
    all.storage.onCall = ({ port }) => {
      if (port === "wakeUps") throw new OutboxError("unavailable", "the queue is down");
    };
    await failure(all.reconciler.reconcile({ maxPages: 1 }), "unavailable");
    expect(cursorOf(all.storage)).toBe(place);
    all.storage.onCall = undefined;
    expect(await all.reconciler.reconcile({ maxPages: 1 })).toMatchObject({ woken: 500, complete: true });
    expect(new Set(woken(all.storage))).toEqual(new Set(orderIds));
  });

  it.each(["garbage", 7n])("a place that something else wrote (%s) means: from the beginning", async (from) => {
    const { clock, storage, reconciler } = scene();
    await storage.orders.commit(transaction(keyOf("o-1")));
    await storage.orders.putEntity(CONTROL_PARTITION, "reconcile", { from });
    await clock.advance(2 * MINUTE_MS);
    expect(await reconciler.reconcile()).toMatchObject({ woken: 1, complete: true });
  });

  it("the same trouble is told again after growing pauses only; another one at once", async () => {
    const { clock, storage, reconciler } = scene();
    await storage.orders.commit(transaction(keyOf("o-1")));
    await clock.advance(2 * MINUTE_MS);
    const runs: number[] = [];
    for (let minute = 0; minute < 10; minute++) {
      runs.push((await reconciler.reconcile()).woken);
      await emptyQueue(storage);
      await clock.advance(MINUTE_MS);
    }
    expect(runs).toEqual([1, 1, 0, 1, 0, 0, 0, 1, 0, 0]);
    storage.deleteRow(keyOf("o-1"), outboxRow(eventId(1)));
    storage.putRow(keyOf("o-1"), outboxRow(eventId(2)), { sequence: 2n, event: "{}" });
    await clock.advance(2 * MINUTE_MS);
    expect(await reconciler.reconcile()).toMatchObject({ woken: 1 });
  });

  it("G6: two at once are harmless: nothing is changed but the place", async () => {
    const all = scene();
    putOrders(all, 1_500);
    await all.clock.advance(2 * MINUTE_MS);
    const before = all.storage.rows(keyOf("o-0000"));
    const { storage, clock } = all;
    await Promise.all([all.reconciler.reconcile(), createReconciler({ storage, clock }).reconcile()]);
    expect(new Set(woken(storage)).size).toBe(1_500);
    expect(storage.rows(keyOf("o-0000"))).toEqual(before);
  });

  it("bad settings are refused", async () => {
    const { storage, reconciler } = scene();
    expect(() => createReconciler({ storage, safetyDelayMs: -1 })).toThrow("safetyDelayMs");
    await failure(reconciler.reconcile({ maxPages: 0 }), "invalid-option");
  });

  it("on Azurite: finds what nobody relayed, page by page, from a place that the service knows", async () => {
    const storage = await connectTestStorage();
    for (let start = 0; start < 1_089; start += 99) {
      const outbox = Array.from({ length: 99 }, (_, index) => outboxEntity(start + index + 1));
      const etag = (await storage.orders.readOrder(keyOf("big")))?.etag;
      const entity = { sequence: start + 99, lastEventId: eventId(start + 99), state: "{}", commitTokens: [] };
      await storage.orders.commit(transaction(keyOf("big"), { etag, entity, outbox }));
    }
    await storage.orders.commit(transaction(keyOf("small")));
    expect(await createReconciler({ storage }).reconcile()).toMatchObject({ seen: 1_090, overdue: 0, woken: 0, complete: true });
    // Whole seconds in the service's date: younger ones may count as 0 ms old.
    const runs = [];
    for (let run = 0; run < 2; run++) runs.push(await createReconciler({ storage, safetyDelayMs: 0 }).reconcile({ maxPages: 1 }));
    expect(runs.map(({ seen, complete }) => [seen, complete])).toEqual([
      [1_000, false],
      [90, true],
    ]);
  });
});
