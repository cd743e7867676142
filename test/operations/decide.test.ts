/** Redrive and discard (F4): operators record, one wins, nothing is decided twice. */
import { describe, expect, test } from "vitest";
import { OutboxError } from "../../src/core/errors.ts";
import { decideMany, decideOrder, discardPending } from "../../src/operations/decide-many.ts";
import { decide, type DecisionTarget } from "../../src/operations/decide.ts";
import { ANN, BOB, id, Scene } from "./support.ts";

function target(scene: Scene, orderId = "o-1", sequence = 1): DecisionTarget {
  return { subscription: "audit", orderId: id(orderId), id: scene.eventId(orderId, sequence) };
}

describe("one decision", () => {
  test("is recorded on the head's blob with actor and reason, wakes the order and touches nothing else (F4, C12)", async () => {
    const scene = new Scene();
    scene.blocked("o-1", 1);
    scene.pending("o-1", 2);
    const results = await decideOrder(scene.context, "redrive", { orderId: id("o-1") }, ANN);

    expect(results).toMatchObject([{ outcome: "recorded", id: scene.eventId("o-1", 1) }]);
    expect(scene.state("o-1", 1)).toMatchObject({
      status: "blocked",
      attempts: 33,
      decision: { action: "redrive", actor: "ann", reason: "carrier is back", at: "2026-01-01T00:00:00.000Z" },
    });
    expect(scene.state("o-1", 2)?.decision).toBeUndefined();
    expect(scene.storage.blobEntries("dead")).toHaveLength(1);
    expect(scene.wakeUps()).toEqual(["o-1"]);
  });

  test("a parked head is retried now (C11)", async () => {
    const scene = new Scene();
    scene.pending("o-1", 1, { status: "parked", nextAttemptMs: scene.clock.now() + 60_000, attempts: 3 });
    const [result] = await decideOrder(scene.context, "redrive", { orderId: id("o-1") }, ANN);

    expect(result).toMatchObject({ outcome: "recorded" });
    expect(scene.wakeUps()).toEqual(["o-1"]);
  });

  test.each(["redrive", "discard"] as const)(
    "two operators at once, one wants to %s: one outcome, the other is told whose (C12)",
    async (action) => {
      const scene = new Scene();
      scene.blocked("o-1", 1);
      const other = action === "redrive" ? "discard" : "redrive";
      const results = await Promise.all([
        decide(scene.context, target(scene), action, ANN),
        decide(scene.context, target(scene), other, BOB),
      ]);

      expect(results.map(({ outcome }) => outcome).sort()).toEqual(["already-decided", "recorded"]);
      const [winner, loser] = results.toSorted((a) => (a.outcome === "recorded" ? -1 : 1));
      expect(loser?.decision).toEqual(winner?.decision);
      expect(loser?.message).toContain(`${winner?.decision?.actor} decided at 2026-01-01T00:00:00.000Z to ${winner?.decision?.action} it`);
      expect(scene.state("o-1", 1)?.decision).toEqual(winner?.decision);
    },
  );

  test("twice: the second is told, and nothing is written (F4)", async () => {
    const scene = new Scene();
    scene.blocked("o-1", 1);
    await decide(scene.context, target(scene), "redrive", ANN);
    const before = scene.storage.blobEntries("events");

    expect(await decide(scene.context, target(scene), "redrive", BOB)).toMatchObject({
      outcome: "already-decided",
      decision: { actor: "ann" },
    });
    expect(scene.storage.blobEntries("events")).toEqual(before);
  });

  test("once the worker has carried out a redrive, there is nothing to redrive (F4)", async () => {
    const scene = new Scene();
    scene.pending("o-1", 1, { history: [{ at: "2026-01-01T00:00:00.000Z", starts: 3, error: "x" }] });

    expect(await decide(scene.context, target(scene), "redrive", ANN)).toMatchObject({ outcome: "not-waiting" });
    expect(scene.audit()).toEqual([]);
  });

  test("of an event that is discarded already: told by whom, when and why (C12, G6)", async () => {
    const scene = new Scene();
    scene.archived("o-1", 1, { outcome: "discarded", decidedby: "bob", decisionreason: "no%20good" });

    expect(await decide(scene.context, target(scene), "redrive", ANN)).toMatchObject({
      outcome: "finished",
      message: "it was discarded by bob at 2026-01-01T00:00:00.000Z: no good",
    });
  });

  test("a head that waits for nothing can be discarded by its id, an event behind it can't (F10, G2)", async () => {
    const scene = new Scene();
    await scene.progress("o-1", 1);
    scene.pending("o-1", 1); // A ghost is no head.
    scene.pending("o-1", 2);
    scene.pending("o-1", 3);
    const discard = (sequence: number): ReturnType<typeof decideOrder> =>
      decideOrder(scene.context, "discard", { orderId: id("o-1"), id: scene.eventId("o-1", sequence) }, ANN);

    expect(await discard(3)).toMatchObject([
      { outcome: "not-head", message: `event ${scene.eventId("o-1", 2)} of its stream comes first` },
    ]);
    expect(await discard(2)).toMatchObject([{ outcome: "recorded" }]);
    await expect(decideOrder(scene.context, "discard", { orderId: id("o-2") }, ANN)).rejects.toMatchObject({ code: "not-found" });
  });

  test("a write whose answer is lost is recognised as one's own (W11)", async () => {
    const scene = new Scene();
    scene.blocked("o-1", 1);
    scene.storage.onCall = ({ port, method }) => (port === "blobs" && method === "writeMetadata" ? "lose-response" : undefined);

    expect(await decide(scene.context, target(scene), "discard", ANN)).toMatchObject({ outcome: "recorded" });
  });

  test("a lost answer is recognised although the reason is cut in the middle of an emoji (W11)", async () => {
    const scene = new Scene();
    scene.blocked("o-1", 1);
    scene.storage.onCall = ({ port, method }) => (port === "blobs" && method === "writeMetadata" ? "lose-response" : undefined);
    const operator = { actor: "ann", reason: "😀".repeat(200) };
    expect(await decide(scene.context, target(scene), "discard", operator)).toMatchObject({ outcome: "recorded" });
  });

  test("a worker that writes in between does not lose its state, nor the decision", async () => {
    const scene = new Scene();
    scene.pending("o-1", 1, { status: "parked", attempts: 3, nextAttemptMs: scene.clock.now() + 1 });
    let once = true;
    scene.storage.onCall = ({ port, method }) => {
      if (!once || port !== "blobs" || method !== "writeMetadata") return;
      once = false;
      scene.pending("o-1", 1, { status: "parked", attempts: 6, nextAttemptMs: scene.clock.now() + 2 });
    };

    expect(await decide(scene.context, target(scene), "redrive", ANN)).toMatchObject({ outcome: "recorded" });
    expect(scene.state("o-1", 1)).toMatchObject({ attempts: 6, decision: { actor: "ann" } });
  });

  test("with the queue down the decision stands; the sweep finds it (C4)", async () => {
    const scene = new Scene();
    scene.blocked("o-1", 1);
    scene.storage.onCall = ({ port }) => {
      if (port === "wakeUps") throw new OutboxError("unavailable", "queue");
    };
    expect(await decideOrder(scene.context, "discard", { orderId: id("o-1") }, ANN)).toMatchObject([{ outcome: "recorded" }]);
  });

  test("a dry run changes and records nothing", async () => {
    const scene = new Scene();
    scene.blocked("o-1", 1);
    const results = await decideOrder(scene.context, "redrive", { orderId: id("o-1") }, ANN, { dryRun: true });

    expect(results).toMatchObject([{ outcome: "would-record" }]);
    expect([scene.state("o-1", 1)?.decision, scene.audit(), scene.wakeUps()]).toEqual([undefined, [], []]);
  });

  test("of two streams the second can't be decided: it is told, the first is decided and woken (F4, G4)", async () => {
    const scene = new Scene();
    scene.blocked("o-1", 1);
    scene.blocked("o-1", 2, "late", "billing");
    scene.storage.onCall = ({ port, method, args }) => {
      if (port === "blobs" && method === "writeMetadata" && String(args[1]).startsWith("billing/")) throw new OutboxError("corrupt", "odd");
    };
    expect(await decideOrder(scene.context, "redrive", { orderId: id("o-1") }, ANN)).toMatchObject([
      { subscription: "audit", outcome: "recorded" },
      { subscription: "billing", outcome: "failed", message: "corrupt: odd" },
    ]);
    expect(scene.wakeUps()).toEqual(["o-1"]);
  });

  test("of two dead letters that their streams have passed the first can't be decided: the second is (F4)", async () => {
    const scene = new Scene();
    scene.deadIndex("o-1", 1, "skip");
    scene.archived("o-1", 2, { outcome: "dead-lettered" }, "billing");
    scene.deadIndex("o-1", 2, "skip", "x", "billing");
    expect(await decideOrder(scene.context, "discard", { orderId: id("o-1") }, ANN)).toMatchObject([
      { subscription: "audit", outcome: "failed" },
      { subscription: "billing", outcome: "dismissed" },
    ]);
  });

  test("storage fails after the first of two streams: what is decided is woken all the same (F4, G5)", async () => {
    const scene = new Scene();
    scene.blocked("o-1", 1);
    scene.blocked("o-1", 2, "late", "billing");
    scene.storage.onCall = ({ port, method, args }) => {
      if (port === "blobs" && method === "writeMetadata" && String(args[1]).startsWith("billing/"))
        throw new OutboxError("forbidden", "no");
    };
    await expect(decideOrder(scene.context, "redrive", { orderId: id("o-1") }, ANN)).rejects.toMatchObject({ code: "forbidden" });
    expect(scene.wakeUps()).toEqual(["o-1"]);
  });

  test.each([
    { actor: "", reason: "x" },
    { actor: "ann", reason: " " },
    { actor: "a".repeat(101), reason: "x" },
    { actor: "ann", reason: "\ud800" },
  ])("actor and reason are required: $actor, $reason (G6)", async (operator) => {
    const scene = new Scene();
    scene.blocked("o-1", 1);
    await expect(decide(scene.context, target(scene), "redrive", operator)).rejects.toMatchObject({ code: "invalid-option" });
  });
});

