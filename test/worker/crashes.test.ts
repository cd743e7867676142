/** C06, C32, C33, W4: what a dead process counts, what a living one does not, and that a crash at any call changes nothing in the end. */
import { afterEach, describe, expect, test } from "vitest";
import { OutboxError } from "../../src/core/errors.ts";
import { PermanentError, type RetryOptions } from "../../src/core/retry.ts";
import type { Storage } from "../../src/core/ports.ts";
import { startWorkerHost } from "../../src/worker/host.ts";
import type { Worker } from "../../src/worker/round-result.ts";
import { settle } from "../support/manual-clock.ts";
import { dieAt } from "./crash-support.ts";
import { ANN, archived, BOB, deadLetters, decideAbout, deliver, failWhile, findings, live, pendingStates } from "./operator-support.ts";
import { key, mortal, Scene, type Fate } from "./round-support.ts";

const STOPPED = "the worker stopped while it was handled";

/** A worker of a process of its own. */
function process(scene: Scene, retry: RetryOptions, storage: Storage = scene.storage): Worker {
  return scene.worker([scene.subscription("audit", { retry })], { storage });
}

/** A round whose process dies in the handler of `entry`; then its lease runs out. */
async function crashIn(scene: Scene, entry: string, retry: RetryOptions): Promise<void> {
  const before = scene.onHandle;
  scene.onHandle = (called, call) => (called === entry ? new Promise(() => undefined) : before(called, call));
  process(scene, retry)
    .handle("o-1")
    .catch(() => undefined);
  await settle();
  scene.onHandle = before;
  scene.storage.breakLease(key("o-1"));
  await scene.clock.advance(31_000);
}

