/** G4: at most `concurrency` handlers of a subscription run at once in a process, and a slow subscription holds up nobody else. */
import { afterEach, describe, expect, test } from "vitest";
import { encodeWakeUp } from "../../src/core/wake-up.ts";
import { defineSubscription, type Subscription } from "../../src/core/workflow.ts";
import { startWorkerHost, type WorkerHost } from "../../src/worker/host.ts";
import type { Worker } from "../../src/worker/round-result.ts";
import { SLICE_MS } from "../../src/worker/slots.ts";
import { settle } from "../support/manual-clock.ts";
import { archived, BOB, contextOf, deliver, findings, headId, oid, pendingStates } from "./operator-support.ts";
import { mortal, Scene, workflow } from "./round-support.ts";
import { decideOrder } from "../../src/operations/decide-many.ts";

const MINUTE = 60_000;

let host: WorkerHost | undefined;
let scene: Scene;

afterEach(async () => {
  const stopped = host?.stop({ abortNow: true });
  host = undefined;
  await scene.clock.advance(600_000);
  await stopped;
});

function slow(concurrency: number | undefined, name = "slow"): Subscription {
  const base = scene.subscription(name, { retry: { timeoutMs: 600_000, shortStarts: 2, shortDelayMs: 2_000, longDelayMs: 10_000 } });
  return { ...base, concurrency };
}

/** Handlers of `slow` take this long; who runs now and at most is counted. */
function takesMs(ms: number, name = "slow"): { running: number; most: number } {
  const seen = { running: 0, most: 0 };
  scene.onHandle = async (entry) => {
    if (!entry.startsWith(`${name} `)) return;
    seen.running += 1;
    seen.most = Math.max(seen.most, seen.running);
    await scene.clock.sleep(ms);
    seen.running -= 1;
  };
  return seen;
}

function sends(): number {
  return scene.storage.calls.filter(({ port, method }) => port === "wakeUps" && method === "send").length;
}

function start(worker: Worker, options: { readonly concurrency?: number; readonly pollMaxMs?: number } = {}): void {
  host = startWorkerHost({ worker, wakeUps: scene.storage.wakeUps, clock: scene.clock, random: () => 0.5, pollMaxMs: 500, ...options });
}

/** Less than the 7.5 s after which an order in line looks again by itself. */
const SHORT = 5_000;

