/** W5, W6, the look after the release, and what happens when two workers want one order: C05, C09, C10, C17, C18, C34. */
import { describe, expect, test } from "vitest";
import { OutboxError } from "../../src/core/errors.ts";
import { silentLogger } from "../../src/core/logger.ts";
import { HeldLease } from "../../src/worker/held-lease.ts";
import { settle } from "../support/manual-clock.ts";
import { key, Scene } from "./round-support.ts";

const ORDER = key("o-1");

async function held(scene: Scene, durationMs = 30_000): Promise<HeldLease> {
  const blob = scene.storage.leaseOf(ORDER) ?? (await scene.storage.leases.create(ORDER));
  return HeldLease.acquire(ORDER, blob, { leases: scene.storage.leases, clock: scene.clock, logger: silentLogger, durationMs });
}

/** How often the port was asked to renew. */
function renewals(scene: Scene): number {
  return scene.storage.callCounts()["leases.renew"] ?? 0;
}

describe("W5: holding a lease", () => {
  test("renewed at a third of its time: 5 minutes take 30 renewals at 30 s", async () => {
    const scene = new Scene();
    const lease = await held(scene);
    await scene.clock.advance(300_000);
    expect(renewals(scene)).toBe(30);
    lease.assertHeld();
    await lease.release();
    expect(scene.storage.leaseOf(ORDER)?.state).toBe("free");
    expect(scene.clock.pending()).toBe(0);
  });

  test("C17c: a renewal that fails once for a passing reason is tried again; nothing is lost", async () => {
    const scene = new Scene();
    const lease = await held(scene);
    let failures = 1;
    scene.storage.onCall = ({ method }) => {
      if (method === "renew" && failures-- > 0) throw new OutboxError("unavailable", "503");
    };
    await scene.clock.advance(60_000);
    expect(lease.lost.aborted).toBe(false);
    await lease.release();
  });

  test("C17d: a refused renewal loses the lease at once", async () => {
    const scene = new Scene();
    const lease = await held(scene);
    scene.storage.breakLease(ORDER);
    await scene.clock.advance(10_000);
    expect(lease.lost.reason).toMatchObject({ code: "lease-lost" });
    expect(() => lease.assertHeld()).toThrow(/lease-lost/);
    await lease.release();
    expect(scene.clock.pending()).toBe(0);
  });

  test("C17e: a renewal that hangs counts from the start of the last good one: lost after duration less a sixth", async () => {
    const scene = new Scene();
    const lease = await held(scene);
    scene.storage.onCall = ({ method }) => (method === "renew" ? new Promise<void>(() => undefined) : undefined);
    await scene.clock.advance(24_999);
    expect(lease.lost.aborted).toBe(false);
    await scene.clock.advance(1);
    expect(lease.lost.reason).toMatchObject({ code: "lease-lost" });
  });

  test("a slow renewal counts from its start, not from its answer", async () => {
    const scene = new Scene();
    const lease = await held(scene);
    let first = true;
    scene.storage.onCall = ({ method }) => {
      if (method !== "renew") return undefined;
      if (!first) return new Promise<void>(() => undefined);
      first = false;
      return { after: () => scene.clock.sleep(8_000) };
    };
    await scene.clock.advance(34_999);
    expect(lease.lost.aborted).toBe(false);
    await scene.clock.advance(1);
    expect(lease.lost.aborted).toBe(true);
  });

  test("C17a: after the process was frozen past the lease, the first question notices, before any timer fires", async () => {
    const scene = new Scene();
    const lease = await held(scene);
    scene.clock.skipMonotonic(31_000);
    expect(() => lease.assertHeld()).toThrow(/lease-lost/);
    await lease.release();
  });

  test("a fresh lease id for every acquisition", async () => {
    const scene = new Scene();
    const first = await held(scene);
    await first.release();
    const second = await held(scene);
    expect(second.id).not.toBe(first.id);
    await second.release();
  });

  test("an acquisition without an answer is given back rather than left to run out", async () => {
    const scene = new Scene();
    await scene.storage.leases.create(ORDER);
    scene.storage.onCall = ({ method }) => (method === "acquire" ? "lose-response" : undefined);
    await expect(held(scene)).rejects.toMatchObject({ code: "unavailable" });
    expect(scene.storage.leaseOf(ORDER)?.state).toBe("free");
  });

  test("C18: a release that fails, or comes twice, or after the end, is quiet", async () => {
    const scene = new Scene();
    const lost = await held(scene);
    scene.storage.onCall = ({ method }) => (method === "release" ? "lose-response" : undefined);
    await lost.release();
    await lost.release();
    scene.storage.onCall = undefined;
    expect(scene.storage.leaseOf(ORDER)?.state).toBe("free");
    const expired = await held(scene);
    await expired.abandon();
    await scene.clock.advance(31_000);
    await expired.release();
  });
});

