/** W4, C06: which starts are counted before they happen, and which are taken back. */
import { randomUUID } from "node:crypto";
import { afterEach, beforeEach, describe, expect, test, vi } from "vitest";
import { OutboxError } from "../../src/core/errors.ts";
import { encodeSwept } from "../../src/core/holder-mark.ts";
import type { Metadata } from "../../src/core/ports.ts";
import { PermanentError } from "../../src/core/retry.ts";
import { pause, resume } from "../../src/operations/pauses.ts";
import { createSweeper } from "../../src/operations/sweep.ts";
import type { Worker } from "../../src/worker/round-result.ts";
import { settle } from "../support/manual-clock.ts";
import { dieIn, kill, MAX_CRASHES, processOf, processWith } from "./crash-support.ts";
import { ANN, contextOf, deadLetters, decideAbout, live, pendingStates } from "./operator-support.ts";
import { key, Scene } from "./round-support.ts";

describe("W4: a start within a round is counted before it, so that a death in it counts whoever has the order next", () => {
  /** P lets the lease run out, alive, with E1 relayed; then Q fails in E1, starts it again, and dies in it. */
  async function dieInShortRetry(scene: Scene, p: Worker): Promise<void> {
    await scene.commit("o-1", [0]);
    await scene.until(p.handle("o-1"));
    await scene.commit("o-1", [1]);
    scene.storage.onCall = ({ port, method }) => {
      if (port === "leases" && method === "writeMetadata") throw new OutboxError("forbidden", "down");
    };
    await expect(p.handle("o-1")).rejects.toThrow("down");
    scene.storage.onCall = undefined;
    await scene.clock.advance(31_000);
    scene.log.length = 0;
    let starts = 0;
    scene.onHandle = () => {
      starts += 1;
      if (starts === 1) throw new Error("busy");
      return new Promise(() => undefined);
    };
    await dieIn(scene, processWith(scene, { shortStarts: 3, shortDelayMs: 0 }));
    expect(scene.log).toEqual(["audit E1", "audit E1"]);
  }

  test.each(["P, which has let the order go", "another process"])("a short retry; next is %s", async (who) => {
    const scene = new Scene();
    const p = processWith(scene, { shortStarts: 3, shortDelayMs: 0 });
    await dieInShortRetry(scene, p);
    const [before] = pendingStates(scene);
    expect(before).toMatchObject({ crashes: 1 });
    scene.onHandle = () => new Promise(() => undefined);
    void (who.startsWith("P") ? p : processOf(scene)).handle("o-1");
    await settle();
    expect(pendingStates(scene)).toMatchObject([{ attempts: before!.attempts + 1, crashes: 2 }]);
  });

  test("a redrive, by a process that died in it; next is one that had read the lease as free before", async () => {
    const scene = new Scene();
    scene.onHandle = () => {
      throw new PermanentError("refused");
    };
    await scene.commit("o-1", [1]);
    await scene.until(processOf(scene).handle("o-1"));
    scene.onHandle = () => new Promise(() => undefined);
    const thawed = Promise.withResolvers<void>();
    const { leases } = scene.storage;
    const read: typeof leases.read = async (...call) => {
      const blob = await leases.read(...call);
      await thawed.promise;
      return blob;
    };
    const late = scene.worker([scene.subscription("audit")], { storage: { ...scene.storage, leases: { ...leases, read } } });
    late.handle("o-1").catch(() => undefined);
    await settle();
    await decideAbout(scene, "redrive");
    await dieIn(scene, processOf(scene));
    expect(pendingStates(scene)).toMatchObject([{ status: "pending", attempts: 1, crashes: 1 }]);
    thawed.resolve();
    await settle();
    expect(scene.log).toEqual(["audit E1", "audit E1", "audit E1"]);
    expect(pendingStates(scene)).toMatchObject([{ attempts: 2, crashes: 2 }]);
  });

  test("one that fails at first and kills in its retry dies of it, also if a deployment without its subscription comes in between", async () => {
    const scene = new Scene();
    await scene.commit("o-1", [1]);
    let deaths = 0;
    for (let life = 0; life < 10; life++) {
      let starts = 0;
      scene.onHandle = () => {
        starts += 1;
        if (starts === 1) throw new Error("busy");
        deaths += 1;
        return new Promise(() => undefined);
      };
      await dieIn(scene, processWith(scene, { shortStarts: 2, shortDelayMs: 0, longRetries: 0 }));
      await scene.until(scene.worker([scene.subscription("mail", { events: ["other"] })]).handle("o-1"));
    }
    // A failure, the start that killed, and another failure: as many starts as the policy has, and one that was due.
    expect({ deaths, starts: scene.log.length }).toEqual({ deaths: 1, starts: 3 });
    expect(deadLetters(scene)).toHaveLength(1);
  });
});

