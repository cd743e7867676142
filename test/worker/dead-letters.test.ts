/** F3, F4, F10, C12: dead letters block or are skipped; operators decide about them, workers carry it out. */
import { describe, expect, test } from "vitest";
import { z } from "zod";
import { OutboxError } from "../../src/core/errors.ts";
import { silentLogger } from "../../src/core/logger.ts";
import { eventBlobName } from "../../src/core/names.ts";
import { PermanentError, type RetryOptions } from "../../src/core/retry.ts";
import { defineSubscription, defineWorkflow } from "../../src/core/workflow.ts";
import { decideMany } from "../../src/operations/decide-many.ts";
import { decide } from "../../src/operations/decide.ts";
import type { Worker } from "../../src/worker/round-result.ts";
import { createWorker } from "../../src/worker/worker.ts";
import {
  ANN,
  archived,
  BOB,
  contextOf,
  deadLetters,
  decideAbout,
  deliver,
  failWhile,
  findings,
  headId,
  live,
  oid,
  pendingStates,
} from "./operator-support.ts";
import { key, Scene } from "./round-support.ts";

const ONE_START: RetryOptions = { shortStarts: 1, longRetries: 0 };

/** E1 of `o-1` is dead and blocks E2 and E3. */
async function blocked(): Promise<{ readonly scene: Scene; readonly worker: Worker; readonly broken: Set<string> }> {
  const scene = new Scene();
  const broken = new Set(["audit E1"]);
  scene.onHandle = failWhile(broken);
  await scene.commit("o-1", [1, 2, 3]);
  const worker = scene.worker([scene.subscription("audit", { retry: ONE_START })]);
  await deliver(scene, worker);
  return { scene, worker, broken };
}