describe("no free slot", () => {
  test("the head stands without an attempt and gives its order back; the slot that becomes free wakes it, once", async () => {
    scene = new Scene();
    takesMs(SHORT);
    const worker = scene.worker([slow(1)]);
    await scene.commit("o-1", [1]);
    await scene.commit("o-2", [2]);
    const first = worker.handle("o-1");
    await settle();
    const calm = scene.storage.calls.length;
    expect(await worker.handle("o-2")).toEqual({ status: "left", retryInMs: 7_500, handled: 0, problems: [] });
    // Its relay included; the event is not even read.
    expect(scene.storage.calls.length - calm).toBeLessThanOrEqual(11);
    expect(scene.log).toEqual(["slow E1"]);
    expect(pendingStates(scene, "slow", "o-2")).toMatchObject([{ attempts: 0, crashes: 0, status: "pending" }]);
    expect(scene.storage.leaseOf(oid("o-2") as never)?.state).toBe("free");
    // Nothing goes round while the slot is taken.
    const messages = scene.storage.messages().length;
    scene.storage.forgetCalls();
    await scene.clock.advance(SHORT - 1_000);
    expect(sends()).toBe(0);
    await scene.until(first);
    expect(sends()).toBe(1);
    expect(scene.storage.messages()).toHaveLength(messages + 1);
    await deliver(scene, worker);
    expect(scene.log).toEqual(["slow E1", "slow E2"]);
    expect(archived(scene, "slow", "o-2")).toMatchObject([{ attempts: "1" }]);
    expect(await findings(scene)).toEqual([]);
  });

  /** The slot of o-1 has become free and o-2 was woken, who does not come: another process may have received its wake-up. o-3 is the next. */
  async function freed(): Promise<{ readonly worker: Worker; readonly wokenThird: () => number }> {
    scene = new Scene();
    takesMs(SHORT);
    const worker = scene.worker([slow(1)]);
    for (const n of [1, 2, 3]) await scene.commit(`o-${n}`, [n]);
    const first = worker.handle("o-1");
    await settle();
    await worker.handle("o-2");
    await worker.handle("o-3");
    const wakeUps = (): number => scene.storage.messages().filter(({ text }) => text === encodeWakeUp(oid("o-3"))).length;
    const before = wakeUps();
    await scene.until(first);
    return { worker, wokenThird: () => wakeUps() - before };
  }

  test("the slot is kept for nobody: an order that comes before the one that was woken takes it", async () => {
    const { worker } = await freed();
    await scene.commit("o-4", [4]);
    const fourth = worker.handle("o-4");
    await settle();
    expect(scene.log).toEqual(["slow E1", "slow E4"]);
    expect((await worker.handle("o-2")).status).toBe("left");
    await scene.until(fourth);
    await scene.until(worker.handle("o-2"));
    await scene.until(worker.handle("o-3"));
    expect(scene.log).toEqual(["slow E1", "slow E4", "slow E2", "slow E3"]);
  });

  test("while the slot stays free the next in line is woken after 500 ms, and no timer is left when the line is empty", async () => {
    const { worker, wokenThird } = await freed();
    await scene.clock.advance(499);
    expect(wokenThird()).toBe(0);
    await scene.clock.advance(1);
    expect(wokenThird()).toBe(1);
    await scene.clock.advance(500);
    expect(wokenThird()).toBe(1);
    expect(scene.clock.pending()).toBe(0);
    await scene.until(worker.handle("o-3"));
    expect(scene.log).toEqual(["slow E1", "slow E3"]);
  });

  test("a slot that is taken wakes nobody further, and leaves no timer behind", async () => {
    const { worker, wokenThird } = await freed();
    expect(scene.clock.pending()).toBe(1);
    const second = worker.handle("o-2");
    await scene.clock.advance(SHORT - 1);
    expect(wokenThird()).toBe(0);
    await scene.until(second);
    expect(wokenThird()).toBe(0);
    // It stood in line for longer than it waits: its own wake-up comes, and finds the slot free.
    await scene.until(worker.handle("o-3"));
    expect(scene.log).toEqual(["slow E1", "slow E2", "slow E3"]);
    await scene.clock.advance(500);
    expect(scene.clock.pending()).toBe(0);
  });

  test("who should have looked again by now is not in line any more: the slot goes to those who are", async () => {
    scene = new Scene();
    takesMs(MINUTE);
    const worker = scene.worker([slow(1)]);
    for (const n of [1, 2, 3]) await scene.commit(`o-${n}`, [n]);
    const first = worker.handle("o-1");
    await settle();
    await worker.handle("o-2");
    await scene.clock.advance(MINUTE - 1_000);
    await worker.handle("o-3");
    const count = (n: number): number => scene.storage.messages().filter(({ text }) => text === encodeWakeUp(oid(`o-${n}`))).length;
    const before = [count(2), count(3)];
    await scene.until(first);
    await scene.clock.advance(1_000);
    expect([count(2), count(3)]).toEqual([before[0], before[1]! + 1]);
  });

  test("a worker that stops ends the timer and wakes nobody further", async () => {
    const { worker, wokenThird } = await freed();
    expect(scene.clock.pending()).toBe(1);
    worker.stopStarting();
    await settle();
    expect(scene.clock.pending()).toBe(0);
    await scene.clock.advance(10_000);
    expect(wokenThird()).toBe(0);
  });

  test("an order that looks again in vain waits longer each time, up to a minute", async () => {
    scene = new Scene();
    takesMs(3_600_000);
    const worker = scene.worker([{ ...slow(1), retry: { ...slow(1).retry, timeoutMs: 3_600_000 } }], { random: () => 0.999 });
    await scene.commit("o-1", [1]);
    await scene.commit("o-2", [2]);
    void worker.handle("o-1");
    await settle();
    const waits: number[] = [];
    for (let time = 0; time < 6; time++) waits.push((await worker.handle("o-2")).retryInMs);
    expect(waits).toEqual([9_995, 19_985, 39_965, 59_945, 59_945, 59_945]);
    await scene.clock.advance(3_600_000);
  });

  test("the queue is down when the slot becomes free: after 500 ms the next in line is woken", async () => {
    scene = new Scene();
    takesMs(SHORT);
    const worker = scene.worker([slow(1)]);
    for (const n of [1, 2, 3]) await scene.commit(`o-${n}`, [n]);
    const first = worker.handle("o-1");
    await settle();
    await worker.handle("o-2");
    await worker.handle("o-3");
    let failures = 0;
    scene.storage.onCall = ({ method, args }) => {
      if (method !== "send" || args[0] !== encodeWakeUp(oid("o-2"))) return;
      failures += 1;
      throw new Error("the queue is down");
    };
    await scene.until(first);
    expect(failures).toBe(1);
    await scene.clock.advance(500);
    expect(failures).toBe(1);
    expect(scene.storage.messages().filter(({ text }) => text === encodeWakeUp(oid("o-3"))).length).toBe(2);
    const third = worker.handle("o-3");
    await settle();
    expect(scene.log).toEqual(["slow E1", "slow E3"]);
    await scene.until(third);
  });
});

