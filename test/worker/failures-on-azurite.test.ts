/** What the room's other tests show on memory ports, once each on Azurite: retries, dead letters, crashes, breaker and pauses. */
import { afterEach, describe, expect, test, vi } from "vitest";
import { CONTROL_CACHE_MS } from "../../src/core/controls.ts";
import { parseOrderId } from "../../src/core/order-id.ts";
import { PermanentError, RetryableError, type RetryOptions } from "../../src/core/retry.ts";
import { decideOrder } from "../../src/operations/decide-many.ts";
import { pause, resume } from "../../src/operations/pauses.ts";
import type { RoundResult } from "../../src/worker/round-result.ts";
import { ManualClock } from "../support/manual-clock.ts";
import { AzuriteScene } from "./azurite-scene.ts";
import { ANN, BOB } from "./operator-support.ts";
import { key } from "./round-support.ts";

const O1 = { orderId: parseOrderId("o-1") };

/** E1 of `audit` fails so many times. */
function failing(scene: AzuriteScene, times: number, error: () => unknown = () => new Error("carrier is down")): void {
  scene.onHandle = (entry) => {
    if (entry !== "audit E1" || times === 0) return;
    times -= 1;
    throw error();
  };
}

describe("retries", () => {
  test("F1: short ones wait in the round, by the clock; attempts are on the blob in between", async () => {
    const scene = await AzuriteScene.connect();
    failing(scene, 2);
    const fail = scene.onHandle;
    const starts: [atMs: number, attempt: number, saved: number | undefined][] = [];
    scene.onHandle = async (entry, context) => {
      starts.push([scene.clock.monotonic(), context.attempt, (await scene.pending())[0]?.attempts]);
      return fail(entry, context);
    };
    await scene.commit("o-1", [1, 2]);
    // A look for new commits would be a sleep like that of the second retry.
    const worker = scene.worker([scene.subscription("audit", { shortStarts: 3, shortDelayMs: 1_000 })], { pollMs: 60_000 });
    const round = worker.handle("o-1");
    await scene.clock.asleep(500);
    await scene.clock.advance(499);
    expect(scene.log).toEqual(["audit E1"]);
    await scene.clock.advance(1);
    await scene.clock.asleep(1_000);
    await scene.clock.advance(999);
    expect(scene.log).toEqual(["audit E1", "audit E1"]);
    await scene.clock.advance(1);
    expect(await round).toMatchObject({ status: "done", handled: 2 });
    expect(scene.log).toEqual(["audit E1", "audit E1", "audit E1", "audit E2"]);
    expect(starts.slice(0, 3)).toEqual([
      [0, 1, 0],
      [500, 2, 2],
      [1_500, 3, 3],
    ]);
    expect((await scene.archived()).map(({ attempts }) => attempts)).toEqual(["3", "1"]);
    expect(scene.hiddenMs).toEqual([]);
    expect(await scene.findings()).toEqual([]);
  });

  test("F2, C11: long ones park the event; another worker runs it at its time, and nothing passes it", async () => {
    const scene = await AzuriteScene.connect();
    failing(scene, 2);
    await scene.commit("o-1", [1, 2, 3]);
    expect(await scene.worker().handle("o-1")).toMatchObject({ status: "done", handled: 0 });
    const parked = { status: "parked", attempts: 1, waitMs: 10_000, nextAttemptMs: scene.clock.now() + 10_000 };
    expect(await scene.pending()).toMatchObject([{ ...parked, lastError: "Error: carrier is down" }, { status: "pending" }, {}]);
    await scene.clock.advance(9_999);
    expect(await scene.worker().handle("o-1")).toMatchObject({ status: "left", retryInMs: 1 });
    expect(scene.log).toEqual(["audit E1"]);
    await scene.clock.advance(1);
    await scene.worker().handle("o-1");
    expect(scene.log).toEqual(["audit E1", "audit E1"]);
    expect(await scene.pending()).toMatchObject([{ status: "parked", attempts: 2, waitMs: 20_000 }, {}, {}]);
    await scene.clock.advance(20_000);
    expect(await scene.worker().handle("o-1")).toMatchObject({ status: "done", handled: 3 });
    expect(scene.log).toEqual(["audit E1", "audit E1", "audit E1", "audit E2", "audit E3"]);
    expect((await scene.archived()).map(({ attempts }) => attempts)).toEqual(["3", "1", "1"]);
    expect(scene.hiddenMs).toEqual([10_000, 20_000]);
    expect(await scene.findings()).toEqual([]);
  });

  test("F2: RetryableError waits as long as it asks, though the burst is not over", async () => {
    const scene = await AzuriteScene.connect();
    failing(scene, 1, () => new RetryableError("busy", 90_000));
    await scene.commit("o-1", [1, 2]);
    const worker = scene.worker([scene.subscription("audit", { shortStarts: 3 })]);
    await worker.handle("o-1");
    expect(scene.hiddenMs).toEqual([90_000]);
    await scene.clock.advance(89_999);
    await worker.handle("o-1");
    expect(scene.log).toEqual(["audit E1"]);
    await scene.clock.advance(1);
    await worker.handle("o-1");
    expect(scene.log).toEqual(["audit E1", "audit E1", "audit E2"]);
    expect(await scene.findings()).toEqual([]);
  });

  test("G4: other orders and other subscriptions go on meanwhile", async () => {
    const scene = await AzuriteScene.connect();
    failing(scene, 1);
    await scene.commit("o-1", [1, 2]);
    await scene.commit("o-2", [8, 9]);
    const worker = scene.worker([scene.subscription("audit"), scene.subscription("mail")]);
    await worker.handle("o-1");
    await worker.handle("o-2");
    const ran = (name: string): string[] => scene.log.filter((entry) => entry.startsWith(name));
    expect(ran("audit")).toEqual(["audit E1", "audit E8", "audit E9"]);
    expect(ran("mail")).toEqual(["mail E1", "mail E2", "mail E8", "mail E9"]);
    await scene.clock.advance(10_000);
    await worker.handle("o-1");
    expect(ran("audit").slice(3)).toEqual(["audit E1", "audit E2"]);
    expect(ran("mail")).toHaveLength(4);
    expect(await scene.findings()).toEqual([]);
  });
});

