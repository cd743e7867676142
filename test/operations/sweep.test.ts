import { describe, expect, it } from "vitest";
import { CONTROL_PARTITION, pauseRow } from "../../src/core/controls.ts";
import { decodeWakeUp } from "../../src/core/wake-up.ts";
import { createSweeper } from "../../src/operations/sweep.ts";
import { failure } from "../contract/harness.ts";
import { connectTestStorage } from "../support/azurite-storage.ts";
import {
  blobName,
  DAY_MS,
  emptyQueue,
  finished,
  holdLease,
  keyOf,
  MINUTE_MS,
  putPending,
  putProgress,
  wakeUps,
} from "./maintenance-support.ts";
import { sweepScene, type SweepScene } from "./sweep-support.ts";

const DECISION = { action: "redrive", actor: "ann", reason: "fixed", at: "2026-01-01T00:00:00.000Z" } as const;

describe("whom the sweep wakes", () => {
  it("G5, C09: an order with a pending event whose wake-up is lost, at once", async () => {
    const { storage, sweeper } = sweepScene();
    await putPending(storage, "o-1");
    expect(await sweeper.sweep()).toMatchObject({ woken: 1, marked: 0, leased: 0, wokenBefore: 0 });
    expect(wakeUps(storage)).toEqual([["o-1", 0]]);
  });

  it("a dry run tells whom it would wake, sends nothing and takes no lease", async () => {
    const { storage, sweeper } = sweepScene();
    await putPending(storage, "o-1");
    await putProgress(storage, "o-2", finished(3));
    await putPending(storage, "o-2", { number: 3 });
    expect(await sweeper.sweep({ dryRun: true })).toMatchObject({ woken: 2, marked: 1 });
    expect([wakeUps(storage), storage.leaseOf(keyOf("o-2"))?.state]).toEqual([[], "free"]);
    expect(await sweeper.sweep()).toMatchObject({ woken: 2, marked: 1 });
  });

  it.each(["100", "a/b", "ü 😀", "12345678901234567890"])("the OrderId %s reaches the queue as it is", async (orderId) => {
    const { storage, sweeper } = sweepScene();
    await putPending(storage, orderId);
    await sweeper.sweep();
    expect(storage.messages().map(({ text }) => decodeWakeUp(text))).toEqual([orderId]);
  });

  it("F2, C30: a parked head from the millisecond it is due, also after 8 days without anybody", async () => {
    const { clock, storage, sweeper } = sweepScene();
    await putPending(storage, "o-1", {
      state: { status: "parked", nextAttemptMs: clock.now() + 8 * DAY_MS, waitMs: 8 * DAY_MS, attempts: 3 },
    });
    await clock.advance(8 * DAY_MS - 1);
    expect(await sweeper.sweep()).toMatchObject({ woken: 0 });
    await clock.advance(1);
    expect(await sweeper.sweep()).toMatchObject({ woken: 1 });
  });

  it("C30: a parked head that a clock far ahead parked for too long", async () => {
    const { clock, storage, sweeper } = sweepScene();
    await putPending(storage, "o-1", { state: { status: "parked", nextAttemptMs: clock.now() + 365 * DAY_MS, waitMs: MINUTE_MS } });
    expect(await sweeper.sweep()).toMatchObject({ woken: 1 });
  });

  it("F3, F4: no blocked head, until a decision is recorded on it", async () => {
    const { storage, sweeper } = sweepScene();
    await putPending(storage, "waits", { state: { status: "blocked" } });
    storage.putBlob("dead", blobName("waits"), new Uint8Array());
    await putPending(storage, "decided", { state: { status: "blocked", decision: DECISION } });
    await sweeper.sweep();
    expect(wakeUps(storage)).toEqual([["decided", 0]]);
  });

  it("F4: a parked head that an operator redrives, before it is due", async () => {
    const { clock, storage, sweeper } = sweepScene();
    await putPending(storage, "o-1", { state: { status: "parked", nextAttemptMs: clock.now() + MINUTE_MS, decision: DECISION } });
    expect(await sweeper.sweep()).toMatchObject({ woken: 1 });
  });

  it("G2: the head alone counts: what waits behind a parked or blocked one is not due", async () => {
    const { clock, storage, sweeper } = sweepScene();
    await putPending(storage, "parked", { number: 1, state: { status: "parked", nextAttemptMs: clock.now() + MINUTE_MS } });
    await putPending(storage, "parked", { number: 2 });
    await putPending(storage, "blocked", { number: 1, state: { status: "blocked" } });
    storage.putBlob("dead", blobName("blocked"), new Uint8Array());
    await putPending(storage, "blocked", { number: 2 });
    expect(await sweeper.sweep()).toMatchObject({ woken: 0 });
  });

  it("G4: an order once, however many of its subscriptions are due, and also if another one is blocked", async () => {
    const { storage, sweeper } = sweepScene();
    await putPending(storage, "o-1", { subscription: "mail" });
    await putPending(storage, "o-1", { subscription: "sms" });
    await putPending(storage, "o-1", { subscription: "crm", state: { status: "blocked" } });
    await sweeper.sweep();
    expect(wakeUps(storage)).toEqual([["o-1", 0]]);
  });

  it("F5: nobody who is paused, as a whole or as one order", async () => {
    const { storage, sweeper } = sweepScene();
    for (const order of ["o-1", "o-2"]) for (const subscription of ["crm", "mail"]) await putPending(storage, order, { subscription });
    await storage.orders.putEntity(CONTROL_PARTITION, pauseRow("crm", undefined), {});
    await storage.orders.putEntity(CONTROL_PARTITION, pauseRow("mail", keyOf("o-1")), {});
    await sweeper.sweep();
    expect(wakeUps(storage)).toEqual([["o-2", 0]]);
    await storage.orders.deleteEntity(CONTROL_PARTITION, pauseRow("mail", keyOf("o-1")));
    await sweeper.sweep();
    expect(wakeUps(storage).map(([orderId]) => orderId)).toEqual(["o-2", "o-1"]);
  });

  it("F10: nobody for a subscription that no worker runs; its events are counted", async () => {
    const { storage, sweeper } = sweepScene({ subscriptions: ["mail"] });
    await putPending(storage, "o-1", { subscription: "gone" });
    const { woken, subscriptions } = await sweeper.sweep();
    expect(woken).toBe(0);
    expect(subscriptions).toMatchObject([{ subscription: "gone", pending: 1 }]);
    await putPending(storage, "o-2", { subscription: "gone", state: { decision: { ...DECISION, action: "discard" } } });
    await putPending(storage, "o-3", { subscription: "gone", state: { status: "parked", ending: "dead-lettered" } });
    await sweeper.sweep();
    // Neither a discard nor an end that is on record needs a handler.
    expect(wakeUps(storage)).toEqual([
      ["o-2", 0],
      ["o-3", 0],
    ]);
  });

  it("W6: nobody whose order a worker holds, until the lease runs out", async () => {
    const { clock, storage, sweeper } = sweepScene();
    await putPending(storage, "o-1");
    await holdLease(storage, "o-1", 30_000);
    expect(await sweeper.sweep()).toMatchObject({ woken: 0, leased: 1 });
    await clock.advance(30_000);
    expect(await sweeper.sweep()).toMatchObject({ woken: 1, marked: 0, leased: 0 });
  });

  it("W10: a blob without metadata of ours counts as pending; foreign names are told and left alone", async () => {
    const { storage, sweeper } = sweepScene();
    const foreign = ["Mail/o-1/y", "mail/o-1/sub/01JZ0000000000000000000001.json", "mail/o-1/x.json", "readme.txt"];
    for (const name of [blobName("o-1"), ...foreign]) storage.putBlob("events", name, new Uint8Array());
    const result = await sweeper.sweep();
    expect(result).toMatchObject({ woken: 1, foreign: { count: 4, names: foreign } });
    expect(storage.blobEntries("events")).toHaveLength(5);
  });
});