describe("while another handler of the same order runs", () => {
  /** o-1 has the only slot for 10 s; the round of o-2 goes on for a minute because of `mail`. */
  async function waitingInItsRound(): Promise<{ readonly round: Promise<unknown>; readonly worker: Worker }> {
    scene = new Scene();
    scene.onHandle = (entry) => scene.clock.sleep(entry === "mail E2" ? MINUTE : 10_000);
    const worker = scene.worker([slow(1), { ...slow(undefined, "mail") }]);
    await scene.commit("o-1", [1]);
    await scene.commit("o-2", [2]);
    void worker.handle("o-1");
    await settle();
    const round = worker.handle("o-2");
    await settle();
    expect(scene.log).toEqual(["slow E1", "mail E1", "mail E2"]);
    return { round, worker };
  }

  test("the slot that becomes free lets the stream go on in the same round, without a wake-up", async () => {
    const { round } = await waitingInItsRound();
    scene.storage.forgetCalls();
    await scene.clock.advance(10_000);
    expect(scene.log).toEqual(["slow E1", "mail E1", "mail E2", "slow E2"]);
    expect(sends()).toBe(0);
    expect(await scene.until(round)).toMatchObject({ status: "done", handled: 2 });
    expect(archived(scene, "slow", "o-2")).toMatchObject([{ attempts: "1" }]);
    expect(await findings(scene)).toEqual([]);
  });

  test("F4: what an operator decides about the waiting event meanwhile is carried out instead", async () => {
    const { round } = await waitingInItsRound();
    const target = { orderId: oid("o-2"), subscription: "slow", id: headId(scene, "slow", "o-2") };
    await decideOrder(contextOf(scene), "discard", target, BOB);
    await scene.clock.advance(10_000);
    expect(await scene.until(round)).toMatchObject({ status: "done" });
    expect(scene.log).toEqual(["slow E1", "mail E1", "mail E2"]);
    expect(archived(scene, "slow", "o-2")).toMatchObject([{ outcome: "discarded" }]);
  });

  test("a stream that is through leaves its slot although its round goes on", async () => {
    scene = new Scene();
    scene.onHandle = (entry) => (entry.startsWith("mail") ? scene.clock.sleep(MINUTE) : undefined);
    const worker = scene.worker([slow(1), slow(undefined, "mail")]);
    await scene.commit("o-1", [1]);
    await scene.commit("o-2", [2]);
    const rounds = [worker.handle("o-1"), worker.handle("o-2")];
    await settle();
    await scene.clock.advance(1_000);
    expect(scene.log.filter((entry) => entry.startsWith("slow"))).toEqual(["slow E1", "slow E2"]);
    await scene.until(Promise.all(rounds));
  });
});