describe("C05: a holder that lost its lease", () => {
  test.each(["succeeds", "throws"])("while its handler ran writes nothing and starts nothing: the handler %s", async (end) => {
    const scene = new Scene();
    await scene.commit("o-1", [1, 2]);
    const frozen = Promise.withResolvers<void>();
    let first = true;
    scene.onHandle = () => {
      if (!first) return undefined;
      first = false;
      return frozen.promise;
    };
    const slow = scene.worker().handle("o-1");
    await settle();
    // Frozen: its renewals do not get through any more.
    scene.storage.breakLease(ORDER);
    expect(await scene.worker().handle("o-1")).toMatchObject({ status: "done", handled: 2 });
    const before = {
      events: scene.storage.blobEntries("events"),
      archive: scene.storage.blobEntries("archive"),
      progress: scene.progress(),
    };
    scene.storage.forgetCalls();
    if (end === "succeeds") frozen.resolve();
    else frozen.reject(new Error("too late"));
    expect(await scene.until(slow)).toMatchObject({ status: "left", handled: 0 });
    expect(scene.log).toEqual(["audit E1", "audit E1", "audit E2"]);
    expect({
      events: scene.storage.blobEntries("events"),
      archive: scene.storage.blobEntries("archive"),
      progress: scene.progress(),
    }).toEqual(before);
    expect(scene.storage.callCounts()["blobs.create"]).toBeUndefined();
  });

  test("W2: is stopped by the fence even if its own clock saw nothing", async () => {
    const scene = new Scene();
    await scene.commit("o-1", [1, 2]);
    scene.onHandle = () => {
      // Another holder took over and gave back within the time this one believes in.
      if (scene.log.length > 1) return;
      scene.storage.breakLease(ORDER);
    };
    expect(await scene.worker().handle("o-1")).toMatchObject({ status: "left", handled: 0 });
    expect(scene.log).toEqual(["audit E1"]);
    expect(scene.progress().streams).toEqual({ audit: { sequence: 0, id: undefined, relayed: 0 } });
    expect(scene.ids("archive")).toEqual([]);
  });

  test("W5: writes no progress once it may be lost, though the service would still take it", async () => {
    const scene = new Scene();
    await scene.commit("o-1", [0]);
    await scene.worker().handle("o-1");
    scene.storage.forgetCalls();
    await scene.commit("o-1", [1]);
    scene.storage.onCall = ({ method }) => {
      if (method === "renew") throw new OutboxError("unavailable", "503");
    };
    scene.onHandle = () => scene.clock.sleep(26_000);
    const running = scene.worker().handle("o-1");
    await scene.clock.advance(26_000);
    expect(scene.storage.leaseOf(ORDER)?.state).toBe("taken");
    expect(await running).toMatchObject({ status: "left", handled: 0 });
    expect(scene.storage.callCounts()["leases.writeMetadata"]).toBeUndefined();
  });

  test("W5: its handler sees the abort signal", async () => {
    const scene = new Scene();
    await scene.commit("o-1", [1]);
    const reason = Promise.withResolvers<unknown>();
    scene.onHandle = (_entry, { context }) =>
      new Promise((_resolve, reject) => {
        context.signal.addEventListener("abort", () => {
          reason.resolve(context.signal.reason);
          reject(context.signal.reason as Error);
        });
      });
    const running = scene.worker().handle("o-1");
    await settle();
    scene.storage.breakLease(ORDER);
    await scene.clock.advance(10_000);
    expect(await reason.promise).toMatchObject({ code: "lease-lost" });
    expect(await scene.until(running)).toMatchObject({ status: "left" });
    // The failure of an aborted handler is no attempt.
    expect(scene.storage.blobEntries("events")[0]?.[1].metadata["attempts"]).toBe("0");
  });
});