describe("many decisions", () => {
  async function manyDead(count: number): Promise<Scene> {
    const scene = new Scene();
    for (let number = 0; number < count; number++) scene.blocked(`o-${number}`, 1);
    return Promise.resolve(scene);
  }

  function decisionWrites(scene: Scene): readonly unknown[] {
    return scene.storage.calls.filter(({ port, method }) => port === "blobs" && method === "writeMetadata").map(({ args }) => args[1]);
  }

  test("120 redriven, stopped after 40, repeated: each exactly once (F4)", async () => {
    const scene = await manyDead(120);
    const stop = new AbortController();
    const first = await decideMany({ ...scene.context, signal: stop.signal }, "redrive", { subscription: "audit" }, ANN, {
      onProgress: (done) => void (done === 40 && stop.abort()),
    });
    expect(first.results.length).toBeGreaterThanOrEqual(40);
    expect(first.results.length).toBeLessThan(60);
    expect(first.left).toBe(120 - first.results.length);

    const second = await decideMany(scene.context, "redrive", { subscription: "audit" }, ANN);
    expect(second.left).toBe(0);
    expect(second.results.filter(({ outcome }) => outcome === "recorded")).toHaveLength(120 - first.results.length);
    const writes = decisionWrites(scene);
    expect(writes).toHaveLength(120);
    expect(new Set(writes).size).toBe(120);
    expect(new Set(scene.wakeUps()).size).toBe(120);
  });

  test("a process that dies between decision and wake-up: the repetition wakes the order (G5)", async () => {
    const scene = await manyDead(1);
    scene.storage.onCall = ({ port }) => {
      if (port === "wakeUps") throw new OutboxError("unavailable", "dead");
    };
    await decideMany(scene.context, "redrive", {}, ANN);
    scene.storage.onCall = undefined;
    await decideMany(scene.context, "redrive", {}, ANN);

    expect(scene.wakeUps()).toEqual(["o-0"]);
  });

  test("limit counts new decisions only, so repeating goes on", async () => {
    const scene = await manyDead(5);
    const counts = [];
    for (let run = 0; run < 4; run++) {
      const { results } = await decideMany(scene.context, "discard", {}, ANN, { limit: 2 });
      counts.push(results.filter(({ outcome }) => outcome === "recorded").length);
    }
    expect(counts).toEqual([2, 2, 1, 0]);
    await expect(decideMany(scene.context, "discard", {}, ANN, { limit: 0 })).rejects.toMatchObject({ code: "invalid-option" });
  });

  test("oldest first per order, and one wake-up an order", async () => {
    const scene = new Scene();
    scene.blocked("o-1", 7, "late", "billing");
    scene.blocked("o-1", 2, "early");
    const { results } = await decideMany(scene.context, "redrive", {}, ANN);

    expect(results.map(({ subscription }) => subscription)).toEqual(["audit", "billing"]);
    expect(scene.wakeUps()).toEqual(["o-1"]);
  });

  test("by filter: type, error, group, order, age", async () => {
    const scene = new Scene();
    scene.blocked("old", 1, "Error: timeout after 30 s");
    await scene.clock.advance(3_600_000);
    scene.blocked("new", 1, "Error: timeout after 31 s");
    scene.blocked("other", 1, "Error: refused", "billing");
    const found = async (filter: Parameters<typeof decideMany>[2]): Promise<readonly string[]> =>
      (await decideMany(scene.context, "redrive", filter, ANN, { dryRun: true })).results.map(({ orderId }) => orderId);

    expect(await found({ errorText: "TIMEOUT" })).toEqual(["new", "old"]);
    expect(await found({ group: "Error: timeout after # s" })).toEqual(["new", "old"]);
    expect(await found({ subscription: "billing" })).toEqual(["other"]);
    expect(await found({ olderThanMs: 60_000 })).toEqual(["old"]);
    expect(await found({ youngerThanMs: 60_000, errorText: "timeout" })).toEqual(["new"]);
    expect(await found({ orderId: id("other") })).toEqual(["other"]);
    expect(await found({ type: "document" })).toEqual([]);
  });
});

