/** F8: while the endpoint of a subscription is down, its orders park without each burning its attempts. */
import { BrokenCircuitError } from "cockatiel";
import { afterEach, beforeEach, describe, expect, test, vi } from "vitest";
import { PermanentError, type RetryOptions } from "../../src/core/retry.ts";
import type { Worker } from "../../src/worker/round-result.ts";
import type { WorkerOptions } from "../../src/worker/worker.ts";
import { settle } from "../support/manual-clock.ts";
import { archived, deadLetters, deliver, findings, pendingStates } from "./operator-support.ts";
import { Scene } from "./round-support.ts";

// The breaker library reads the wall clock by itself.
beforeEach(() => void vi.useFakeTimers({ toFake: ["Date"] }));
afterEach(() => void vi.useRealTimers());

function build(scene: Scene, retry: RetryOptions = { shortStarts: 1 }, options: Partial<WorkerOptions> = {}): Worker {
  vi.setSystemTime(scene.clock.now());
  return scene.worker([scene.subscription("audit", { retry })], options);
}

async function live(scene: Scene, worker: Worker, ms: number): Promise<void> {
  await deliver(scene, worker);
  for (let spent = 0; spent < ms; spent += 1_000) {
    await scene.clock.advance(1_000);
    vi.setSystemTime(scene.clock.now());
    await deliver(scene, worker);
  }
}

/** Commits one event each for these orders: `o-3` gets E3. */
async function commitAll(scene: Scene, from: number, to: number): Promise<void> {
  for (let n = from; n <= to; n++) await scene.commit(`o-${n}`, [n]);
}

function entries(from: number, to: number): string[] {
  return Array.from({ length: to - from + 1 }, (_, index) => `audit E${from + index}`);
}

function stateOf(scene: Scene, n: number) {
  return pendingStates(scene, "audit", `o-${n}`)[0];
}

function downUntil(scene: Scene, up: () => boolean): void {
  scene.onHandle = () => {
    if (!up()) throw new Error("connection refused");
  };
}

describe("F8: failures of ten different orders in a row", () => {
  test("open it: further orders park without an attempt; the trial after 30 s closes it, then all run", async () => {
    const scene = new Scene();
    let up = false;
    downUntil(scene, () => up);
    const worker = build(scene);
    await commitAll(scene, 1, 12);
    await deliver(scene, worker);
    expect(scene.log).toEqual(entries(1, 10));
    expect(stateOf(scene, 10)).toMatchObject({ status: "parked", attempts: 1 });
    const parked = { status: "parked", attempts: 0, crashes: 0, nextAttemptMs: scene.clock.now() + 30_000, history: [] };
    expect(stateOf(scene, 11)).toMatchObject(parked);
    expect(stateOf(scene, 12)).toMatchObject(parked);
    up = true;
    // The first ten come back after 10 s and meet the open breaker: their starts are not counted either.
    await live(scene, worker, 29_000);
    expect(scene.log).toEqual(entries(1, 10));
    for (let n = 1; n <= 10; n++) expect(stateOf(scene, n)).toMatchObject({ status: "parked", attempts: 1, crashes: 0 });
    await live(scene, worker, 1_000);
    expect(scene.log.slice(10)).toEqual(entries(11, 12));
    await live(scene, worker, 30_000);
    expect(scene.log.slice(12).toSorted()).toEqual(entries(1, 10).toSorted());
    expect(Array.from({ length: 12 }, (_, index) => archived(scene, "audit", `o-${index + 1}`)[0]?.["attempts"])).toEqual([
      ...Array<string>(10).fill("2"),
      "1",
      "1",
    ]);
    expect(scene.storage.messages()).toEqual([]);
    expect(await findings(scene)).toEqual([]);
  });

  test("an outage of half an hour costs one start in 30 s, kills nothing, and ends by itself", async () => {
    const scene = new Scene();
    let up = false;
    downUntil(scene, () => up);
    const worker = build(scene, { shortStarts: 1, longRetries: 9 });
    await commitAll(scene, 1, 40);
    await live(scene, worker, 30 * 60_000);
    expect(scene.log.length).toBeLessThanOrEqual(10 + 60);
    expect(scene.log.length).toBeGreaterThan(30);
    const attempts = Array.from({ length: 40 }, (_, index) => stateOf(scene, index + 1)!.attempts);
    expect(attempts.reduce((sum, each) => sum + each, 0)).toBe(scene.log.length);
    expect(Array.from({ length: 40 }, (_, index) => deadLetters(scene, "audit", `o-${index + 1}`)).flat()).toEqual([]);
    up = true;
    scene.log.length = 0;
    await live(scene, worker, 12 * 60_000);
    expect(scene.log.toSorted()).toEqual(entries(1, 40).toSorted());
  });

  test("a trial that fails leaves it open; who comes while the trial runs parks and does not wait for it", async () => {
    const scene = new Scene();
    let fail: (error: Error) => void = () => undefined;
    let trial = false;
    scene.onHandle = () => {
      if (!trial) throw new Error("connection refused");
      return new Promise((_resolve, reject) => (fail = reject));
    };
    const worker = build(scene);
    await commitAll(scene, 1, 12);
    await deliver(scene, worker);
    await live(scene, worker, 29_000);
    trial = true;
    await scene.clock.advance(1_000);
    vi.setSystemTime(scene.clock.now());
    const first = worker.handle("o-11");
    await settle();
    expect(scene.log.slice(10)).toEqual(["audit E11"]);
    expect(await worker.handle("o-12")).toMatchObject({
      status: "done",
      problems: ["event 1 of audit stands: its circuit breaker is open"],
    });
    expect(stateOf(scene, 12)).toMatchObject({ status: "parked", attempts: 0 });
    fail(new Error("connection refused"));
    await first;
    expect(stateOf(scene, 11)).toMatchObject({ attempts: 1 });
    await scene.commit("o-13", [13]);
    await worker.handle("o-13");
    expect(scene.log).toHaveLength(11);
  });

  test("G4: the breaker of one subscription is nothing to the others", async () => {
    const scene = new Scene();
    scene.onHandle = (entry) => {
      if (entry.startsWith("audit")) throw new Error("connection refused");
    };
    vi.setSystemTime(scene.clock.now());
    const worker = scene.worker([scene.subscription("audit"), scene.subscription("mail")]);
    await commitAll(scene, 1, 12);
    await deliver(scene, worker);
    expect(scene.log.filter((entry) => entry.startsWith("mail"))).toHaveLength(12);
    expect(scene.log.filter((entry) => entry.startsWith("audit"))).toHaveLength(10);
  });

  test("with `breaker: false` everybody tries", async () => {
    const scene = new Scene();
    downUntil(scene, () => false);
    const worker = build(scene, { shortStarts: 1 }, { breaker: false });
    await commitAll(scene, 1, 15);
    await deliver(scene, worker);
    expect(scene.log).toEqual(entries(1, 15));
  });
});

