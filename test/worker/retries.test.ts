/** F1, F2, C11: an event that failed runs again at its own place, whatever wakes the worker, and nothing passes it. */
import { describe, expect, test } from "vitest";
import { OutboxError } from "../../src/core/errors.ts";
import { encodeWakeUp } from "../../src/core/wake-up.ts";
import { RetryableError } from "../../src/core/retry.ts";
import { createSweeper } from "../../src/operations/sweep.ts";
import { wakeOrder } from "../../src/operations/wake.ts";
import type { Worker } from "../../src/worker/round-result.ts";
import { settle } from "../support/manual-clock.ts";
import { ANN, archived, contextOf, decideAbout, deliver, findings, live, oid, pendingStates } from "./operator-support.ts";
import { Scene } from "./round-support.ts";

const DAY = 24 * 60 * 60_000;

/** E1 of `audit` fails the given number of times. */
function failing(scene: Scene, times: number, error: () => unknown = () => new Error("carrier is down"), entry = "audit E1"): void {
  scene.onHandle = (called) => {
    if (called !== entry || times === 0) return;
    times -= 1;
    throw error();
  };
}

const wakers: Record<string, (scene: Scene, worker: Worker) => Promise<Worker>> = {
  "wake-ups for both": async (scene, worker) => {
    for (let n = 0; n < 2; n++) await scene.storage.wakeUps.send(encodeWakeUp(oid("o-1")), 0);
    return worker;
  },
  "the sweep": async (scene, worker) => {
    await createSweeper({ storage: scene.storage, clock: scene.clock }).sweep();
    return worker;
  },
  "a restart": (scene) => Promise.resolve(scene.worker()),
  "wake by hand": async (scene, worker) => {
    await wakeOrder(contextOf(scene), oid("o-1"), ANN);
    return worker;
  },
  "a round of its own": async (_scene, worker) => {
    await worker.handle("o-1");
    return worker;
  },
};

describe("C11: E1 fails once, E2 and E3 wait", () => {
  test.each(Object.keys(wakers))("E1, E1, E2, E3, woken by %s", async (name) => {
    const scene = new Scene();
    failing(scene, 1);
    await scene.commit("o-1", [1, 2, 3]);
    let worker = scene.worker();
    await deliver(scene, worker);
    expect(scene.log).toEqual(["audit E1"]);
    for (let second = 0; second < 9; second++) {
      worker = await wakers[name]!(scene, worker);
      await deliver(scene, worker);
      expect(scene.log).toEqual(["audit E1"]);
      await scene.clock.advance(1_000);
    }
    worker = await wakers[name]!(scene, worker);
    await live(scene, worker, 2_000);
    expect(scene.log).toEqual(["audit E1", "audit E1", "audit E2", "audit E3"]);
    await live(scene, worker, 60_000);
    expect(scene.log).toHaveLength(4);
    expect(scene.storage.messages()).toEqual([]);
    expect(await findings(scene)).toEqual([]);
  });

  test("nothing but the wake-up of the parked event is needed, and it is hidden until then", async () => {
    const scene = new Scene();
    failing(scene, 2);
    await scene.commit("o-1", [1, 2]);
    await deliver(scene, scene.worker());
    expect(scene.storage.messages()).toEqual([{ text: encodeWakeUp(oid("o-1")), hiddenForMs: 10_000, dequeueCount: 0 }]);
    await scene.clock.advance(10_000);
    await deliver(scene, scene.worker());
    expect(scene.log).toEqual(["audit E1", "audit E1"]);
    expect(scene.storage.messages()).toEqual([{ text: encodeWakeUp(oid("o-1")), hiddenForMs: 20_000, dequeueCount: 0 }]);
    await scene.clock.advance(19_000);
    await scene.worker().handle("o-1");
    expect(scene.log).toHaveLength(2);
    await scene.clock.advance(1_000);
    await deliver(scene, scene.worker());
    expect(scene.log).toEqual(["audit E1", "audit E1", "audit E1", "audit E2"]);
    expect(archived(scene).map(({ attempts }) => attempts)).toEqual(["3", "1"]);
  });

  test("G4: other orders and other subscriptions go on meanwhile", async () => {
    const scene = new Scene();
    failing(scene, 1);
    const subscriptions = [scene.subscription("audit"), scene.subscription("mail")];
    await scene.commit("o-1", [1, 2]);
    await scene.commit("o-2", [7, 8]);
    const worker = scene.worker(subscriptions);
    await deliver(scene, worker);
    expect(scene.log.filter((entry) => entry.startsWith("audit"))).toEqual(["audit E1", "audit E7", "audit E8"]);
    expect(scene.log.filter((entry) => entry.startsWith("mail"))).toEqual(["mail E1", "mail E2", "mail E7", "mail E8"]);
    await scene.commit("o-1", [3]);
    await deliver(scene, worker);
    expect(scene.log.filter((entry) => entry === "mail E3")).toHaveLength(1);
    await live(scene, worker, 12_000);
    const audit = scene.log.filter((entry) => /audit E[1-3]/.test(entry));
    expect(audit).toEqual(["audit E1", "audit E1", "audit E2", "audit E3"]);
    expect(scene.log.filter((entry) => entry.startsWith("mail"))).toHaveLength(5);
  });
});