describe("F3, F4, C12: dead letters", () => {
  /** E1 of `o-1` dies of a PermanentError. */
  async function dying(retry: RetryOptions): Promise<AzuriteScene> {
    const scene = await AzuriteScene.connect();
    scene.failWhile(new Set(["audit E1"]), () => new PermanentError("no such carrier"));
    await scene.commit("o-1", [1, 2, 3]);
    await scene.worker([scene.subscription("audit", retry)]).handle("o-1");
    return scene;
  }

  test("a PermanentError blocks at once, whoever comes by; a redrive runs it at its own place", async () => {
    const scene = await dying({});
    await scene.worker().handle("o-1");
    expect(scene.log).toEqual(["audit E1"]);
    expect(scene.hiddenMs).toEqual([]);
    expect(await scene.pending()).toMatchObject([{ status: "blocked", attempts: 1 }, { status: "pending" }, { status: "pending" }]);
    expect(await scene.dead()).toMatchObject([{ sequence: 1, policy: "block", attempts: 1, reason: "PermanentError: no such carrier" }]);
    scene.onHandle = () => undefined;
    expect(await decideOrder(scene.context, "redrive", O1, ANN)).toMatchObject([{ outcome: "recorded" }]);
    expect(await decideOrder(scene.context, "discard", O1, BOB)).toMatchObject([
      { outcome: "already-decided", decision: { actor: "ann" } },
    ]);
    expect(scene.hiddenMs).toEqual([0]);
    expect(await scene.worker().handle("o-1")).toMatchObject({ status: "done", handled: 3 });
    expect(scene.log).toEqual(["audit E1", "audit E1", "audit E2", "audit E3"]);
    expect((await scene.archived()).map(({ outcome, attempts }) => [outcome, attempts])).toEqual([
      ["handled", "1"],
      ["handled", "1"],
      ["handled", "1"],
    ]);
    expect(await scene.dead()).toEqual([]);
    expect(await scene.findings()).toEqual([]);
  });

  test("a discard lets the stream go on without it, and says who and why", async () => {
    const scene = await dying({});
    expect(await decideOrder(scene.context, "discard", O1, BOB)).toMatchObject([{ outcome: "recorded" }]);
    await scene.worker().handle("o-1");
    expect(scene.log).toEqual(["audit E1", "audit E2", "audit E3"]);
    expect(await scene.archived()).toMatchObject([
      { outcome: "discarded", decidedby: "bob", decisionreason: expect.stringContaining("order") as string },
      { outcome: "handled" },
      { outcome: "handled" },
    ]);
    expect(await scene.dead()).toEqual([]);
    expect(await scene.findings()).toEqual([]);
  });

  test("skipped, it stays on the list while its stream goes on; only an explicit redrive out of order runs it", async () => {
    const scene = await dying({ onDead: "skip" });
    expect(scene.log).toEqual(["audit E1", "audit E2", "audit E3"]);
    expect((await scene.archived()).map(({ outcome }) => outcome)).toEqual(["dead-lettered", "handled", "handled"]);
    expect(await scene.dead()).toMatchObject([{ sequence: 1, policy: "skip" }]);
    expect(await scene.findings()).toEqual([]);
    scene.onHandle = () => undefined;
    expect(await decideOrder(scene.context, "redrive", O1, ANN)).toMatchObject([{ outcome: "skipped" }]);
    expect(await decideOrder(scene.context, "redrive", O1, ANN, { outOfOrder: true })).toMatchObject([{ outcome: "recorded" }]);
    await scene.worker().handle("o-1");
    expect(scene.log).toEqual(["audit E1", "audit E2", "audit E3", "audit E1"]);
    expect((await scene.archived()).map(({ sequence, outcome }) => [sequence, outcome])).toEqual([
      ["1", "dead-lettered"],
      ["2", "handled"],
      ["3", "handled"],
      ["4", "handled"],
    ]);
    expect(await scene.dead()).toEqual([]);
    expect(await scene.findings()).toEqual([]);
  });

  test("retries that are used up end as one, with their history", async () => {
    const scene = await AzuriteScene.connect();
    failing(scene, 2);
    await scene.commit("o-1", [1, 2]);
    const worker = scene.worker([scene.subscription("audit", { shortStarts: 1, longRetries: 1, longDelayMs: 10_000 })]);
    await worker.handle("o-1");
    await scene.clock.advance(10_000);
    await worker.handle("o-1");
    expect(scene.log).toEqual(["audit E1", "audit E1"]);
    expect(await scene.dead()).toMatchObject([{ attempts: 2, reason: "gave up after 2 starts: Error: carrier is down" }]);
    expect(await scene.pending()).toMatchObject([{ status: "blocked", history: [{ starts: 2, error: "Error: carrier is down" }] }, {}]);
    expect(await scene.findings()).toEqual([]);
  });

  const replaced =
    (from: string, to: string) =>
    (bytes: Uint8Array): Uint8Array => {
      const text = new TextDecoder().decode(bytes);
      expect(text).toContain(from);
      return new TextEncoder().encode(text.replace(from, to));
    };

  test.each<["block" | "skip", string, (bytes: Uint8Array) => Uint8Array, RegExp]>([
    ["block", "an event that is cut", (bytes) => bytes.slice(0, 20), /corrupt/],
    ["skip", "an event that is no UTF-8", () => new Uint8Array([0xff, 0xfe, 0x00]), /corrupt/],
    ["block", "data that its schema refuses", replaced('"n":1', '"n":"one"'), /invalid-event/],
    ["skip", "data that its schema refuses", replaced('"n":1', '"n":"one"'), /invalid-event/],
  ])("%s: %s is one without a further start, its bytes are kept", async (onDead, _what, damage, reason) => {
    const scene = await AzuriteScene.connect();
    failing(scene, 1);
    await scene.commit("o-1", [1, 2]);
    const worker = scene.worker([scene.subscription("audit", { shortStarts: 1, longDelayMs: 1_000, onDead })]);
    await worker.handle("o-1");
    let damaged: Uint8Array | undefined;
    await scene.damageHead((bytes) => (damaged = damage(bytes)));
    await scene.clock.advance(1_000);
    await worker.handle("o-1");
    expect(scene.log).toEqual(onDead === "block" ? ["audit E1"] : ["audit E1", "audit E2"]);
    expect(await scene.dead()).toMatchObject([{ sequence: 1, policy: onDead, reason: expect.stringMatching(reason) as string }]);
    const { blobs } = scene.storage;
    const container = onDead === "block" ? "events" : "archive";
    const [first] = await Array.fromAsync(blobs.list(container, `audit/${key("o-1")}/`));
    expect((await blobs.read(container, first!.name))?.bytes).toEqual(damaged);
    expect(await scene.findings()).toEqual([]);
  });
});