describe("W6, C09, C10: a lease that is taken", () => {
  test("is no error: the wake-up is kept, hidden for one lease time, and nothing else is called", async () => {
    const scene = new Scene();
    await scene.commit("o-1", [1]);
    const gate = Promise.withResolvers<void>();
    scene.onHandle = () => gate.promise;
    const holder = scene.worker().handle("o-1");
    await settle();
    scene.storage.forgetCalls();
    expect(await scene.worker().handle("o-1")).toEqual({ status: "taken", retryInMs: 30_000, handled: 0, problems: [] });
    expect(scene.storage.callCounts()).toEqual({ "leases.read": 1 });
    gate.resolve();
    await scene.until(holder);
    expect(scene.log).toEqual(["audit E1"]);
  });

  test("C09a: the holder looks once more after the release, so a commit whose wake-up was turned away runs at once", async () => {
    const scene = new Scene();
    await scene.commit("o-1", [1]);
    let turnedAway: unknown;
    scene.storage.onCall = async ({ port, method }) => {
      if (port !== "leases" || method !== "release" || turnedAway !== undefined) return;
      // Between the holder's last look and its release.
      turnedAway = "pending";
      await scene.commit("o-1", [2]);
      turnedAway = (await scene.worker().handle("o-1")).status;
    };
    expect(await scene.worker().handle("o-1")).toMatchObject({ status: "done", handled: 2 });
    expect(turnedAway).toBe("taken");
    expect(scene.log).toEqual(["audit E1", "audit E2"]);
  });

  test("C10: 30 wake-ups of one order in one process are one round; none is lost, none is an error", async () => {
    const scene = new Scene();
    await scene.commit("o-1", [1]);
    const gate = Promise.withResolvers<void>();
    scene.onHandle = (_entry, { n }) => (n === 1 ? gate.promise : undefined);
    const worker = scene.worker();
    const first = worker.handle("o-1");
    await settle();
    scene.storage.forgetCalls();
    const others = await Promise.all(Array.from({ length: 29 }, () => worker.handle("o-1")));
    expect(new Set(others.map(({ status }) => status))).toEqual(new Set(["joined"]));
    expect(scene.storage.calls).toEqual([]);
    await scene.commit("o-1", [2]);
    gate.resolve();
    expect(await scene.until(first)).toMatchObject({ status: "done", handled: 2 });
  });

  test("W9: a commit and its poke during the last look are not lost", async () => {
    const scene = new Scene();
    await scene.commit("o-1", [1]);
    const worker = scene.worker();
    let looks = 0;
    scene.storage.onCall = ({ method }) => {
      if (method !== "readOutbox" || ++looks !== 2) return undefined;
      return {
        after: async () => {
          await scene.commit("o-1", [2]);
          expect((await worker.handle("o-1")).status).toBe("joined");
        },
      };
    };
    expect(await worker.handle("o-1")).toMatchObject({ status: "done", handled: 2 });
  });

  test("W9: a poke in the very last moment starts a round or is seen by the running one", async () => {
    for (let delay = 0; delay < 80; delay++) {
      const scene = new Scene();
      await scene.commit("o-1", [1]);
      const worker = scene.worker();
      const first = worker.handle("o-1");
      for (let tick = 0; tick < delay; tick++) await Promise.resolve();
      await scene.commit("o-1", [2]);
      await worker.handle("o-1");
      await scene.until(first);
      expect(scene.log).toEqual(["audit E1", "audit E2"]);
    }
  });
});

describe("C34: the lease blob comes and goes", () => {
  test("two workers at the first event ever: one takes it, the other is told, the event runs once", async () => {
    const scene = new Scene();
    await scene.commit("o-1", [1]);
    const results = await Promise.all([scene.worker().handle("o-1"), scene.worker().handle("o-1")]);
    expect(results.map(({ status }) => status)).toContain("done");
    expect(scene.log).toEqual(["audit E1"]);
  });

  test("deleted between create and acquire: tried again", async () => {
    const scene = new Scene();
    await scene.commit("o-1", [1]);
    let deletions = 2;
    scene.storage.onCall = ({ method }) => {
      if (method === "acquire" && deletions-- > 0) scene.storage.deleteLeaseBlob(ORDER);
    };
    expect((await scene.worker().handle("o-1")).status).toBe("done");
    expect(scene.log).toEqual(["audit E1"]);
  });

  test("progress written between reading and acquiring: read again, never decided on old progress", async () => {
    const scene = new Scene();
    await scene.commit("o-1", [1]);
    await scene.worker().handle("o-1");
    await scene.commit("o-1", [2]);
    let other = true;
    scene.storage.onCall = async ({ method }) => {
      if (method !== "acquire" || !other) return;
      other = false;
      await scene.worker().handle("o-1");
    };
    expect((await scene.worker().handle("o-1")).status).toBe("done");
    expect(scene.log).toEqual(["audit E1", "audit E2"]);
  });

  test("it never stands still: the wake-up is put back", async () => {
    const scene = new Scene();
    scene.storage.onCall = ({ method }) => {
      if (method === "acquire") scene.storage.deleteLeaseBlob(ORDER);
    };
    expect(await scene.worker().handle("o-1")).toMatchObject({ status: "left", retryInMs: 1_000 });
  });
});