describe("F1: short retries", () => {
  const retry = { shortStarts: 3, shortDelayMs: 1_000, longDelayMs: 10_000 };

  test("wait in the round, drawn from 0 to the bound, by the clock; attempts are saved in between, and each further start is counted before it (W4)", async () => {
    const scene = new Scene();
    failing(scene, 2);
    const starts: [atMs: number, attempt: number, saved: number | undefined][] = [];
    const fail = scene.onHandle;
    scene.onHandle = (entry, call) => {
      starts.push([scene.clock.monotonic(), call.context.attempt, pendingStates(scene)[0]?.attempts]);
      return fail(entry, call);
    };
    await scene.commit("o-1", [1, 2]);
    const round = scene.worker([scene.subscription("audit", { retry })]).handle("o-1");
    await scene.clock.advance(499);
    expect(scene.log).toEqual(["audit E1"]);
    await scene.clock.advance(1);
    expect(scene.log).toEqual(["audit E1", "audit E1"]);
    await scene.clock.advance(999);
    expect(scene.log).toHaveLength(2);
    await scene.clock.advance(1);
    expect(await round).toMatchObject({ status: "done", handled: 2 });
    expect(scene.log).toEqual(["audit E1", "audit E1", "audit E1", "audit E2"]);
    expect(starts.slice(0, 3)).toEqual([
      [0, 1, 0],
      [500, 2, 2],
      [1_500, 3, 3],
    ]);
  });

  test("F4: a discard between two of them is carried out, and the handler does not run again", async () => {
    const scene = new Scene();
    failing(scene, 100);
    await scene.commit("o-1", [1]);
    const round = scene.worker([scene.subscription("audit", { retry })]).handle("o-1");
    await scene.clock.advance(499);
    await decideAbout(scene, "discard");
    expect(await scene.until(round)).toMatchObject({ status: "done" });
    expect(scene.log).toEqual(["audit E1"]);
    expect(archived(scene)).toMatchObject([{ outcome: "discarded" }]);
  });

  test("by default 33 starts in all, then E1 blocks", async () => {
    const scene = new Scene();
    failing(scene, 100);
    await scene.commit("o-1", [1, 2]);
    const worker = scene.worker([scene.subscription("audit", { retry: {} })]);
    const starts: number[] = [];
    const fail = scene.onHandle;
    scene.onHandle = (entry, call) => {
      starts.push(call.context.attempt);
      return fail(entry, call);
    };
    for (let hours = 0; hours < 150 && pendingStates(scene)[0]?.status !== "blocked"; hours++) {
      await deliver(scene, worker);
      await scene.clock.advance(60_000);
    }
    expect(starts).toEqual(Array.from({ length: 33 }, (_, index) => index + 1));
    expect(new Set(scene.log)).toEqual(new Set(["audit E1"]));
    expect(pendingStates(scene)[0]).toMatchObject({ status: "blocked", attempts: 33 });
  });

  test("a stop ends the wait at once, and nothing more starts", async () => {
    const scene = new Scene();
    failing(scene, 2);
    await scene.commit("o-1", [1, 2]);
    const stop = new AbortController();
    const round = scene.worker([scene.subscription("audit", { retry })]).handle("o-1", { signal: stop.signal });
    await settle();
    stop.abort();
    expect((await round).status).toBe("left");
    expect(scene.log).toEqual(["audit E1"]);
    expect(scene.clock.pending()).toBe(0);
  });
});