describe("C12, F3 block", () => {
  test("nothing passes a dead head, whatever wakes the worker; no message and no lease is left", async () => {
    const { scene, worker } = await blocked();
    await scene.commit("o-1", [4]);
    await live(scene, worker, 3_000);
    await scene.worker([scene.subscription("audit", { retry: ONE_START })]).handle("o-1");
    expect(scene.log).toEqual(["audit E1"]);
    expect(scene.storage.messages()).toEqual([]);
    expect(scene.storage.leaseOf(key("o-1"))?.state).toBe("free");
    expect(pendingStates(scene).map(({ status }) => status)).toEqual(["blocked", "pending", "pending", "pending"]);
    const reason = "gave up after 1 start: Error: carrier is down";
    expect(deadLetters(scene)).toMatchObject([{ sequence: 1, type: "step", policy: "block", reason, attempts: 1 }]);
    expect(pendingStates(scene)[0]).toMatchObject({ lastError: reason, history: [{ starts: 1, error: "Error: carrier is down" }] });
    expect(await findings(scene)).toEqual([]);
  });

  test("is logged once as an error, with what comes of it", async () => {
    for (const onDead of ["block", "skip"] as const) {
      const scene = new Scene();
      scene.onHandle = failWhile(new Set(["audit E1"]));
      await scene.commit("o-1", [1]);
      const errors: string[] = [];
      const logger = { ...silentLogger, error: (message: string) => void errors.push(message) };
      await deliver(scene, scene.worker([scene.subscription("audit", { retry: { ...ONE_START, onDead } })], { logger }));
      const what = onDead === "block" ? "its stream waits for a human" : "its stream goes on";
      expect(errors).toEqual(["a handler failed", `an event became a dead letter, ${what}`]);
    }
  });

  test("(a) discard: E2 and E3 at once, without a new commit; the archive says who and why", async () => {
    const { scene, worker } = await blocked();
    expect(await decideAbout(scene, "discard", BOB)).toMatchObject([{ outcome: "recorded" }]);
    await deliver(scene, worker);
    expect(scene.log).toEqual(["audit E1", "audit E2", "audit E3"]);
    expect(archived(scene)).toMatchObject([
      { sequence: "1", outcome: "discarded", decision: "discard", decidedby: "bob", attempts: "1" },
      { sequence: "2", outcome: "handled" },
      { sequence: "3", outcome: "handled" },
    ]);
    expect(decodeURIComponent(archived(scene)[0]!["decisionreason"]!)).toBe(BOB.reason);
    expect(archived(scene)[0]!["decidedat"]).toBe(new Date(scene.clock.now()).toISOString());
    expect(deadLetters(scene)).toEqual([]);
    expect(scene.ids("events")).toEqual([]);
    expect(await findings(scene)).toEqual([]);
  });

  test("(b) redrive: E1, E2, E3; fresh attempts, history kept, the index entry goes with the decision", async () => {
    const { scene, worker, broken } = await blocked();
    broken.clear();
    let attempt = 0;
    let during: { readonly dead: number; readonly history: readonly string[] } | undefined;
    scene.onHandle = (entry, { context }) => {
      if (entry !== "audit E1") return;
      attempt = context.attempt;
      during = { dead: deadLetters(scene).length, history: pendingStates(scene)[0]!.history.map(({ error }) => error) };
    };
    expect(await decideAbout(scene, "redrive")).toMatchObject([{ outcome: "recorded" }]);
    expect(deadLetters(scene)).toHaveLength(1);
    await deliver(scene, worker);
    expect(scene.log).toEqual(["audit E1", "audit E1", "audit E2", "audit E3"]);
    expect(attempt).toBe(1);
    expect(during).toEqual({ dead: 0, history: ["Error: carrier is down", "redriven by ann: carrier is back"] });
    expect(deadLetters(scene)).toEqual([]);
    expect(await findings(scene)).toEqual([]);
  });

  test("a redriven event that fails again dies again, with both lives in its history", async () => {
    const { scene, worker } = await blocked();
    await decideAbout(scene, "redrive");
    await deliver(scene, worker);
    expect(scene.log).toEqual(["audit E1", "audit E1"]);
    expect(deadLetters(scene)).toMatchObject([{ attempts: 1, policy: "block" }]);
    expect(pendingStates(scene)[0]?.history.map(({ error, starts }) => [error, starts])).toEqual([
      ["Error: carrier is down", 1],
      ["redriven by ann: carrier is back", 0],
      ["Error: carrier is down", 1],
    ]);
    await decideAbout(scene, "discard", BOB);
    await deliver(scene, worker);
    expect(scene.log).toEqual(["audit E1", "audit E1", "audit E2", "audit E3"]);
  });

  test("redriven twice: the second operator is told, E1 runs once more only", async () => {
    const { scene, worker, broken } = await blocked();
    broken.clear();
    expect(await decideAbout(scene, "redrive", ANN)).toMatchObject([{ outcome: "recorded" }]);
    expect(await decideAbout(scene, "redrive", BOB)).toMatchObject([{ outcome: "already-decided", decision: { actor: "ann" } }]);
    await deliver(scene, worker);
    expect(scene.log).toEqual(["audit E1", "audit E1", "audit E2", "audit E3"]);
    expect(await findings(scene)).toEqual([]);
  });

  test("(e) redrive and discard at once: one outcome, and the other operator is told whose", async () => {
    for (const first of ["redrive", "discard"] as const) {
      const { scene, worker, broken } = await blocked();
      broken.clear();
      const second = first === "redrive" ? "discard" : "redrive";
      const both = await Promise.all([decideAbout(scene, first, ANN), decideAbout(scene, second, BOB)]);
      const outcomes = both.map(([result]) => result!);
      const winner = outcomes.find(({ outcome }) => outcome === "recorded")!;
      const loser = outcomes.find((result) => result !== winner)!;
      expect(loser).toMatchObject({ outcome: "already-decided", decision: winner.decision });
      await deliver(scene, worker);
      const again = winner.decision!.action === "redrive" ? ["audit E1"] : [];
      expect(scene.log).toEqual(["audit E1", ...again, "audit E2", "audit E3"]);
      expect(archived(scene)[0]?.["outcome"]).toBe(winner.decision!.action === "redrive" ? "handled" : "discarded");
      expect(deadLetters(scene)).toEqual([]);
      expect(await findings(scene)).toEqual([]);
    }
  });

  test("(d) discard while the handler runs: the failed start is dropped for the decision", async () => {
    const scene = new Scene();
    await scene.commit("o-1", [1, 2]);
    scene.onHandle = async (entry) => {
      if (entry !== "audit E1") return;
      const target = { subscription: "audit", orderId: oid("o-1"), id: headId(scene) };
      expect(await decide(contextOf(scene), target, "discard", BOB)).toMatchObject({ outcome: "recorded" });
      throw new Error("hangs");
    };
    await deliver(scene, scene.worker());
    expect(scene.log).toEqual(["audit E1", "audit E2"]);
    expect(archived(scene)).toMatchObject([{ outcome: "discarded", decidedby: "bob" }, { outcome: "handled" }]);
    expect(await findings(scene)).toEqual([]);
  });

  test("(d) discard while the handler runs and succeeds: handled, once", async () => {
    const scene = new Scene();
    await scene.commit("o-1", [1, 2]);
    scene.onHandle = async (entry) => {
      if (entry === "audit E1")
        await decide(contextOf(scene), { subscription: "audit", orderId: oid("o-1"), id: headId(scene) }, "discard", BOB);
    };
    await deliver(scene, scene.worker());
    expect(scene.log).toEqual(["audit E1", "audit E2"]);
    expect(archived(scene)).toMatchObject([{ outcome: "handled" }, { outcome: "handled" }]);
  });

  test("F4: redrive of a parked head means now; discard of one lets the next go", async () => {
    for (const action of ["redrive", "discard"] as const) {
      const scene = new Scene();
      const broken = new Set(["audit E1"]);
      scene.onHandle = failWhile(broken);
      await scene.commit("o-1", [1, 2]);
      const worker = scene.worker();
      await deliver(scene, worker);
      broken.clear();
      await decideAbout(scene, action);
      await deliver(scene, worker);
      expect(scene.log).toEqual(["audit E1", ...(action === "redrive" ? ["audit E1"] : []), "audit E2"]);
      // The wake-up of the parked event still comes, and finds nothing to do.
      await live(scene, worker, 12_000);
      expect(scene.log).toHaveLength(action === "redrive" ? 3 : 2);
      expect(scene.storage.messages()).toEqual([]);
    }
  });

  test("120 dead letters redriven in bulk, stopped after 40 and run again: each once", async () => {
    const scene = new Scene();
    let down = true;
    scene.onHandle = () => {
      if (down) throw new PermanentError("carrier is down");
    };
    const worker = scene.worker([scene.subscription("audit")]);
    for (let n = 1; n <= 120; n++) await scene.commit(`o-${n}`, [n, n + 1_000]);
    await deliver(scene, worker);
    expect(scene.log).toHaveLength(120);
    down = false;
    const stop = new AbortController();
    const onProgress = (done: number): void => (done === 40 ? stop.abort() : undefined);
    const first = await decideMany({ ...contextOf(scene), signal: stop.signal }, "redrive", {}, ANN, { onProgress });
    const recorded = first.results.filter(({ outcome }) => outcome === "recorded").length;
    expect([recorded, recorded + first.left]).toEqual([expect.any(Number), 120]);
    expect(recorded).toBeGreaterThanOrEqual(40);
    expect(first.left).toBeGreaterThan(60);
    const second = await decideMany(contextOf(scene), "redrive", {}, BOB);
    expect(second.results.filter(({ outcome }) => outcome === "recorded")).toHaveLength(first.left);
    expect(second.results.filter(({ outcome }) => outcome === "already-decided")).toHaveLength(recorded);
    scene.log.length = 0;
    await deliver(scene, worker);
    await deliver(scene, worker);
    expect(scene.log).toHaveLength(240);
    for (let n = 1; n <= 120; n++) {
      expect(scene.log.indexOf(`audit E${n}`)).toBeLessThan(scene.log.indexOf(`audit E${n + 1_000}`));
      expect(deadLetters(scene, "audit", `o-${n}`)).toEqual([]);
    }
    expect(new Set(scene.log).size).toBe(240);
    expect(await findings(scene)).toEqual([]);
  });

  test("an index entry that storage refused is made up for by the next round", async () => {
    const scene = new Scene();
    scene.onHandle = failWhile(new Set(["audit E1"]), () => new PermanentError("no such carrier"));
    await scene.commit("o-1", [1, 2]);
    scene.storage.onCall = ({ port, method, args }) => {
      if (port === "blobs" && method === "create" && args[0] === "dead") throw new OutboxError("unavailable", "storage is down");
    };
    const worker = scene.worker();
    await deliver(scene, worker);
    expect(deadLetters(scene)).toEqual([]);
    expect(scene.storage.leaseOf(key("o-1"))?.state).toBe("free");
    scene.storage.onCall = undefined;
    await live(scene, worker, 12_000);
    expect(deadLetters(scene)).toMatchObject([{ type: "step", reason: "PermanentError: no such carrier", policy: "block" }]);
    expect(scene.log).toEqual(["audit E1"]);
    expect(await findings(scene)).toEqual([]);
  });
});

