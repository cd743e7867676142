import { describe, expect, test } from "vitest";
import { OutboxError } from "../../src/core/errors.ts";
import { PermanentError, type RetryPolicy } from "../../src/core/retry.ts";
import { defineSubscription } from "../../src/core/workflow.ts";
import type { CommitResult } from "../../src/producer/order-change.ts";
import { createWorker } from "../../src/worker/worker.ts";
import { archivedEntries } from "../support/archived-entries.ts";
import { ManualClock } from "../support/manual-clock.ts";
import type { Disturbance, PortCall } from "../support/memory-storage.ts";
import { expectDense, expectReported, failure, isCommit, Scene, steps, workflow } from "./support.ts";

const BIG_NOTE = "x".repeat(400_000);

/** A commit of an inline step and of a document so big that it is spilled. */
function commitBoth(scene: Scene): Promise<CommitResult> {
  return scene.outbox().commit("o-1", (state) => ({
    state: { commits: (state?.commits ?? 0) + 1 },
    events: [
      { type: "step", data: { n: 1 } },
      { type: "document", data: { note: BIG_NOTE } },
    ],
  }));
}

/** Disturbs the first transaction only. */
function onFirstCommit(
  disturb: (call: PortCall) => Disturbance | Promise<Disturbance>,
): (call: PortCall) => Disturbance | Promise<Disturbance> {
  let seen = false;
  return (call) => {
    if (seen || !isCommit(call)) return undefined;
    seen = true;
    return disturb(call);
  };
}

/** What the service says when the client repeats a transaction that landed: 409 for an insert, 412 for an update. */
function repeatedByClient(code: "already-exists" | "precondition-failed"): Disturbance {
  return {
    after: () => {
      throw new OutboxError(code, "the client repeated a transaction that had landed", { details: { operationIndex: 0 } });
    },
  };
}

describe("conflict: was it mine? (C2, C03)", () => {
  test.each([
    ["a new order", 0, "already-exists"],
    ["an existing order", 1, "precondition-failed"],
  ] as const)("C2: %s, the client's own repetition looks like a conflict: success, exactly once", async (_name, before, code) => {
    const scene = new Scene();
    for (let n = 0; n < before; n++) await scene.outbox().commit("o-1", steps(0));
    scene.storage.onCall = onFirstCommit(() => repeatedByClient(code));
    let decisions = 0;
    const result = await scene.outbox().commit("o-1", (state, order) => {
      decisions += 1;
      return steps(7)(state, order);
    });
    expect(decisions).toBe(1);
    expect(result).toMatchObject({ sequence: before + 1, repeated: false });
    expectDense(scene.stored(), before + 1);
    expect(scene.stored().outbox.at(-1)?.id).toBe(result.events[0]?.id);
  });

  test.each(["wakeUps.send", "orders.commit", "wakeUps.hide"])("C2: the response of %s lost once: success, exactly once", async (name) => {
    const scene = new Scene();
    let lost = 0;
    scene.storage.onCall = ({ port, method }) => (`${port}.${method}` === name && lost++ === 0 ? "lose-response" : undefined);
    const result = await commitBoth(scene);
    expect(lost).toBeGreaterThan(0);
    expectDense(scene.stored(), 2);
    expectReported(scene.stored(), result);
    expect(scene.storage.blobEntries("payloads")).toHaveLength(1);
    expect(scene.storage.messages().filter(({ hiddenForMs }) => hiddenForMs === 0).length).toBeGreaterThan(0);
  });

  test.each(["orders.readOrder", "blobs.create"])(
    "the response of %s lost for good: refused before the transaction, and a repetition succeeds once",
    async (name) => {
      const scene = new Scene();
      let lost = 0;
      scene.storage.onCall = ({ port, method }) => (`${port}.${method}` === name && lost++ === 0 ? "lose-response" : undefined);
      await failure(commitBoth(scene), "unavailable");
      expect(scene.stored()).toMatchObject({ order: undefined, outbox: [] });
      expect(scene.storage.messages()).toEqual([]);
      expect(scene.storage.blobEntries("payloads")).toEqual([]);
      await commitBoth(scene);
      expectDense(scene.stored(), 2);
    },
  );

  test("a payload that the client stored twice (already-exists) is its own", async () => {
    const scene = new Scene();
    scene.storage.onCall = ({ port, method }) => (port === "blobs" && method === "create" ? repeatedByClient("already-exists") : undefined);
    await commitBoth(scene);
    expectDense(scene.stored(), 2);
    expect(scene.storage.blobEntries("payloads")).toHaveLength(1);
  });

  test("C2: a conflict with another writer decides again on what the other one left", async () => {
    const scene = new Scene();
    scene.storage.onCall = onFirstCommit(async () => {
      await scene.outbox().commit("o-1", steps(1, 2));
    });
    const seen: number[] = [];
    const result = await scene.outbox().commit("o-1", (state, order) => {
      seen.push(order.sequence);
      return steps(3)(state, order);
    });
    expect(seen).toEqual([0, 2]);
    expect(result).toMatchObject({ sequence: 3, repeated: false });
    expect(scene.steps()).toEqual([{ n: 1 }, { n: 2 }, { n: 3 }]);
  });

  test("payloads of a lost attempt are taken back, those of the winning one stay", async () => {
    const scene = new Scene();
    scene.storage.onCall = onFirstCommit(async () => {
      await scene.outbox().commit("o-1", steps(1));
    });
    await commitBoth(scene);
    expect(scene.storage.blobEntries("payloads").map(([name]) => name)).toEqual([scene.stored().outbox.at(-1)?.payloadBlob]);
  });
});