describe("a dead letter that its stream has skipped", () => {
  function skipped(): Scene {
    const scene = new Scene();
    scene.archived("o-1", 1, { outcome: "dead-lettered" });
    scene.deadIndex("o-1", 1, "skip");
    return scene;
  }

  test("is not redriven without the explicit flag (C12)", async () => {
    const scene = skipped();
    expect(await decideOrder(scene.context, "redrive", { orderId: id("o-1") }, ANN)).toMatchObject([{ outcome: "skipped" }]);
    expect(scene.wakeUps()).toEqual([]);
  });

  test("can be taken off the list; the archive keeps it with actor and reason (G6)", async () => {
    const scene = skipped();
    const discard = (operator: typeof ANN): ReturnType<typeof decideMany> => decideMany(scene.context, "discard", {}, operator);
    const [first, second] = await Promise.all([discard(ANN), discard(BOB)]);

    expect([first, second].flatMap(({ results }) => results.map(({ outcome }) => outcome)).sort()).toEqual(["dismissed", "finished"]);
    expect(scene.storage.blobEntries("dead")).toEqual([]);
    const [archived] = scene.storage.blobEntries("archive");
    expect(archived?.[1].metadata).toMatchObject({ outcome: "dead-lettered", decidedby: expect.stringMatching(/ann|bob/) });
  });
});