describe("C06: a handler that kills its process", () => {
  test.each(["block", "skip"] as const)("is started exactly maxCrashes times, then it is dead; %s for the rest", async (onDead) => {
    const scene = new Scene();
    const retry: RetryOptions = { maxCrashes: 3, onDead };
    await scene.commit("o-1", [1, 2, 3]);
    await scene.commit("o-2", [8, 9]);
    for (let crash = 1; crash <= 3; crash++) {
      await crashIn(scene, "audit E1", retry);
      expect(scene.log).toEqual(Array<string>(crash).fill("audit E1"));
    }
    await live(scene, process(scene, retry), 40_000);
    const own = scene.log.filter((entry) => /E[123]$/.test(entry));
    expect(own).toEqual(["audit E1", "audit E1", "audit E1", ...(onDead === "skip" ? ["audit E2", "audit E3"] : [])]);
    expect(scene.log).toEqual(expect.arrayContaining(["audit E8", "audit E9"]));
    const reason = "the worker stopped 3 times while it was handled";
    expect(deadLetters(scene)).toMatchObject([{ sequence: 1, reason, attempts: 3, policy: onDead }]);
    if (onDead === "block") {
      expect(pendingStates(scene)[0]).toMatchObject({
        status: "blocked",
        attempts: 3,
        crashes: 3,
        history: [{ starts: 3, error: STOPPED }],
      });
      // Redriven, it has all its lives again.
      await decideAbout(scene, "redrive");
      await deliver(scene, process(scene, retry));
      expect(scene.log.slice(-3)).toEqual(["audit E1", "audit E2", "audit E3"]);
    }
    expect(await findings(scene)).toEqual([]);
  });

  test("only the event that may have been running is charged, not those behind it", async () => {
    const scene = new Scene();
    const retry: RetryOptions = { maxCrashes: 3 };
    await scene.commit("o-1", [1, 2, 3]);
    await crashIn(scene, "audit E1", retry);
    await crashIn(scene, "audit E1", retry);
    await live(scene, process(scene, retry), 40_000);
    expect(scene.log).toEqual(["audit E1", "audit E1", "audit E1", "audit E2", "audit E3"]);
    expect(archived(scene).map(({ attempts }) => attempts)).toEqual(["3", "1", "1"]);
  });

  test("a crash in a short retry is one too; an ordinary failure in between starts the count anew", async () => {
    const scene = new Scene();
    const retry: RetryOptions = { maxCrashes: 2, shortStarts: 20, shortDelayMs: 0 };
    const attempts: number[] = [];
    await scene.commit("o-1", [1]);
    for (let life = 1; life <= 3; life++) {
      let failed = false;
      scene.onHandle = (_entry, { context }) => {
        attempts.push(context.attempt);
        if (failed) return new Promise(() => undefined);
        failed = true;
        throw new Error("carrier is down");
      };
      process(scene, retry)
        .handle("o-1")
        .catch(() => undefined);
      await scene.clock.advance(1);
      scene.storage.breakLease(key("o-1"));
      await scene.clock.advance(31_000);
    }
    expect(attempts).toEqual([1, 2, 3, 4, 5, 6]);
    expect(pendingStates(scene)[0]?.status).toBe("pending");
    scene.onHandle = () => undefined;
    await live(scene, process(scene, retry), 31_000);
    expect(archived(scene)[0]?.["attempts"]).toBe("7");
  });

  test("a worker that merely lost the race for the lease counts nothing", async () => {
    const scene = new Scene();
    let end: () => void = () => undefined;
    scene.onHandle = () => new Promise((resolve) => (end = resolve));
    await scene.commit("o-1", [1]);
    const holder = process(scene, { maxCrashes: 1 }).handle("o-1");
    await settle();
    for (let n = 0; n < 10; n++) {
      expect((await process(scene, { maxCrashes: 1 }).handle("o-1")).status).toBe("taken");
      await scene.clock.advance(5_000);
    }
    expect(pendingStates(scene)[0]).toMatchObject({ attempts: 0, crashes: 0, status: "pending" });
    end();
    expect((await scene.until(holder)).status).toBe("done");
    expect(scene.log).toEqual(["audit E1"]);
    expect(archived(scene)[0]?.["attempts"]).toBe("1");
  });

  test("C32: a deployment that aborts the handler, however often, is no crash", async () => {
    const scene = new Scene();
    const retry: RetryOptions = { maxCrashes: 2 };
    scene.onHandle = (_entry, { context }) =>
      new Promise((_resolve, reject) => context.signal.addEventListener("abort", () => reject(new Error("stop"))));
    await scene.commit("o-1", [1, 2]);
    for (let deployment = 0; deployment < 6; deployment++) {
      const stop = new AbortController();
      const round = process(scene, retry).handle("o-1", { signal: stop.signal });
      await settle();
      stop.abort();
      await scene.until(round);
    }
    expect(pendingStates(scene)[0]?.status).toBe("pending");
    scene.onHandle = () => undefined;
    await deliver(scene, process(scene, retry));
    expect(scene.log).toEqual([...Array<string>(7).fill("audit E1"), "audit E2"]);
    expect(deadLetters(scene)).toEqual([]);
  });

  test("C32: crash, deployment, crash: not two in a row", async () => {
    const scene = new Scene();
    const retry: RetryOptions = { maxCrashes: 2 };
    await scene.commit("o-1", [1]);
    await crashIn(scene, "audit E1", retry);
    const stop = new AbortController();
    scene.onHandle = (_entry, { context }) =>
      new Promise((_resolve, reject) => context.signal.addEventListener("abort", () => reject(new Error("stop"))));
    const round = process(scene, retry).handle("o-1", { signal: stop.signal });
    await settle();
    stop.abort();
    await scene.until(round);
    scene.onHandle = () => undefined;
    await crashIn(scene, "audit E1", retry);
    await live(scene, process(scene, retry), 40_000);
    expect(scene.log).toEqual(Array<string>(4).fill("audit E1"));
    expect(archived(scene)[0]?.["outcome"]).toBe("handled");
  });
});