describe("beyond the commit tokens: outbox, events, archive (C2)", () => {
  const subscription = defineSubscription(workflow, { name: "audit", retry: { shortStarts: 1 }, handle: () => undefined });
  const handling = (scene: Scene, handle: () => void = () => undefined, retry: Partial<RetryPolicy> = {}, wants = true) =>
    createWorker({
      workflow,
      subscriptions: [{ ...subscription, retry: { ...subscription.retry, ...retry }, handle, wants: () => wants }],
      storage: scene.storage,
      clock: new ManualClock(),
    });

  /** The first commit lands, then 17 of others follow and `meanwhile` happens, then its client's repetition is refused. */
  async function commitWithTrail(scene: Scene, meanwhile: () => Promise<unknown>): Promise<CommitResult> {
    const rival = scene.outbox();
    scene.storage.onCall = onFirstCommit(() => ({
      after: async () => {
        for (let n = 1; n <= 17; n++) await rival.commit("o-1", steps(n));
        await meanwhile();
        throw new OutboxError("precondition-failed", "the client repeated a transaction that had landed", {
          details: { operationIndex: 0 },
        });
      },
    }));
    return scene.outbox().commit("o-1", steps(100));
  }

  const notNow = (): never => {
    throw new Error("not now");
  };
  const hopeless = (): never => {
    throw new PermanentError("never");
  };

  /** Lets the worker go until its `deleteOutbox` is done, and ends there: nothing of it comes after. */
  async function diesAfterDelete(scene: Scene): Promise<void> {
    const deleted = Promise.withResolvers<void>();
    const never = new Promise<void>(() => undefined);
    scene.storage.onCall = ({ method }) => (method === "deleteOutbox" ? { after: () => (deleted.resolve(), never) } : undefined);
    void handling(scene, notNow).handle("o-1");
    await deleted.promise;
    scene.storage.onCall = undefined;
  }

  const stages: ReadonlyArray<
    readonly [stage: string, meanwhile: (scene: Scene) => Promise<unknown>, outbox: number, events: number, archive: number]
  > = [
    ["is in the outbox", () => Promise.resolve(), 18, 0, 0],
    ["was relayed by a worker that died right after the delete", diesAfterDelete, 0, 18, 0],
    ["is parked", (scene) => handling(scene, notNow).handle("o-1"), 0, 18, 0],
    ["is a dead letter", (scene) => handling(scene, hopeless).handle("o-1"), 0, 18, 0],
    ["was skipped as a dead letter", (scene) => handling(scene, hopeless, { onDead: "skip" }).handle("o-1"), 0, 0, 18],
    ["is archived", (scene) => handling(scene).handle("o-1"), 0, 0, 18],
    ["was wanted by no subscription", (scene) => handling(scene, notNow, {}, false).handle("o-1"), 0, 0, 18],
  ];
  describe.each([
    ["of a new order", 0],
    ["of an order whose progress names the subscription", 1],
  ])("%s", (_name, before) => {
    test.each(stages)(
      "the event %s: found, and nothing is listed but an archive that has it in a bundle",
      async (stage, meanwhile, outbox, events, archive) => {
        const scene = new Scene();
        if (before > 0) {
          await scene.outbox().commit("o-1", steps(0));
          await handling(scene).handle("o-1");
        }
        const result = await commitWithTrail(scene, async () => {
          await meanwhile(scene);
          scene.storage.forgetCalls();
        });
        expect(scene.stored().outbox).toHaveLength(outbox);
        expect(scene.storage.blobEntries("events")).toHaveLength(events);
        expect(archivedEntries(scene.storage)).toHaveLength(archive + before);
        expect(result).toMatchObject({ sequence: before + 1, repeated: false });
        expect(scene.stored().order?.sequence).toBe(before + 18);
        expect(scene.storage.callCounts()["blobs.list"]).toBe(stage === "is archived" ? 1 : undefined);
      },
    );
  });

  test("no trace is no proof: outcome-unknown, and never a second event", async () => {
    const scene = new Scene();
    const rival = scene.outbox();
    scene.storage.onCall = onFirstCommit(async () => {
      for (let n = 1; n <= 17; n++) await rival.commit("o-1", steps(n));
    });
    await failure(scene.outbox().commit("o-1", steps(100)), "outcome-unknown");
    expect(scene.steps()).not.toContainEqual({ n: 100 });
    expectDense(scene.stored(), 17);
  });
});