test("the index of a dead letter that is finished by now, left by a dead worker, can be taken off the list", async () => {
  const scene = new Scene();
  scene.archived("o-1", 1, { outcome: "discarded", decidedby: "ann" });
  scene.deadIndex("o-1", 1, "block");

  expect(await decideOrder(scene.context, "redrive", { orderId: id("o-1") }, BOB)).toMatchObject([{ outcome: "finished" }]);
  expect(await decideOrder(scene.context, "discard", { orderId: id("o-1") }, BOB)).toMatchObject([{ outcome: "dismissed" }]);
  expect(scene.storage.blobEntries("dead")).toEqual([]);
  expect(scene.storage.blobEntries("archive")[0]?.[1].metadata).toMatchObject({ outcome: "discarded", decidedby: "ann" });
});

describe("the audit log (G6)", () => {
  test("has the intention before the change, and the outcome after it", async () => {
    const scene = new Scene();
    scene.blocked("o-1", 1);
    await decide(scene.context, target(scene), "discard", ANN);
    const order = scene.storage.calls
      .filter(({ port, method }) => port === "blobs" && ["create", "writeMetadata"].includes(method))
      .map(({ args }) => args[0]);

    expect(order).toEqual(["audit", "events", "audit"]);
    const [intention, outcome] = scene.audit();
    expect(intention).toMatchObject({
      at: "2026-01-01T00:00:00.000Z",
      action: "discard",
      actor: "ann",
      reason: "carrier is back",
      target: { orderId: "o-1", subscription: "audit", eventId: scene.eventId("o-1", 1), sequence: 1 },
      outcome: "intended",
    });
    expect(outcome).toMatchObject({ outcome: "recorded", intention: intention?.id });
    expect(scene.storage.blobEntries("audit")[0]?.[0]).toBe(`2026-01-01/${intention?.id}.json`);
  });

  test("a change whose intention can't be recorded is not made; one whose outcome can't be is told as made", async () => {
    const scene = new Scene();
    scene.blocked("o-1", 1);
    let allowed = 0;
    scene.storage.onCall = ({ port, method, args }) => {
      if (port === "blobs" && method === "create" && args[0] === "audit" && allowed-- <= 0) throw new OutboxError("unavailable", "audit");
    };
    await expect(decide(scene.context, target(scene), "redrive", ANN)).rejects.toMatchObject({ code: "unavailable" });
    expect(scene.state("o-1", 1)?.decision).toBeUndefined();

    allowed = 1;
    expect(await decide(scene.context, target(scene), "redrive", ANN)).toMatchObject({ outcome: "recorded" });
    expect(scene.audit()).toMatchObject([{ outcome: "intended" }]);
  });

  test("a change that fails is recorded as failed", async () => {
    const scene = new Scene();
    scene.blocked("o-1", 1);
    scene.storage.onCall = ({ port, method }) => {
      if (port === "blobs" && method === "writeMetadata") throw new OutboxError("forbidden", "no role");
    };
    await expect(decide(scene.context, target(scene), "redrive", ANN)).rejects.toMatchObject({ code: "forbidden" });
    expect(scene.audit().at(-1)).toMatchObject({ outcome: "failed: forbidden: no role" });
  });
});