describe("F3 skip", () => {
  test("E2 runs, sees the gap in `sequence`; archived as dead-lettered, the index stays", async () => {
    const scene = new Scene();
    const sequences: number[] = [];
    const fail = failWhile(new Set(["audit E2"]), () => new PermanentError("no such carrier"));
    scene.onHandle = (entry, call) => {
      void fail(entry, call);
      sequences.push(call.sequence);
    };
    await scene.commit("o-1", [1, 2, 3]);
    await deliver(scene, scene.worker([scene.subscription("audit", { retry: { onDead: "skip" } })]));
    expect(scene.log).toEqual(["audit E1", "audit E2", "audit E3"]);
    expect(sequences).toEqual([1, 3]);
    expect(archived(scene).map(({ outcome }) => outcome)).toEqual(["handled", "dead-lettered", "handled"]);
    expect(deadLetters(scene)).toMatchObject([{ sequence: 2, policy: "skip", reason: "PermanentError: no such carrier", attempts: 1 }]);
    expect(scene.ids("events")).toEqual([]);
    expect(scene.storage.messages()).toEqual([]);
    expect(await findings(scene)).toEqual([]);
  });

  test("(c) redrive after the stream went on is refused without a flag", async () => {
    const scene = new Scene();
    scene.onHandle = failWhile(new Set(["audit E1"]), () => new PermanentError("no such carrier"));
    await scene.commit("o-1", [1, 2]);
    const worker = scene.worker([scene.subscription("audit", { retry: { onDead: "skip" } })]);
    await deliver(scene, worker);
    expect(await decideAbout(scene, "redrive")).toMatchObject([{ outcome: "skipped" }]);
    await deliver(scene, worker);
    expect(scene.log).toEqual(["audit E1", "audit E2"]);
  });

  test("the policy of the event's type counts, also for one whose data is invalid", async () => {
    const scene = new Scene();
    const strict = defineWorkflow({
      name: "test",
      state: z.object({ committed: z.number() }),
      events: { step: z.object({ n: z.number().max(1) }), other: z.object({ n: z.number() }) },
    });
    const subscription = defineSubscription(strict, {
      name: "audit",
      retryByType: { step: { onDead: "skip" } },
      handle: ({ data }) => void scene.log.push(`audit E${data.n}`),
    });
    await scene.commit("o-1", [1, 2]);
    await scene.commit("o-1", [3], "other");
    await deliver(scene, createWorker({ workflow: strict, subscriptions: [subscription], storage: scene.storage, clock: scene.clock }));
    expect(scene.log).toEqual(["audit E1", "audit E3"]);
    expect(deadLetters(scene)).toMatchObject([{ sequence: 2, type: "step", policy: "skip" }]);
  });
});

