/** A round leaves its mark on the lease blob, so that `explain` can say since when a lease is held. */
import { describe, expect, test, vi } from "vitest";
import { systemClock } from "../../src/system/clock.ts";
import { OutboxError } from "../../src/core/errors.ts";
import type { Verdict } from "../../src/core/explain.ts";
import { explain } from "../../src/operations/explain.ts";
import { showOrder } from "../../src/operations/show-order.ts";
import { createOutbox } from "../../src/producer/outbox.ts";
import { createWorker } from "../../src/worker/worker.ts";
import { connectTestStorage } from "../support/azurite-storage.ts";
import { ManualClock, settle } from "../support/manual-clock.ts";
import { contextOf, oid } from "./operator-support.ts";
import { key, Scene, workflow } from "./round-support.ts";

const HOUR = 3_600_000;

/** An order whose first event was handled an hour ago; the handler of the second one runs until `finish`. */
async function longHandler(): Promise<{ scene: Scene; finish: () => void; running: Promise<unknown>; startedAt: string }> {
  const scene = new Scene();
  const worker = scene.worker();
  await scene.commit("o-1", [1]);
  await scene.until(worker.handle("o-1"));
  await scene.clock.advance(HOUR);
  await scene.commit("o-1", [2]);
  const gate = Promise.withResolvers<void>();
  scene.onHandle = () => gate.promise;
  scene.storage.forgetCalls();
  const startedAt = new Date(scene.clock.now()).toISOString();
  const running = worker.handle("o-1");
  await settle();
  return { scene, finish: gate.resolve, running, startedAt };
}

async function verdict(scene: Scene): Promise<Verdict> {
  return (await explain(contextOf(scene), oid("o-1"))).verdict;
}

function marks(scene: Scene): number {
  return scene.storage.calls.filter(({ port, method }) => port === "leases" && method === "writeMetadata").length;
}

describe("explain: since when a lease is held", () => {
  test("until the first renewal the mark is that of the round before, and no time is told", async () => {
    const { scene, finish, running } = await longHandler();
    await scene.clock.advance(9_999);
    const held = await verdict(scene);
    expect([held.code, held.heldSince]).toEqual(["lease-held", undefined]);
    expect(held.sentence).toContain("the order's lease is held, and there is no holder's mark yet");
    expect(marks(scene)).toBe(0);
    finish();
    await scene.until(running);
  });

  test("from the first renewal on: the start of the round, the event and its attempt", async () => {
    const { scene, finish, running, startedAt } = await longHandler();
    await scene.clock.advance(45_000);
    const held = await verdict(scene);
    expect(held).toMatchObject({
      code: "lease-held",
      subscription: "audit",
      heldSince: startedAt,
      running: { sequence: 2, type: "step", attempt: 1 },
    });
    expect(held.sentence).toContain(`Event 2 of audit (step, attempt 1): the worker ${held.heldBy} has held the order's lease`);
    expect(held.sentence).toContain(` since ${startedAt} (45 s)`);
    expect(await showOrder(contextOf(scene), oid("o-1"))).toMatchObject({
      lease: "taken",
      heldSince: startedAt,
      heldBy: expect.stringMatching(new RegExp(`^[\\w.-]+:${process.pid}$`)),
    });
    // Four renewals, one mark.
    expect(marks(scene)).toBe(1);
    finish();
    await scene.until(running);
    expect(marks(scene)).toBe(2);
    expect(scene.log).toEqual(["audit E1", "audit E2"]);
    expect((await verdict(scene)).code).toBe("nothing-to-do");
    expect(scene.storage.leaseOf(key("o-1"))?.state).toBe("free");
  });

  test("a suspect's attempt was counted before it started (W4)", async () => {
    const scene = new Scene();
    await scene.commit("o-1", [1]);
    let starts = 0;
    scene.onHandle = () => (++starts === 1 ? Promise.reject(new Error("carrier is down")) : new Promise<void>(() => undefined));
    const worker = scene.worker();
    await scene.until(worker.handle("o-1"));
    await scene.clock.advance(10_000);
    void worker.handle("o-1");
    await scene.clock.advance(11_000);
    expect((await verdict(scene)).running).toMatchObject({ sequence: 1, attempt: 2 });
    expect(scene.storage.blobEntries("events")[0]?.[1].metadata).toMatchObject({ attempts: "2" });
  });

  test("a round that has recorded progress is marked by it and writes nothing more", async () => {
    const { scene, finish, running, startedAt } = await longHandler();
    finish();
    await settle();
    await scene.until(running);
    await scene.commit("o-1", [3, 4]);
    const gate = Promise.withResolvers<void>();
    scene.onHandle = (_entry, { n }) => (n === 4 ? gate.promise : undefined);
    scene.storage.forgetCalls();
    const next = scene.worker().handle("o-1");
    await scene.clock.advance(25_000);
    expect(marks(scene)).toBe(1);
    expect(await verdict(scene)).toMatchObject({ heldSince: startedAt, running: { sequence: 4, attempt: 1 } });
    gate.resolve();
    await scene.until(next);
    expect(marks(scene)).toBe(2);
  });

  test("the mark of a holder that died is not taken for that of the next", async () => {
    const { scene, startedAt } = await longHandler();
    await scene.clock.advance(15_000);
    expect((await verdict(scene)).heldSince).toBe(startedAt);
    scene.storage.breakLease(key("o-1"));
    await scene.clock.advance(1_000);
    void scene.worker().handle("o-1");
    await scene.clock.advance(1_000);
    expect(await verdict(scene)).toMatchObject({ code: "lease-held" });
    expect((await verdict(scene)).heldSince).toBeUndefined();
    await scene.clock.advance(10_000);
    expect((await verdict(scene)).heldSince).toBe(new Date(scene.clock.now() - 11_000).toISOString());
  });
});