describe("leftovers of a dead worker", () => {
  it("W2, W3: a head behind the progress marks the order abandoned, and wakes it when the mark's lease has run out", async () => {
    const { clock, storage, sweeper } = sweepScene();
    await putProgress(storage, "o-1", finished(3));
    await putPending(storage, "o-1", { number: 3 });
    expect(await sweeper.sweep()).toMatchObject({ woken: 1, marked: 1 });
    expect(wakeUps(storage)).toEqual([["o-1", 16_000]]);
    await clock.advance(16_000);
    expect(storage.leaseOf(keyOf("o-1"))?.state).toBe("abandoned");
    expect(storage.blobEntries("events")).toHaveLength(1);
  });

  it("W2: a head after the progress, or of a subscription without progress, marks nothing", async () => {
    const { storage, sweeper } = sweepScene();
    await putProgress(storage, "o-1", finished(3));
    await putPending(storage, "o-1", { number: 4 });
    await putPending(storage, "o-1", { subscription: "sms", number: 1 });
    expect(await sweeper.sweep()).toMatchObject({ woken: 1, marked: 0 });
    expect(storage.leaseOf(keyOf("o-1"))?.state).toBe("free");
  });

  it("an order that is abandoned already is woken at once", async () => {
    const { clock, storage, sweeper } = sweepScene();
    await putProgress(storage, "o-1", finished(3));
    await putPending(storage, "o-1", { number: 3 });
    await holdLease(storage, "o-1", 15_000);
    await clock.advance(15_000);
    expect(await sweeper.sweep()).toMatchObject({ woken: 1, marked: 0 });
    expect(wakeUps(storage)).toEqual([["o-1", 0]]);
  });

  it("W6: a worker that takes the order in between wins, and there is no wake-up", async () => {
    const { storage, sweeper } = sweepScene();
    await putProgress(storage, "o-1", finished(3));
    await putPending(storage, "o-1", { number: 3 });
    let taken = false;
    storage.onCall = async ({ port, method }) => {
      if (port !== "leases" || method !== "acquire" || taken) return;
      taken = true;
      await holdLease(storage, "o-1");
    };
    expect(await sweeper.sweep()).toMatchObject({ woken: 0, leased: 1 });
    expect(wakeUps(storage)).toEqual([]);
  });

  it("progress that can't be read keeps nobody from being woken", async () => {
    const { storage, sweeper } = sweepScene();
    await putProgress(storage, "o-1", { progress: "{" });
    await putPending(storage, "o-1");
    expect(await sweeper.sweep()).toMatchObject({ woken: 1, marked: 0 });
  });
});