describe("F10: a subscription that is gone from the code", () => {
  test("its dead letters and pending events can be discarded; rounds of another deployment carry it out", async () => {
    const scene = new Scene();
    scene.onHandle = failWhile(new Set(["gone E1"]), () => new PermanentError("no such carrier"));
    await scene.commit("o-1", [1, 2, 3]);
    await deliver(scene, scene.worker([scene.subscription("gone"), scene.subscription("audit")]));
    expect(scene.log.filter((entry) => entry.startsWith("gone"))).toEqual(["gone E1"]);
    const worker = scene.worker([scene.subscription("audit")]);
    const context = contextOf(scene);
    for (const left of [2, 1, 0]) {
      const target = { subscription: "gone", orderId: oid("o-1"), id: headId(scene, "gone") };
      expect(await decide(context, target, "discard", BOB)).toMatchObject({ outcome: "recorded" });
      await worker.handle("o-1");
      expect(scene.ids("events", "gone")).toHaveLength(left);
    }
    expect(archived(scene, "gone").map(({ outcome, decidedby }) => [outcome, decidedby])).toEqual(
      ["1", "2", "3"].map(() => ["discarded", "bob"]),
    );
    expect(deadLetters(scene, "gone")).toEqual([]);
    await scene.commit("o-1", [4]);
    await deliver(scene, worker);
    expect(scene.log.filter((entry) => entry.startsWith("audit"))).toEqual(["audit E1", "audit E2", "audit E3", "audit E4"]);
    expect(scene.log.filter((entry) => entry.startsWith("gone"))).toEqual(["gone E1"]);
    expect(await findings(scene)).toEqual([]);
  });

  test("a redrive of one of its events waits for the subscription to come back", async () => {
    const scene = new Scene();
    const broken = new Set(["gone E1"]);
    scene.onHandle = failWhile(broken, () => new PermanentError("no such carrier"));
    await scene.commit("o-1", [1, 2]);
    const both = scene.worker([scene.subscription("gone"), scene.subscription("audit")]);
    await deliver(scene, both);
    broken.clear();
    await decideAbout(scene, "redrive");
    await deliver(scene, scene.worker([scene.subscription("audit")]));
    expect(deadLetters(scene, "gone")).toHaveLength(1);
    await both.handle("o-1");
    expect(scene.log.filter((entry) => entry.startsWith("gone"))).toEqual(["gone E1", "gone E1", "gone E2"]);
    expect(deadLetters(scene, "gone")).toEqual([]);
  });
});

test("G4: a dead head blocks its own stream alone", async () => {
  const scene = new Scene();
  scene.onHandle = failWhile(new Set(["audit E1"]), () => new PermanentError("no such carrier"));
  await scene.commit("o-1", [1, 2]);
  await scene.commit("o-2", [8, 9]);
  await deliver(scene, scene.worker([scene.subscription("audit"), scene.subscription("mail")]));
  expect(scene.log.filter((entry) => entry.startsWith("audit"))).toEqual(["audit E1", "audit E8", "audit E9"]);
  expect(scene.log.filter((entry) => entry.startsWith("mail"))).toEqual(["mail E1", "mail E2", "mail E8", "mail E9"]);
});

test("names of index, event and archive are the same", async () => {
  const { scene } = await blocked();
  const name = eventBlobName("audit", key("o-1"), headId(scene));
  expect(scene.storage.blobEntries("dead").map(([dead]) => dead)).toEqual([name]);
});