describe("what discard is for", () => {
  test("without an event id only dead letters: work that may still succeed stays", async () => {
    const scene = new Scene();
    scene.pending("o-1", 1, { status: "parked", attempts: 3, nextAttemptMs: scene.clock.now() + 1, waitMs: 1 });
    const discard = decideOrder(scene.context, "discard", { orderId: id("o-1") }, ANN);
    await expect(discard).rejects.toMatchObject({ code: "not-found", message: expect.stringContaining("--event") });
    expect(await decideOrder(scene.context, "discard", { orderId: id("o-1"), id: scene.eventId("o-1", 1) }, ANN)).toMatchObject([
      { outcome: "recorded" },
    ]);
  });

  test.each(["pending", "parked"] as const)("F4: an event that is %s again is no dead letter, whatever the list says", async (status) => {
    const scene = new Scene();
    scene.pending("o-1", 1, { status });
    scene.deadIndex("o-1", 1, "block");
    expect((await decideMany(scene.context, "discard", {}, ANN)).results).toMatchObject([{ outcome: "not-waiting" }]);
    expect(await decideOrder(scene.context, "discard", { orderId: id("o-1") }, ANN)).toMatchObject([{ outcome: "not-waiting" }]);
    expect(scene.state("o-1", 1)?.decision).toBeUndefined();
    expect(scene.storage.blobEntries("dead")).toHaveLength(1);
  });

  test("all pending events of a subscription that is gone, but no ghosts (F10)", async () => {
    const scene = new Scene();
    await scene.progress("o-1", 1);
    for (const sequence of [1, 2, 3]) scene.pending("o-1", sequence);
    scene.pending("o-2", 1, { status: "parked", nextAttemptMs: 1 });
    scene.pending("o-2", 1, {}, "billing");
    const { results, left } = await discardPending(scene.context, { subscription: "audit" }, ANN, { limit: 2 });
    expect([results.map(({ outcome }) => outcome), left]).toEqual([["recorded", "recorded"], 1]);
    await discardPending(scene.context, { subscription: "audit" }, ANN);
    const actions = [2, 3].map((sequence) => scene.state("o-1", sequence)?.decision?.action);
    expect([...actions, scene.state("o-2", 1)?.decision?.action]).toEqual(["discard", "discard", "discard"]);
    expect([scene.state("o-1", 1)?.decision, scene.state("o-2", 1, "billing")?.decision]).toEqual([undefined, undefined]);
    expect(new Set(scene.wakeUps())).toEqual(new Set(["o-1", "o-2"]));
  });
});