describe("F8, W4: no start that did not happen counts, whether that could be written down or not", () => {
  beforeEach(() => void vi.useFakeTimers({ toFake: ["Date"] }));
  afterEach(() => void vi.useRealTimers());

  test("the breaker is open, and the park of a suspect can't be written", async () => {
    const scene = new Scene();
    vi.setSystemTime(scene.clock.now());
    const audit = scene.subscription("audit", { retry: { maxCrashes: MAX_CRASHES, shortStarts: 1 } });
    const worker = scene.worker([audit], { breaker: { failures: 1, openMs: 600_000 } });
    scene.onHandle = (entry) => {
      if (entry === "audit E9") throw new Error("connection refused");
    };
    await scene.commit("o-1", [1]);
    const stopping = processOf(scene);
    scene.storage.onCall = ({ port, method }) => {
      if (port === "orders" && method === "deleteOutbox") stopping.stopStarting();
    };
    await scene.until(stopping.handle("o-1"));
    scene.storage.onCall = undefined;
    await scene.commit("o-9", [9]);
    await scene.until(worker.handle("o-9"));
    for (let round = 0; round < MAX_CRASHES + 1; round++) {
      let writes = 0;
      scene.storage.onCall = ({ port, method }) => {
        if (port === "blobs" && method === "writeMetadata" && ++writes === 2) throw new OutboxError("unavailable", "busy");
      };
      await scene.until(worker.handle("o-1")).catch(() => undefined);
      scene.storage.onCall = undefined;
      await scene.clock.advance(11_000);
    }
    expect(scene.log).toEqual(["audit E9"]);
    expect(deadLetters(scene)).toEqual([]);
  });
});

test("F8, W4: a counted start that met an open breaker is no attempt either, however often its park can't be written", async () => {
  const scene = new Scene();
  scene.onHandle = () => {
    throw new Error("carrier is down");
  };
  await scene.commit("o-1", [1]);
  const retry = { shortStarts: 2, longRetries: 2, longDelayMs: 1_000, longMaxDelayMs: 1_000 };
  const worker = scene.worker([scene.subscription("audit", { retry })], { breaker: { failures: 1, openMs: 30_000 } });
  let left = 3;
  scene.storage.onCall = ({ port, method, args }) => {
    if (port !== "blobs" || method !== "writeMetadata" || (args[2] as Metadata)["status"] !== "parked" || left === 0) return;
    left -= 1;
    throw new OutboxError("unavailable", "busy");
  };
  await live(scene, worker, 1_200_000);
  expect([left, scene.log]).toEqual([0, ["audit E1"]]);
  expect(pendingStates(scene)).toMatchObject([{ attempts: 1, crashes: 0 }]);
});

test("W4: a start that was counted and hindered does not count, also if that can't be taken back", async () => {
  const scene = new Scene();
  await scene.commit("o-1", [1]);
  const stopping = processOf(scene);
  scene.storage.onCall = ({ port, method }) => {
    if (port === "orders" && method === "deleteOutbox") stopping.stopStarting();
  };
  await scene.until(stopping.handle("o-1"));
  const worker = processOf(scene);
  for (let round = 0; round < MAX_CRASHES + 1; round++) {
    const stop = new AbortController();
    let writes = 0;
    scene.storage.onCall = ({ port, method }) => {
      if (port !== "blobs" || method !== "writeMetadata") return;
      stop.abort();
      writes += 1;
      if (writes === 2) throw new OutboxError("unavailable", "busy");
    };
    await scene.until(worker.handle("o-1", { signal: stop.signal })).catch(() => undefined);
    expect(writes).toBe(2);
    await scene.clock.advance(11_000);
  }
  scene.storage.onCall = undefined;
  expect(scene.log).toEqual([]);
  await scene.until(worker.handle("o-1"));
  expect(scene.log).toEqual(["audit E1"]);
});