describe("C33: storage fails while the process lives", () => {
  test("a progress write that fails again and again makes no dead letter", async () => {
    const scene = new Scene();
    const worker = process(scene, { maxCrashes: 2 });
    await scene.commit("o-1", [1, 2]);
    scene.storage.onCall = ({ method }) => {
      if (method === "writeMetadata") throw new OutboxError("unavailable", "storage is down");
    };
    for (let round = 0; round < 5; round++) {
      await scene.until(worker.handle("o-1").catch(() => undefined));
      await scene.clock.advance(31_000);
    }
    scene.storage.onCall = undefined;
    await live(scene, worker, 40_000);
    expect(new Set(scene.log)).toEqual(new Set(["audit E1", "audit E2"]));
    expect(archived(scene).map(({ outcome }) => outcome)).toEqual(["handled", "handled"]);
    expect(deadLetters(scene)).toEqual([]);
  });

  test("an outage right after the relay counts no start: nothing had run", async () => {
    const scene = new Scene();
    const worker = process(scene, { maxCrashes: 1 });
    const attempts: number[] = [];
    scene.onHandle = (_entry, { context }) => void attempts.push(context.attempt);
    await scene.commit("o-1", [1, 2]);
    scene.storage.onCall = ({ method }) => {
      if (method === "deleteOutbox") throw new OutboxError("unavailable", "storage is down");
    };
    for (let round = 0; round < 3; round++) {
      await expect(worker.handle("o-1")).rejects.toMatchObject({ code: "unavailable" });
      await scene.clock.advance(31_000);
    }
    scene.storage.onCall = undefined;
    await worker.handle("o-1");
    expect(scene.log).toEqual(["audit E1", "audit E2"]);
    expect(attempts).toEqual([1, 1]);
  });

  const hosts: ReturnType<typeof startWorkerHost>[] = [];
  let turn: (ms: number) => Promise<void> = () => Promise.resolve();
  afterEach(async () => {
    const stopped = hosts.splice(0).map((host) => host.stop({ abortNow: true }));
    await turn(60_000);
    await Promise.all(stopped);
  });

  test.each([5, 25, 50, 75, 100, 130])(
    "`unavailable` for 20 s from call %i on, 10 wake-ups: no attempt counted, no poison, all handled after it",
    async (from) => {
      const scene = new Scene();
      turn = (ms) => scene.clock.advance(ms);
      for (let n = 1; n <= 10; n++) await scene.commit(`o-${n}`, [n, n + 100]);
      const attempts: number[] = [];
      const slow = new Map<string, () => void>();
      scene.onHandle = (entry, { context }) => {
        attempts.push(context.attempt);
        // The outage finds some orders in a handler, the others at other calls.
        const isSlow = /E[123]$/.test(entry) && !slow.has(entry) && !over;
        return isSlow ? new Promise((resolve) => slow.set(entry, resolve)) : undefined;
      };
      let calls = 0;
      let down = false;
      let over = false;
      scene.storage.onCall = () => {
        calls += 1;
        if (calls === from) down = true;
        if (down) throw new OutboxError("unavailable", "503");
      };
      const options = { wakeUps: scene.storage.wakeUps, clock: scene.clock, random: () => 0.5 };
      hosts.push(startWorkerHost({ worker: process(scene, { maxCrashes: 1, shortStarts: 1, longRetries: 0 }), ...options }));
      await scene.clock.advance(1_000);
      expect(down).toBe(true);
      for (const end of slow.values()) end();
      await scene.clock.advance(20_000);
      down = false;
      over = true;
      scene.storage.onCall = undefined;
      await scene.clock.advance(300_000);
      for (let n = 1; n <= 10; n++) {
        const own = scene.log.filter((entry) => entry === `audit E${n}` || entry === `audit E${n + 100}`);
        expect(own.filter((entry, index) => entry !== own[index - 1])).toEqual([`audit E${n}`, `audit E${n + 100}`]);
        expect(archived(scene, "audit", `o-${n}`)).toMatchObject([
          { outcome: "handled", attempts: "1" },
          { outcome: "handled", attempts: "1" },
        ]);
        expect(deadLetters(scene, "audit", `o-${n}`)).toEqual([]);
      }
      expect(new Set(attempts)).toEqual(new Set([1]));
      expect(scene.storage.messages()).toEqual([]);
      expect(await findings(scene)).toEqual([]);
    },
  );
});

interface Case {
  readonly retry: RetryOptions;
  /** Brings the order to the round that is disturbed. */
  readonly prepare: (scene: Scene, broken: Set<string>) => Promise<void>;
  /** What the operator does after the recovery, if the order needs one. */
  readonly afterwards?: (scene: Scene, broken: Set<string>) => Promise<unknown>;
  readonly outcomes: readonly string[];
  /** Policies in the index at the end. */
  readonly index: readonly string[];
  /** Calls of the handler at the end, repetitions of one event in a row taken as one. */
  readonly order: readonly string[];
}

const ALL = ["audit E1", "audit E2", "audit E3"];

async function dead(scene: Scene, retry: RetryOptions): Promise<void> {
  await process(scene, retry).handle("o-1");
  scene.log.length = 0;
}

const BLOCK: RetryOptions = { shortStarts: 1, longRetries: 0, maxCrashes: 100 };
const SKIP: RetryOptions = { ...BLOCK, onDead: "skip" };
const PARK: RetryOptions = { shortStarts: 1, longDelayMs: 10_000, maxCrashes: 100 };

const cases: Record<string, Case> = {
  "dying, block": {
    retry: BLOCK,
    prepare: () => Promise.resolve(),
    afterwards: (scene, broken) => {
      expect(pendingStates(scene)[0]?.status).toBe("blocked");
      expect(deadLetters(scene)).toMatchObject([{ type: "step", policy: "block" }]);
      expect(new Set(scene.log)).toEqual(new Set(["audit E1"]));
      broken.clear();
      return decideAbout(scene, "redrive", ANN);
    },
    outcomes: ["handled", "handled", "handled"],
    index: [],
    order: ALL,
  },
  "dying, skip": {
    retry: SKIP,
    prepare: () => Promise.resolve(),
    outcomes: ["dead-lettered", "handled", "handled"],
    index: ["skip"],
    order: ALL,
  },
  "a redrive being carried out": {
    retry: BLOCK,
    prepare: async (scene, broken) => {
      await dead(scene, BLOCK);
      broken.clear();
      await decideAbout(scene, "redrive", ANN);
    },
    outcomes: ["handled", "handled", "handled"],
    index: [],
    order: ALL,
  },
  "a discard being carried out": {
    retry: BLOCK,
    prepare: async (scene) => {
      await dead(scene, BLOCK);
      await decideAbout(scene, "discard", BOB);
    },
    outcomes: ["discarded", "handled", "handled"],
    index: [],
    order: ALL.slice(1),
  },
  parking: { retry: PARK, prepare: () => Promise.resolve(), outcomes: ["handled", "handled", "handled"], index: [], order: ALL },
};

