/** The sweep when there is much to do, when others do the same, and when storage fails. */
import { describe, expect, it } from "vitest";
import { OutboxError } from "../../src/core/errors.ts";
import { eventTimeMs } from "../../src/core/event-time.ts";
import { createSweeper } from "../../src/operations/sweep.ts";
import { eventId, failure } from "../contract/harness.ts";
import { blobName, finished, keyOf, MINUTE_MS, putPending, putProgress, wakeUps } from "./maintenance-support.ts";
import { sweepScene } from "./sweep-support.ts";

const orderIds = (count: number): readonly string[] => Array.from({ length: count }, (_, index) => `o-${index}`);

describe("§7: what it tells and what it costs", () => {
  it("figures by subscription: pending, parked, blocked, oldest age, dead", async () => {
    const { clock, storage, sweeper } = sweepScene();
    await putPending(storage, "o-1", { number: 1, state: { status: "parked", nextAttemptMs: clock.now() + MINUTE_MS } });
    await clock.advance(5_000);
    await putPending(storage, "o-1", { number: 2 });
    await putPending(storage, "o-2", { state: { status: "blocked" } });
    await putPending(storage, "o-1", { subscription: "sms" });
    storage.putBlob("dead", blobName("o-2"), new Uint8Array());
    storage.putBlob("dead", blobName("o-9", 1, "crm"), new Uint8Array());
    // Behind every commit: the clock of the service is all there is.
    clock.setNow(0);
    expect((await sweeper.sweep()).subscriptions).toEqual([
      { subscription: "crm", pending: 0, parked: 0, blocked: 0, oldestAgeMs: 0, dead: 1 },
      { subscription: "mail", pending: 3, parked: 1, blocked: 1, oldestAgeMs: 5_000, dead: 1 },
      { subscription: "sms", pending: 1, parked: 0, blocked: 0, oldestAgeMs: 0, dead: 0 },
    ]);
  });

  it("a failed attempt, which changes the blob, does not make an event young; nor does a newer one behind it", async () => {
    const { clock, storage, sweeper } = sweepScene();
    await putPending(storage, "o-1", { state: { status: "parked", nextAttemptMs: clock.now() + MINUTE_MS } });
    clock.setNow(eventTimeMs(eventId(1)) + 3_600_000);
    expect((await sweeper.sweep()).subscriptions).toMatchObject([{ oldestAgeMs: 3_600_000 }]);
    await putPending(storage, "o-1", { number: 2 });
    expect((await sweeper.sweep()).subscriptions).toMatchObject([{ oldestAgeMs: 3_600_000 }]);
  });

  it("more than 5,000 pending events of 5,000 orders: every order is woken once", async () => {
    const { storage, sweeper } = sweepScene();
    for (const orderId of orderIds(5_000)) await putPending(storage, orderId);
    for (const orderId of orderIds(500)) await putPending(storage, orderId, { number: 2 });
    const { woken, subscriptions } = await sweeper.sweep();
    expect(woken).toBe(5_000);
    expect(subscriptions).toMatchObject([{ pending: 5_500 }]);
    expect(wakeUps(storage)).toHaveLength(5_000);
    expect(new Set(wakeUps(storage).map(([orderId]) => orderId)).size).toBe(5_000);
  });

  it.each([10, 10_000])("O(pending): beside %d idle orders the calls are those of the two that have something due", async (idle) => {
    const { clock, storage, sweeper } = sweepScene();
    for (let index = 0; index < idle; index++) {
      const order = keyOf(`idle-${index}`);
      await storage.leases.create(order);
      storage.putRow(order, "order", { sequence: 1n });
      storage.putBlob("archive", blobName(`idle-${index}`), new Uint8Array());
    }
    await putPending(storage, "o-1");
    await putPending(storage, "o-2");
    await putPending(storage, "parked", { state: { status: "parked", nextAttemptMs: clock.now() + MINUTE_MS } });
    await putPending(storage, "blocked", { state: { status: "blocked" } });
    storage.putBlob("dead", blobName("blocked"), new Uint8Array());
    storage.forgetCalls();
    await sweeper.sweep();
    expect(storage.callCounts()).toEqual({ "blobs.list": 2, "orders.listEntities": 1, "leases.read": 2, "wakeUps.send": 2 });
    storage.forgetCalls();
    await sweeper.sweep();
    expect(storage.callCounts()).toEqual({ "blobs.list": 2, "orders.listEntities": 1 });
  });
});

describe("C42: overlap", () => {
  it("two sweeps at once over 500 orders do no harm: at most two wake-ups each, one mark, and nothing else changes", async () => {
    const { clock, storage, sweeper } = sweepScene();
    for (const orderId of orderIds(500)) await putPending(storage, orderId);
    await putProgress(storage, "ghost", finished(1));
    await putPending(storage, "ghost");
    const before = storage.blobEntries("events");
    const results = await Promise.all([sweeper.sweep(), createSweeper({ storage, clock }).sweep()]);
    expect(results[0].marked + results[1].marked).toBe(1);
    expect(wakeUps(storage).filter(([orderId]) => orderId === "ghost")).toHaveLength(1);
    expect(wakeUps(storage)).toHaveLength(1_001);
    expect(new Set(wakeUps(storage).map(([orderId]) => orderId)).size).toBe(501);
    expect(storage.blobEntries("events")).toEqual(before);
  });
});

describe("when storage fails", () => {
  it("C4: the queue is down: the sweep fails after few tries, and the next one wakes everybody", async () => {
    const { storage, sweeper } = sweepScene();
    for (const orderId of orderIds(100)) await putPending(storage, orderId);
    storage.onCall = ({ port }) => {
      if (port === "wakeUps") throw new OutboxError("unavailable", "the queue is down");
    };
    await failure(sweeper.sweep(), "unavailable");
    expect(storage.callCounts()["wakeUps.send"]).toBeLessThan(50);
    storage.onCall = undefined;
    expect(await sweeper.sweep()).toMatchObject({ woken: 100 });
  });

  it("G4: one order that fails keeps no other from being woken, and the failure is told", async () => {
    const { storage, sweeper } = sweepScene();
    for (const orderId of orderIds(100)) await putPending(storage, orderId);
    storage.onCall = ({ port, method, args }) => {
      if (port === "leases" && method === "read" && args[0] === keyOf("o-0")) throw new OutboxError("storage", "odd");
    };
    await failure(sweeper.sweep(), "storage");
    expect(wakeUps(storage)).toHaveLength(99);
  });

  it("an aborted signal ends it, before and between its calls", async () => {
    const { storage, sweeper } = sweepScene();
    for (const orderId of orderIds(100)) await putPending(storage, orderId);
    await failure(sweeper.sweep({ signal: AbortSignal.abort() }), "aborted");
    const controller = new AbortController();
    storage.forgetCalls();
    storage.onCall = ({ port }) => (port === "leases" ? controller.abort() : undefined);
    await failure(sweeper.sweep({ signal: controller.signal }), "aborted");
    expect(wakeUps(storage)).toEqual([]);
    expect(storage.callCounts()["leases.read"]).toBeLessThan(20);
    const atOnce = new AbortController();
    storage.onCall = ({ method }) => (method === "listEntities" ? { after: () => atOnce.abort() } : undefined);
    await failure(sweeper.sweep({ signal: atOnce.signal }), "aborted");
  });
});