describe("what does not open it", () => {
  test("G4: one poison order, however often it fails", async () => {
    const scene = new Scene();
    scene.onHandle = (entry) => {
      if (entry === "audit E1") throw new Error("poison");
    };
    const worker = build(scene, { shortStarts: 20, shortDelayMs: 0, longDelayMs: 1_000, longRetries: 5 });
    await commitAll(scene, 1, 1);
    await live(scene, worker, 40_000);
    expect(scene.log).toHaveLength(120);
    await commitAll(scene, 2, 3);
    await deliver(scene, worker);
    expect(scene.log.slice(120)).toEqual(entries(2, 3));
  });

  test("G4: nor two of them in turn", async () => {
    const scene = new Scene();
    scene.onHandle = (entry) => {
      if (/E[12]$/.test(entry)) throw new Error("poison");
    };
    const worker = build(scene, { shortStarts: 1, longDelayMs: 1_000, longMaxDelayMs: 1_000 });
    await commitAll(scene, 1, 2);
    await live(scene, worker, 30_000);
    expect(scene.log).toHaveLength(22);
    await commitAll(scene, 3, 3);
    await deliver(scene, worker);
    expect(scene.log.slice(22)).toEqual(["audit E3"]);
  });

  test("a second try that succeeds: the endpoint is up", async () => {
    const scene = new Scene();
    const seen = new Set<string>();
    scene.onHandle = (entry) => {
      if (seen.has(entry)) return;
      seen.add(entry);
      throw new Error("flaky");
    };
    const worker = build(scene, { shortStarts: 2, shortDelayMs: 0 });
    await commitAll(scene, 1, 30);
    await deliver(scene, worker);
    expect(scene.log).toEqual(entries(1, 30).flatMap((entry) => [entry, entry]));
  });

  test("PermanentError: the endpoint has answered", async () => {
    const scene = new Scene();
    scene.onHandle = (_entry, { n }) => {
      throw n % 10 === 0 ? new PermanentError("no such carrier") : new Error("connection refused");
    };
    const worker = build(scene);
    await commitAll(scene, 1, 30);
    await deliver(scene, worker);
    expect(scene.log).toEqual(entries(1, 30));
    expect(deadLetters(scene, "audit", "o-10")).toHaveLength(1);
  });

  test("a BrokenCircuitError of the handler's own breaker is a failed start like any other", async () => {
    const scene = new Scene();
    scene.onHandle = () => {
      throw new BrokenCircuitError();
    };
    const worker = build(scene, { shortStarts: 1, longRetries: 0 });
    await commitAll(scene, 1, 1);
    await deliver(scene, worker);
    expect(deadLetters(scene, "audit", "o-1")).toMatchObject([{ attempts: 1 }]);
  });
});