/** The round that is disturbed: E1 fails, unless the case has repaired it. */
async function set(name: string): Promise<{ readonly scene: Scene; readonly broken: Set<string> }> {
  const scene = new Scene();
  const broken = new Set(["audit E1"]);
  scene.onHandle = failWhile(broken);
  await scene.commit("o-1", [1, 2, 3]);
  await cases[name]!.prepare(scene, broken);
  return { scene, broken };
}

describe.each<Fate>(["dies-before", "dies-after", "loses-response", "is-refused"])("a process that %s at any call", (fate) => {
  test.each(Object.keys(cases))("%s: the same end, and the audit finds nothing", async (name) => {
    const { retry, afterwards, outcomes, index, order } = cases[name]!;
    const undisturbed = await set(name);
    const counted = mortal(undisturbed.scene.storage, -1, "is-refused", new Error("unused"));
    await process(undisturbed.scene, retry, counted.storage).handle("o-1");
    expect(counted.calls()).toBeGreaterThan(8);
    for (let at = 1; at <= counted.calls(); at++) {
      const { scene, broken } = await set(name);
      const disturbed = mortal(scene.storage, at, fate, new OutboxError("unavailable", `fault at call ${at}`));
      const round = process(scene, retry, disturbed.storage)
        .handle("o-1")
        .catch(() => undefined);
      if (fate.startsWith("dies")) await settle();
      else await scene.until(round);
      if (name === "parking") broken.clear();
      for (let n = 0; n < 3; n++) {
        await scene.clock.advance(100_000);
        await scene.until(process(scene, retry).handle("o-1"));
      }
      if (afterwards !== undefined) {
        await afterwards(scene, broken);
        await scene.until(process(scene, retry).handle("o-1"));
      }
      expect(scene.log.filter((entry, position) => entry !== scene.log[position - 1])).toEqual(order);
      expect(archived(scene).map(({ outcome }) => outcome)).toEqual(outcomes);
      expect(archived(scene)[0]?.["decidedby"]).toBe(name.startsWith("a discard") ? "bob" : undefined);
      expect(deadLetters(scene).map(({ policy }) => policy)).toEqual(index);
      expect(scene.ids("events")).toEqual([]);
      expect(await findings(scene)).toEqual([]);
    }
  });

  test("dying, skip, and the handler works afterwards: index and archive agree", async () => {
    for (let at = 1; at <= 20; at++) {
      const { scene, broken } = await set("dying, skip");
      const disturbed = mortal(scene.storage, at, fate, new OutboxError("unavailable", `fault at call ${at}`));
      const round = process(scene, SKIP, disturbed.storage)
        .handle("o-1")
        .catch(() => undefined);
      if (fate.startsWith("dies")) await settle();
      else await scene.until(round);
      broken.clear();
      for (let n = 0; n < 3; n++) {
        await scene.clock.advance(100_000);
        await scene.until(process(scene, SKIP).handle("o-1"));
      }
      expect(deadLetters(scene)).toHaveLength(archived(scene)[0]?.["outcome"] === "dead-lettered" ? 1 : 0);
      expect(await findings(scene)).toEqual([]);
    }
  });
});

test("F3: a PermanentError in a process that then dies before the block is written: dead after the next start", async () => {
  const scene = new Scene();
  scene.onHandle = failWhile(new Set(["audit E1"]), () => new PermanentError("no such carrier"));
  await scene.commit("o-1", [1, 2]);
  await dieAt(scene, process(scene, {}), ({ port, method }) => port === "blobs" && method === "writeMetadata");
  await process(scene, {}).handle("o-1");
  expect(scene.log).toEqual(["audit E1", "audit E1"]);
  expect(deadLetters(scene)).toMatchObject([{ attempts: 2, reason: "PermanentError: no such carrier" }]);
  expect(pendingStates(scene)[0]?.history.map(({ error }) => error)).toEqual([STOPPED, "PermanentError: no such carrier"]);
});