describe("W4, C05, C06: processes that die in a handler", () => {
  interface Crash {
    /** Lets the handler go on and waits for the end of its round. */
    readonly revive: () => Promise<RoundResult>;
  }

  /** The process stands still in the handler of E1, and its lease ends. */
  async function crash(scene: AzuriteScene, retry: RetryOptions): Promise<Crash> {
    const started = Promise.withResolvers<void>();
    const stands = Promise.withResolvers<void>();
    scene.onHandle = () => {
      started.resolve();
      return stands.promise;
    };
    const round = scene.worker([scene.subscription("audit", retry)], { clock: new ManualClock(scene.clock.now()) }).handle("o-1");
    await started.promise;
    await scene.endLease("o-1");
    return {
      revive: () => {
        stands.resolve();
        return round;
      },
    };
  }

  test("each is counted, before the next start; the last one allowed makes a dead letter, and what revives is refused", async () => {
    const scene = await AzuriteScene.connect();
    const retry: RetryOptions = { maxCrashes: 3 };
    await scene.commit("o-1", [1, 2, 3]);
    const crashes: Crash[] = [];
    for (let nth = 1; nth <= 3; nth++) {
      crashes.push(await crash(scene, retry));
      expect(scene.log).toEqual(Array<string>(nth).fill("audit E1"));
      // The first start pays nothing: its blob was not there before the round.
      expect(await scene.pending()).toMatchObject([{ attempts: nth === 1 ? 0 : nth, crashes: nth === 1 ? 0 : nth }, { attempts: 0 }, {}]);
    }
    scene.onHandle = () => undefined;
    await scene.worker([scene.subscription("audit", retry)]).handle("o-1");
    expect(scene.log).toHaveLength(3);
    const dead = [{ sequence: 1, attempts: 3, reason: "the worker stopped 3 times while it was handled" }];
    expect(await scene.dead()).toMatchObject(dead);
    // W2: three handlers end well, long after their leases did.
    for (const { revive } of crashes) expect(await revive()).toMatchObject({ status: "left", handled: 0 });
    expect(scene.log).toHaveLength(3);
    expect(await scene.archived()).toEqual([]);
    expect(await scene.dead()).toMatchObject(dead);
    await decideOrder(scene.context, "redrive", O1, ANN);
    await scene.worker([scene.subscription("audit", retry)]).handle("o-1");
    expect(scene.log.slice(3)).toEqual(["audit E1", "audit E2", "audit E3"]);
    expect(await scene.findings()).toEqual([]);
  });

  test("fewer of them: it runs again at its place, and only it is charged", async () => {
    const scene = await AzuriteScene.connect();
    await scene.commit("o-1", [1, 2]);
    const first = await crash(scene, {});
    const second = await crash(scene, {});
    scene.onHandle = () => undefined;
    await scene.worker().handle("o-1");
    expect(scene.log).toEqual(["audit E1", "audit E1", "audit E1", "audit E2"]);
    for (const { revive } of [first, second]) expect(await revive()).toMatchObject({ status: "left", handled: 0 });
    expect((await scene.archived()).map(({ attempts }) => attempts)).toEqual(["3", "1"]);
    expect(await scene.findings()).toEqual([]);
  });
});