describe("F2: parked", () => {
  test("the wake-up is sent before the event is parked", async () => {
    const scene = new Scene();
    failing(scene, 1);
    await scene.commit("o-1", [1]);
    scene.storage.forgetCalls();
    await scene.worker().handle("o-1");
    const steps = scene.storage.calls
      .filter(({ port, method }) => port === "wakeUps" || (port === "blobs" && method === "writeMetadata"))
      .map(({ method, args }) => [method, args[1]]);
    expect(steps).toEqual([
      ["send", 10_000],
      ["writeMetadata", expect.stringContaining("audit/o-1/")],
    ]);
  });

  test("a wake-up that can't be sent keeps the round's own for the same time", async () => {
    const scene = new Scene();
    failing(scene, 1);
    await scene.commit("o-1", [1, 2]);
    scene.storage.onCall = ({ port, method }) => {
      if (port === "wakeUps" && method === "send") throw new OutboxError("unavailable", "the queue is down");
    };
    expect(await scene.worker().handle("o-1")).toMatchObject({ status: "left", retryInMs: 10_000, handled: 0 });
    await live(scene, scene.worker(), 12_000);
    expect(scene.log).toEqual(["audit E1", "audit E1", "audit E2"]);
  });

  test("W8: woken early, it keeps that wake-up if it is due soon, and runs at its time", async () => {
    const scene = new Scene();
    failing(scene, 1);
    await scene.commit("o-1", [1]);
    await scene.worker().handle("o-1");
    await scene.clock.advance(4_000);
    expect(await scene.worker().handle("o-1")).toMatchObject({ status: "left", retryInMs: 6_000 });
    expect(scene.log).toHaveLength(1);
  });

  test("W8: one that is due later has a wake-up of its own and keeps no other", async () => {
    const scene = new Scene();
    failing(scene, 1, () => new RetryableError("closed", 3_600_000));
    await scene.commit("o-1", [1]);
    await scene.worker().handle("o-1");
    await scene.clock.advance(4_000);
    expect(await scene.worker().handle("o-1")).toMatchObject({ status: "done" });
    expect(scene.log).toHaveLength(1);
  });

  test("C30: a wait of 20 days hops from wake-up to wake-up and ends after 20 days", async () => {
    const scene = new Scene();
    failing(scene, 1);
    await scene.commit("o-1", [1, 2]);
    const worker = scene.worker([scene.subscription("audit", { retry: { shortStarts: 1, longDelayMs: 20 * DAY } })]);
    await deliver(scene, worker);
    const hidden: number[] = [];
    for (let hops = 0; scene.log.length === 1 && hops < 10; hops++) {
      const [message] = scene.storage.messages();
      hidden.push(message!.hiddenForMs / DAY);
      await scene.clock.advance(message!.hiddenForMs);
      await deliver(scene, worker);
    }
    expect(hidden).toEqual([7, 7, 6]);
    expect(scene.log).toEqual(["audit E1", "audit E1", "audit E2"]);
    expect(scene.storage.messages()).toEqual([]);
  });

  test("C30: a hop that can't be sent keeps the wake-up at hand", async () => {
    const scene = new Scene();
    failing(scene, 1);
    await scene.commit("o-1", [1]);
    const worker = scene.worker([scene.subscription("audit", { retry: { shortStarts: 1, longDelayMs: 20 * DAY } })]);
    await worker.handle("o-1");
    await scene.clock.advance(7 * DAY);
    scene.storage.onCall = ({ method }) => {
      if (method === "send") throw new OutboxError("unavailable", "the queue is down");
    };
    expect(await worker.handle("o-1")).toMatchObject({ status: "left", retryInMs: 7 * DAY });
  });
});

test("C11: with four workers at once, E1 to E3 of one commit run in order", async () => {
  const scene = new Scene();
  failing(scene, 1);
  await scene.commit("o-1", [1, 2, 3]);
  for (let second = 0; second < 12; second++) {
    const rounds = Array.from({ length: 4 }, () => scene.worker().handle("o-1"));
    await Promise.all(rounds.map((round) => scene.until(round)));
    await scene.clock.advance(1_000);
  }
  expect(scene.log).toEqual(["audit E1", "audit E1", "audit E2", "audit E3"]);
});

describe("G4: a parked event while the handler of another subscription is slow", () => {
  async function parkedBesideSlow() {
    const scene = new Scene();
    let fails = true;
    let end: () => void = () => undefined;
    const attempts: number[] = [];
    scene.onHandle = (entry, { context }) => {
      if (entry === "mail E1") return new Promise((resolve) => (end = resolve));
      if (entry === "audit E1") attempts.push(context.attempt);
      if (!fails || entry !== "audit E1") return undefined;
      fails = false;
      throw new Error("carrier is down");
    };
    await scene.commit("o-1", [1, 2]);
    const slow = { retry: { timeoutMs: 600_000 } };
    const round = scene.worker([scene.subscription("audit"), scene.subscription("mail", slow)]).handle("o-1");
    await settle();
    return { scene, round, end: () => end(), attempts };
  }

  test("runs at its time in the same round, counted first", async () => {
    const { scene, round, end, attempts } = await parkedBesideSlow();
    await scene.clock.advance(9_999);
    expect(scene.log).toEqual(["audit E1", "mail E1"]);
    await scene.clock.advance(1);
    expect(scene.log).toEqual(["audit E1", "mail E1", "audit E1", "audit E2"]);
    end();
    expect(await scene.until(round)).toMatchObject({ status: "done", handled: 4 });
    expect(attempts).toEqual([1, 2]);
    expect(archived(scene).map(({ attempts: counted }) => counted)).toEqual(["2", "1"]);
    await live(scene, scene.worker(), 20_000);
    expect(await findings(scene)).toEqual([]);
    expect(scene.storage.messages()).toEqual([]);
  });

  test("F4: what an operator decides meanwhile is carried out then, instead", async () => {
    const { scene, round, end } = await parkedBesideSlow();
    await scene.clock.advance(5_000);
    await decideAbout(scene, "discard");
    await scene.clock.advance(5_000);
    expect(scene.log).toEqual(["audit E1", "mail E1", "audit E2"]);
    end();
    await scene.until(round);
    expect(archived(scene).map(({ outcome }) => outcome)).toEqual(["discarded", "handled"]);
  });
});