describe("W2: the mark and the chain of writes", () => {
  const disturbances = [
    ["is refused", () => Promise.reject(new OutboxError("unavailable", "503"))],
    ["lands, but its answer is lost", () => Promise.resolve("lose-response" as const)],
  ] as const;

  test.each(disturbances)("a mark that %s costs nothing: the progress is written, the event runs once", async (_name, disturb) => {
    const { scene, finish, running, startedAt } = await longHandler();
    let disturbed = 0;
    scene.storage.onCall = ({ method, port }) =>
      port === "leases" && method === "writeMetadata" && disturbed++ === 0 ? disturb() : undefined;
    await scene.clock.advance(15_000);
    expect(disturbed).toBe(1);
    finish();
    await scene.until(running);
    expect(scene.log).toEqual(["audit E1", "audit E2"]);
    expect(scene.progress().clean).toBe(2);
    expect(scene.storage.leaseOf(key("o-1"))).toMatchObject({ state: "free" });
    expect(startedAt).toBeDefined();
  });

  test("a mark that failed is tried again at the next renewal", async () => {
    const { scene, finish, running, startedAt } = await longHandler();
    let down = true;
    scene.storage.onCall = ({ method }) => {
      if (method === "writeMetadata" && down) throw new OutboxError("unavailable", "503");
    };
    await scene.clock.advance(15_000);
    expect((await verdict(scene)).heldSince).toBeUndefined();
    down = false;
    await scene.clock.advance(10_000);
    expect((await verdict(scene)).heldSince).toBe(startedAt);
    finish();
    await scene.until(running);
    expect(scene.log).toEqual(["audit E1", "audit E2"]);
  });

  /** The first write waits for `answer`. Tells how many writes there were at once, at most. */
  function watchWrites(scene: Scene, answer: Promise<void>): () => number {
    let under = 0;
    let most = 0;
    let first = true;
    scene.storage.onCall = async ({ port, method }) => {
      if (port !== "leases" || method !== "writeMetadata") return undefined;
      most = Math.max(most, ++under);
      const isFirst = first;
      first = false;
      try {
        if (isFirst) await answer;
      } catch (error) {
        under--;
        throw error;
      }
      return { after: () => void under-- };
    };
    return () => most;
  }

  test.each([
    ["a handler that ends while the mark is under way", 10_000, 0],
    ["a renewal while progress is written", 9_500, 1_000],
    ["a renewal while progress waits for a mark", 15_000, 6_000],
  ])("%s: one write after the other, never two at once", async (_name, endsAfterMs, waitMs) => {
    const { scene, finish, running } = await longHandler();
    const answer = Promise.withResolvers<void>();
    const most = watchWrites(scene, answer.promise);
    await scene.clock.advance(endsAfterMs);
    finish();
    await scene.clock.advance(waitMs);
    expect(marks(scene)).toBe(1);
    if (waitMs > 5_000) answer.reject(new OutboxError("unavailable", "503"));
    else answer.resolve();
    await scene.until(running);
    expect([most(), marks(scene)]).toEqual([1, waitMs === 1_000 ? 1 : 2]);
    expect(scene.progress().clean).toBe(2);
    expect(scene.log).toEqual(["audit E1", "audit E2"]);
  });

  test("a mark that finds the lease gone loses it at once", async () => {
    const { scene, running } = await longHandler();
    scene.storage.onCall = ({ method }) => {
      if (method === "writeMetadata") throw new OutboxError("lease-lost", "409");
    };
    await scene.clock.advance(10_000);
    expect(scene.storage.callCounts()["leases.renew"]).toBe(1);
    await scene.clock.advance(60_000);
    expect(scene.storage.callCounts()["leases.renew"]).toBe(1);
    void running;
  });
});

test("with Azurite: the mark is told from that of the round before", async () => {
  const storage = await connectTestStorage();
  const clock = new ManualClock(systemClock.now());
  const gate = Promise.withResolvers<void>();
  const scene = new Scene();
  const started: number[] = [];
  scene.onHandle = (_entry, { n }) => {
    started.push(n);
    return n === 2 ? gate.promise : undefined;
  };
  const worker = createWorker({ workflow, subscriptions: [scene.subscription("audit")], storage, clock });
  const outbox = createOutbox({ workflow, storage });
  const commit = (n: number) => outbox.commit("o-1", () => ({ state: { committed: n }, events: [{ type: "step", data: { n } }] }));
  const context = { storage, clock };
  await commit(1);
  await worker.handle("o-1");
  await clock.advance(HOUR);
  const startedAt = new Date(clock.now()).toISOString();
  await commit(2);
  const running = worker.handle("o-1");
  await vi.waitFor(() => expect(started).toEqual([1, 2]));
  expect((await explain(context, oid("o-1"))).verdict).toMatchObject({
    code: "lease-held",
    running: { sequence: 2, type: "step", attempt: 1 },
  });
  expect((await explain(context, oid("o-1"))).verdict.heldSince).toBeUndefined();
  await clock.advance(10_000);
  await vi.waitFor(async () => expect((await explain(context, oid("o-1"))).verdict.heldSince).toBe(startedAt));
  gate.resolve();
  expect(await running).toMatchObject({ status: "done", handled: 1 });
  expect((await explain(context, oid("o-1"))).verdict.code).toBe("nothing-to-do");
});