describe("F8: the circuit breaker", () => {
  afterEach(() => void vi.useRealTimers());

  test("opens, lets one try and stays open, closes after the next", async () => {
    const scene = await AzuriteScene.connect();
    // The breaker library reads the wall clock by itself.
    vi.useFakeTimers({ toFake: ["Date"], now: scene.clock.now() });
    const turn = async (ms: number): Promise<void> => {
      await scene.clock.advance(ms);
      vi.setSystemTime(scene.clock.now());
    };
    const worker = scene.worker([scene.subscription("audit")], { breaker: { failures: 3, openMs: 30_000 } });
    const OPEN = ["event 1 of audit stands: its circuit breaker is open"];
    scene.onHandle = () => {
      throw new Error("connection refused");
    };
    for (const n of [1, 2, 3, 4, 5]) await scene.commit(`o-${n}`, [n]);
    for (const n of [1, 2, 3]) await worker.handle(`o-${n}`);
    expect(await worker.handle("o-4")).toMatchObject({ problems: OPEN });
    expect(await worker.handle("o-5")).toMatchObject({ problems: OPEN });
    expect(scene.log).toEqual(["audit E1", "audit E2", "audit E3"]);
    const parked = { status: "parked", attempts: 0, crashes: 0, nextAttemptMs: scene.clock.now() + 30_000, history: [] };
    expect([await scene.pending("o-4"), await scene.pending("o-5")]).toMatchObject([[parked], [parked]]);

    // The first try fails: open for another 30 s.
    await turn(30_000);
    await worker.handle("o-4");
    expect(await worker.handle("o-5")).toMatchObject({ problems: OPEN });
    expect(scene.log.slice(3)).toEqual(["audit E4"]);
    expect([await scene.pending("o-4"), await scene.pending("o-5")]).toMatchObject([[{ attempts: 1 }], [{ attempts: 0 }]]);

    // The second one is under way: nobody waits for it.
    await turn(30_000);
    const started = Promise.withResolvers<void>();
    const answer = Promise.withResolvers<void>();
    scene.onHandle = () => {
      started.resolve();
      return answer.promise;
    };
    const trial = worker.handle("o-5");
    await started.promise;
    expect(await worker.handle("o-1")).toMatchObject({ problems: OPEN });
    expect(await scene.pending("o-1")).toMatchObject([{ status: "parked", attempts: 1 }]);
    answer.resolve();
    expect(await trial).toMatchObject({ status: "done", handled: 1 });

    // Closed.
    await scene.commit("o-6", [6]);
    for (const n of [6, 2, 3, 4]) await worker.handle(`o-${n}`);
    await turn(30_000);
    await worker.handle("o-1");
    expect(scene.log.slice(4)).toEqual(["audit E5", "audit E6", "audit E2", "audit E3", "audit E4", "audit E1"]);
    const archived = await Promise.all([1, 2, 3, 4, 5, 6].map((n) => scene.archived(`o-${n}`)));
    expect(archived.flat().map(({ attempts }) => attempts)).toEqual(["2", "2", "2", "2", "1", "1"]);
    expect(await scene.findings()).toEqual([]);
  });
});