test("short handlers: an order keeps its slot for 10 s, then the next in line gets it; no round for each event", async () => {
  scene = new Scene();
  takesMs(100);
  const worker = scene.worker([slow(1)]);
  const numbers = Array.from({ length: 300 }, (_, index) => index);
  await scene.commit("o-1", numbers.slice(0, 90));
  await scene.commit("o-1", numbers.slice(90, 180));
  start(worker);
  await scene.clock.advance(100);
  await scene.commit("o-2", [1_000]);
  scene.storage.forgetCalls();
  await scene.clock.advance(SLICE_MS + 2_000);
  // o-1 had given way to o-2 by then.
  const place = scene.log.indexOf("slow E1000");
  expect(place).toBeGreaterThanOrEqual(SLICE_MS / 100 - 5);
  expect(place).toBeLessThanOrEqual(SLICE_MS / 100 + 5);
  await scene.clock.advance(30_000);
  expect(scene.log).toHaveLength(181);
  expect(scene.storage.callCounts()["leases.acquire"]).toBeLessThanOrEqual(6);
  expect(scene.log.filter((entry) => entry !== "slow E1000")).toEqual(numbers.slice(0, 180).map((n) => `slow E${n}`));
  expect(await findings(scene)).toEqual([]);
});

test("an order that nobody waits behind goes on for as long as it has events, in one round and without a break", async () => {
  scene = new Scene();
  takesMs(100);
  await scene.commit(
    "o-1",
    Array.from({ length: 90 }, (_, n) => n),
  );
  await scene.commit(
    "o-1",
    Array.from({ length: 90 }, (_, n) => 90 + n),
  );
  const round = scene.worker([slow(1)]).handle("o-1");
  expect(await scene.until(round)).toMatchObject({ status: "done", handled: 180 });
  expect(scene.storage.callCounts()["leases.acquire"]).toBe(1);
  expect(scene.clock.monotonic()).toBeLessThanOrEqual(18_000 + 1_000);
});

test("F1: an event that waits for its short retry leaves its slot to others", async () => {
  scene = new Scene();
  let failed = false;
  scene.onHandle = (entry) => {
    if (entry !== "slow E1" || failed) return;
    failed = true;
    throw new Error("busy");
  };
  const worker = scene.worker([slow(1)]);
  await scene.commit("o-1", [1]);
  await scene.commit("o-2", [2]);
  const round = worker.handle("o-1");
  await settle();
  await worker.handle("o-2");
  expect(scene.log).toEqual(["slow E1", "slow E2"]);
  await scene.until(round);
  expect(scene.log).toEqual(["slow E1", "slow E2", "slow E1"]);
});

test("C06, W4: suspects of a crash take turns and slots together; nobody waits for ever", async () => {
  scene = new Scene();
  for (const n of [1, 2, 3]) await scene.commit(`o-${n}`, [n]);
  scene.onHandle = () => new Promise(() => undefined);
  const died = mortal(scene.storage, -1, "is-refused", new Error("unused"));
  const dead = scene.worker([slow(undefined)], { storage: died.storage });
  for (const n of [1, 2, 3]) void dead.handle(`o-${n}`);
  await settle();
  for (const n of [1, 2, 3]) scene.storage.breakLease(oid(`o-${n}`) as never);
  await scene.clock.advance(31_000);
  const seen = takesMs(1_000);
  scene.log.length = 0;
  start(scene.worker([slow(1)]));
  await scene.clock.advance(2 * MINUTE);
  expect(seen.most).toBe(1);
  expect(scene.log.toSorted()).toEqual(["slow E1", "slow E2", "slow E3"]);
  expect(await findings(scene)).toEqual([]);
});