describe("how often", () => {
  /** Sweeps each minute and loses every wake-up; the minutes in which somebody was woken. */
  async function wokenMinutes({ clock, storage, sweeper }: SweepScene, minutes: number): Promise<readonly number[]> {
    const woken: number[] = [];
    for (let minute = 0; minute < minutes; minute++) {
      if ((await sweeper.sweep()).woken > 0) woken.push(minute);
      await emptyQueue(storage);
      await clock.advance(MINUTE_MS);
    }
    return woken;
  }

  it("G5: the same head is woken again after growing pauses, at last each 30 minutes, and for ever", async () => {
    const scene = sweepScene();
    await putPending(scene.storage, "o-1");
    expect(await wokenMinutes(scene, 150)).toEqual([0, 1, 3, 7, 14, 28, 55, 85, 115, 145]);
  });

  it("a head that was tried again, or another head, is new and is woken at once", async () => {
    const { clock, storage, sweeper } = sweepScene();
    const parked = { status: "parked", nextAttemptMs: clock.now() } as const;
    await putPending(storage, "o-1", { state: parked });
    await sweeper.sweep();
    expect(await sweeper.sweep()).toMatchObject({ woken: 0, wokenBefore: 1 });
    storage.deleteBlob("events", blobName("o-1"));
    await putPending(storage, "o-1", { state: { ...parked, attempts: 1 } });
    expect(await sweeper.sweep()).toMatchObject({ woken: 1 });
    storage.deleteBlob("events", blobName("o-1"));
    await putPending(storage, "o-1", { number: 2 });
    expect(await sweeper.sweep()).toMatchObject({ woken: 1 });
  });
});

describe("on Azurite", () => {
  it("G5, W2, W6: wakes the lost order, marks the one with leftovers, leaves the leased and the paused one alone", async () => {
    const storage = await connectTestStorage();
    for (const orderId of ["lost", "ghost", "leased", "paused"]) await putPending(storage, orderId);
    await putProgress(storage, "ghost", finished(1));
    await holdLease(storage, "leased");
    await storage.orders.putEntity(CONTROL_PARTITION, pauseRow("mail", keyOf("paused")), { actor: "ann" });
    const result = await createSweeper({ storage }).sweep();
    expect(result).toMatchObject({ woken: 2, marked: 1, leased: 1, foreign: { count: 0 } });
    expect(result.subscriptions).toMatchObject([{ subscription: "mail", pending: 4 }]);
    const visible = await storage.wakeUps.receive(32, 30_000);
    expect(visible.map(({ text }) => text)).toEqual(['"lost"']);
    expect((await storage.leases.read(keyOf("ghost")))?.state).toBe("taken");
    await failure(createSweeper({ storage }).sweep({ signal: AbortSignal.abort() }), "aborted");
  });
});