describe("F5: pauses", () => {
  test.each([
    ["a subscription", { subscription: "audit" }, []],
    ["one order of it", { subscription: "audit", ...O1 }, ["audit E8", "audit E9"]],
  ] as const)("%s starts nothing and counts nothing, all others go on; resumed, it continues in order", async (_what, target, others) => {
    const scene = await AzuriteScene.connect();
    await pause(scene.context, target, ANN, { force: true });
    await scene.commit("o-1", [1, 2]);
    await scene.commit("o-2", [8, 9]);
    const worker = scene.worker([scene.subscription("audit"), scene.subscription("mail")]);
    await worker.handle("o-1");
    await worker.handle("o-2");
    const ran = (name: string): string[] => scene.log.filter((entry) => entry.startsWith(name));
    expect(ran("audit")).toEqual(others);
    expect(ran("mail")).toEqual(["mail E1", "mail E2", "mail E8", "mail E9"]);
    expect(await scene.pending()).toMatchObject([
      { status: "pending", attempts: 0, crashes: 0 },
      { status: "pending", attempts: 0, crashes: 0 },
    ]);
    expect(await resume(scene.context, target, BOB)).toEqual({ outcome: "resumed", woken: 2 - others.length / 2 });
    expect(scene.hiddenMs).toEqual(others.length === 0 ? [CONTROL_CACHE_MS, CONTROL_CACHE_MS] : [CONTROL_CACHE_MS]);
    await scene.clock.advance(CONTROL_CACHE_MS);
    await worker.handle("o-1");
    await worker.handle("o-2");
    expect(ran("audit").filter((entry) => /E[12]$/.test(entry))).toEqual(["audit E1", "audit E2"]);
    expect(ran("audit").filter((entry) => /E[89]$/.test(entry))).toEqual(["audit E8", "audit E9"]);
    expect(ran("mail")).toHaveLength(4);
    expect((await scene.archived()).map(({ attempts }) => attempts)).toEqual(["1", "1"]);
    expect(await scene.findings()).toEqual([]);
  });

  test("one that comes while a round runs ends it within CONTROL_CACHE_MS; what runs may finish", async () => {
    const scene = await AzuriteScene.connect();
    await scene.commit("o-1", [1, 2, 3]);
    scene.onHandle = async () => {
      await pause(scene.context, { subscription: "audit", ...O1 }, ANN, { force: true });
      await scene.clock.advance(CONTROL_CACHE_MS);
    };
    const result = await scene.worker().handle("o-1");
    expect(result).toMatchObject({ status: "done", handled: 1, problems: ["event 2 of audit stands: paused by ann: carrier is back"] });
    expect(scene.log).toEqual(["audit E1"]);
    expect(await scene.pending()).toMatchObject([{ sequence: 2, attempts: 0 }, { sequence: 3 }]);
    expect(await scene.findings()).toEqual([]);
  });
});