describe.each([
  ["by default what the host leaves to it", undefined, 12],
  ["with a concurrency of 3", 3, 3],
] as const)("a handler of 60 s, 40 orders, a host of 16: %s", (_name, concurrency, most) => {
  test("no other subscription and no other order waits for it; storage calls stay few", async () => {
    scene = new Scene();
    const seen = takesMs(MINUTE);
    const startedAt = new Map<string, number>();
    const inner = scene.onHandle;
    scene.onHandle = (entry, call) => {
      startedAt.set(entry, scene.clock.monotonic());
      return inner(entry, call);
    };
    // `slow` wants steps only, `mail` everything.
    const worker = scene.worker([{ ...slow(concurrency), wants: ({ type }) => type === "step" }, scene.subscription("mail")]);
    for (let n = 1; n <= 40; n++) await scene.commit(`o-${n}`, [n]);
    start(worker);
    const began = scene.clock.monotonic();
    await scene.clock.advance(2_000);
    expect(seen.running).toBe(most);
    for (let n = 1; n <= 40; n++) expect(startedAt.get(`mail E${n}`)! - began, `mail E${n}`).toBeLessThanOrEqual(2_000);
    // The next events of the same orders, and those of orders that `slow` does not want anything of.
    const more = scene.clock.monotonic();
    for (let n = 1; n <= 40; n++) await scene.commit(`o-${n}`, [100 + n], "other");
    for (let n = 41; n <= 60; n++) await scene.commit(`o-${n}`, [n], "other");
    await scene.clock.advance(2_000);
    for (const n of [...Array.from({ length: 40 }, (_, index) => 101 + index), ...Array.from({ length: 20 }, (_, index) => 41 + index)])
      expect(startedAt.get(`mail E${n}`)! - more, `mail E${n}`).toBeLessThanOrEqual(2_000);
    // A minute in which nothing becomes free: no polling storm.
    scene.storage.forgetCalls();
    await scene.clock.advance(30_000);
    const waiting = 40 - most;
    const rounds = scene.storage.callCounts()["leases.acquire"] ?? 0;
    expect(rounds).toBeLessThanOrEqual(3 * waiting);
    expect(scene.storage.callCounts()["blobs.list"] ?? 0).toBeLessThanOrEqual(rounds);
    // Then all of them run, `most` at a time, one after another without long gaps.
    const generations = Math.ceil(40 / most);
    await scene.clock.advance(generations * MINUTE + generations * 2_000);
    expect(scene.log.filter((entry) => entry.startsWith("slow ")).length).toBe(40);
    expect(seen).toEqual({ running: 0, most });
    expect(archived(scene, "slow", "o-40")).toMatchObject([{ attempts: "1" }]);
    expect(await findings(scene)).toEqual([]);
  });
});

test("a subscription that is alone on its host has all of it", async () => {
  scene = new Scene();
  const seen = takesMs(MINUTE);
  for (let n = 1; n <= 20; n++) await scene.commit(`o-${n}`, [n]);
  start(scene.worker([slow(undefined)]));
  await scene.clock.advance(2_000);
  expect(seen.running).toBe(16);
});

test.each([0, 1_001, 1.5, Number.NaN, "8"])("a concurrency of %s is refused", (concurrency) => {
  scene = new Scene();
  const define = (): unknown => defineSubscription(workflow, { name: "slow", concurrency: concurrency as number, handle: () => undefined });
  expect(define).toThrow(/subscription slow: concurrency is .*from 1 to 1000 is allowed \(default what the host leaves to it\)/);
});