test("W4: a redriven event is no suspect of a death before the decision", async () => {
  const scene = new Scene();
  await scene.commit("o-1", [1]);
  await kill(scene, MAX_CRASHES + 1);
  expect(pendingStates(scene)).toMatchObject([{ status: "blocked" }]);
  await decideAbout(scene, "redrive");
  // A holder that dies before it looks.
  const { etag } = scene.storage.leaseOf(key("o-1"))!;
  await scene.storage.leases.acquire(key("o-1"), { id: randomUUID(), durationMs: 15_000, etag });
  await scene.clock.advance(31_000);
  void processOf(scene).handle("o-1");
  await settle();
  expect(pendingStates(scene)).toMatchObject([{ status: "pending", attempts: 1, crashes: 1 }]);
});

test("W4: a sweep's mark, which makes a round list what is left over, is no death in another stream", async () => {
  const scene = new Scene();
  const own = (): Worker =>
    scene.worker([scene.subscription("audit", { retry: { maxCrashes: 2 } }), scene.subscription("mail", { retry: { maxCrashes: 2 } })]);
  await pause(contextOf(scene), { subscription: "audit" }, ANN, { force: true });
  await scene.commit("o-1", [1]);
  await live(scene, own(), 1_000);
  // What a dead holder's late write leaves: a blob of mail that the progress has passed.
  const [name, { bytes, metadata }] = scene.storage.blobEntries("events").find(([each]) => each.startsWith("audit/"))!;
  scene.storage.putBlob("events", name.replace("audit/", "mail/"), bytes, metadata);
  expect(await createSweeper({ storage: scene.storage, clock: scene.clock }).sweep()).toMatchObject({ marked: 1 });
  await live(scene, own(), 40_000);
  expect(scene.ids("events", "mail")).toEqual([]);
  expect(pendingStates(scene)).toMatchObject([{ attempts: 0, crashes: 0, history: [] }]);
  // And a real death after the mark counts.
  await resume(contextOf(scene), { subscription: "audit" }, ANN);
  scene.onHandle = () => new Promise(() => undefined);
  for (let life = 0; life < 5; life++) await dieIn(scene, own());
  expect(scene.log.filter((entry) => entry === "audit E1")).toHaveLength(2);
  expect(deadLetters(scene)).toHaveLength(1);
});

test("W4: a death in the first round after a sweep's mark counts, also in an event that is new in it", async () => {
  const scene = new Scene();
  await pause(contextOf(scene), { subscription: "audit" }, ANN, { force: true });
  await scene.commit("o-1", [1]);
  await live(scene, processOf(scene), 1_000);
  const { etag, metadata } = scene.storage.leaseOf(key("o-1"))!;
  const leaseId = randomUUID();
  await scene.storage.leases.acquire(key("o-1"), { id: leaseId, durationMs: 15_000, etag });
  await scene.storage.leases.writeMetadata(key("o-1"), encodeSwept(metadata), { leaseId, etag });
  await scene.clock.advance(31_000);
  await resume(contextOf(scene), { subscription: "audit" }, ANN);
  await kill(scene, 1);
  expect(pendingStates(scene)).toMatchObject([{ attempts: 1, crashes: 1 }]);
  await decideAbout(scene, "discard");
  await scene.commit("o-1", [2]);
  scene.onHandle = () => new Promise(() => undefined);
  // E1 is gone without a progress write of its own.
  await kill(scene, 1);
  await kill(scene, 1);
  expect(scene.log).toEqual(["audit E1", "audit E2", "audit E2"]);
  expect(pendingStates(scene)).toMatchObject([{ attempts: 2, crashes: 2 }]);
});
