/** Why an order does not move: every verdict, from facts and from storage. */
import { describe, expect, test } from "vitest";
import type { Pause } from "../../src/core/controls.ts";
import { explainOrder, type OrderFacts, type PendingFact, type VerdictCode } from "../../src/core/explain.ts";
import { nextEventId, type EventId } from "../../src/core/event-id.ts";
import { freshState, type PendingState } from "../../src/core/pending-event.ts";
import { NO_PROGRESS, type Progress } from "../../src/core/progress.ts";
import { explain } from "../../src/operations/explain.ts";
import { verifyOrder } from "../../src/operations/verify.ts";
import { pause } from "../../src/operations/pauses.ts";
import { subscriptions, workflow } from "../cli/fixtures/shipments.ts";
import { ANN, id, Scene } from "./support.ts";

const NOW = Date.UTC(2026, 0, 1);
const IDS: readonly EventId[] = Array.from({ length: 9 }).reduce<EventId[]>((ids) => [...ids, nextEventId(ids.at(-1), NOW, () => 0)], []);

function pending(sequence: number, state: Partial<PendingState> = {}): PendingFact {
  return { id: IDS[sequence]!, sequence, state: { ...freshState(sequence, sequence - 1), ...state } };
}

function progress(finished: number, relayed = finished): Progress {
  const audit = { sequence: finished, id: finished === 0 ? undefined : IDS[finished], relayed };
  return { clean: finished, relayed, streams: { audit } };
}

function facts(given: Partial<OrderFacts>): OrderFacts {
  const base = { orderId: id("o-1"), nowMs: NOW, sequence: 2, outbox: [], lease: "free", progress: progress(0, 2), settled: true } as const;
  return { ...base, streams: [], pauses: [], ...given };
}

function stream(...events: readonly PendingFact[]): OrderFacts["streams"] {
  return [{ subscription: "audit", pending: events, headType: "quick" }];
}

const PAUSE: Pause = { subscription: "audit", orderId: undefined, actor: "ann", reason: "audit", at: "2026-01-01T00:00:00.000Z" };
const DECISION = { action: "redrive", actor: "bob", reason: "r", at: "2026-01-01T00:00:00.000Z" } as const;
const BLOCKED = { status: "blocked", attempts: 33, lastError: "Error: no" } as const;
const PARKED = { status: "parked", attempts: 3, nextAttemptMs: NOW + 20_000, lastError: "Error: 503" } as const;
const deployed = (subscription: string, type: string): NonNullable<OrderFacts["deployed"]> => ({
  subscriptions: new Set([subscription]),
  eventTypes: new Set([type]),
});

interface Case {
  readonly name: string;
  readonly given: Partial<OrderFacts>;
  readonly code: VerdictCode;
  readonly says: string;
  readonly command?: string;
}

const cases: readonly Case[] = [
  {
    name: "no trace",
    given: { sequence: undefined, lease: undefined, progress: NO_PROGRESS },
    code: "order-unknown",
    says: "There is no order o-1",
  },
  { name: "all finished", given: { progress: progress(2) }, code: "nothing-to-do", says: "is done" },
  {
    name: "an entity older than the progress",
    given: { sequence: 1, progress: progress(2) },
    code: "order-behind-progress",
    says: "is at event 1, but workers have seen 2",
    command: "verify -- o-1",
  },
  {
    name: "a removed entity",
    given: { sequence: undefined, progress: progress(2) },
    code: "order-behind-progress",
    says: "is at event 0",
    command: "verify -- o-1",
  },
  {
    name: "a missing outbox entity",
    given: { progress: progress(1) },
    code: "gap",
    says: "Event 2 of order o-1 is missing",
    command: "verify -- o-1",
  },
  {
    name: "a missing event blob",
    given: { progress: progress(1, 2) },
    code: "gap",
    says: "Event 2 is missing from the pending events of audit",
    command: "verify -- o-1",
  },
  {
    name: "a missing blob before another",
    given: { sequence: 3, progress: progress(1, 3), streams: stream(pending(3)) },
    code: "gap",
    says: "Event 2 is missing",
    command: "verify -- o-1",
  },
  {
    name: "no gap is told while a worker moves it",
    given: { progress: progress(1, 2), settled: false, lease: "taken" },
    code: "nothing-to-do",
    says: "is done",
  },
  {
    name: "a blocked head",
    given: { streams: stream(pending(1, BLOCKED), pending(2)) },
    code: "blocked-dead-letter",
    says: 'Event 1 of audit is a dead letter after 33 starts with "Error: no" and waits for a human, 1 more behind it',
    command: `dead redrive --reason cause fixed --event ${IDS[1]} --subscription audit -- o-1`,
  },
  {
    name: "a blocked head that is decided about",
    given: { streams: stream(pending(1, { ...BLOCKED, decision: DECISION }), pending(2)) },
    code: "wake-up-missing",
    says: "bob decided at 2026-01-01T00:00:00.000Z to redrive it",
    command: "wake -- o-1",
  },
  {
    name: "a parked head",
    given: { streams: stream(pending(1, PARKED), pending(2)) },
    code: "waiting-retry",
    says: 'failed 3 times, the last time with "Error: 503", and is tried again at 2026-01-01T00:00:20.000Z',
    command: `dead redrive --reason retry now --event ${IDS[1]} --subscription audit -- o-1`,
  },
  {
    name: "a parked head that is due",
    given: { nowMs: NOW + 20_000, streams: stream(pending(1, PARKED), pending(2)) },
    code: "wake-up-missing",
    says: "Event 1 of audit",
    command: "wake -- o-1",
  },
  {
    name: "a head in work",
    given: { lease: "taken", heldSinceMs: NOW - 42_000, streams: stream(pending(1), pending(2)) },
    code: "lease-held",
    says: "Event 1 of audit (quick, attempt 1), 1 more behind it: a worker has held the order's lease since 2025-12-31T23:59:18.000Z (42 s)",
  },
  {
    name: "a head in work for long",
    given: { lease: "taken", heldSinceMs: NOW - 300_000, heldBy: "web-1:17", streams: stream(pending(1), pending(2)) },
    code: "lease-held",
    says: "the worker web-1:17 has held the order's lease since 2025-12-31T23:55:00.000Z (300 s)",
    command: "unlock --reason the holder hangs -- o-1",
  },
  {
    name: "a head in work whose start was counted before it ran",
    given: { lease: "taken", heldSinceMs: NOW + 1_000, streams: stream(pending(1, { attempts: 3, crashes: 1 }), pending(2)) },
    code: "lease-held",
    says: "(quick, attempt 3), 1 more behind it: a worker has held the order's lease since 2026-01-01T00:00:01.000Z (0 s)",
  },
  {
    name: "a head in work, and its holder has left no mark",
    given: { lease: "taken", streams: stream(pending(1), pending(2)) },
    code: "lease-held",
    says: "the order's lease is held, and there is no holder's mark yet: a worker has just taken it, or a sweep",
  },
  {
    name: "a head that nobody handles",
    given: { streams: stream(pending(1), pending(2)) },
    code: "wake-up-missing",
    says: "no worker holds",
    command: "wake -- o-1",
  },
  {
    name: "a head of a dead worker",
    given: { lease: "abandoned", streams: stream(pending(1), pending(2)) },
    code: "wake-up-missing",
    says: "no worker holds",
    command: "wake -- o-1",
  },
  {
    name: "outbox entities that nobody relays",
    given: { sequence: 3, progress: progress(2), outbox: [{ sequence: 3 }] },
    code: "wake-up-missing",
    says: "1 committed event of order o-1 from 3 on",
    command: "wake -- o-1",
  },
  {
    name: "a paused subscription",
    given: { pauses: [PAUSE], streams: stream(pending(1), pending(2)) },
    code: "paused",
    says: "ann paused audit at 2026-01-01T00:00:00.000Z (audit)",
    command: "resume --reason cause fixed -- audit",
  },
  {
    name: "a paused order",
    given: { pauses: [{ ...PAUSE, orderId: id("o-1") }], streams: stream(pending(1), pending(2)) },
    code: "paused",
    says: "ann paused this order of audit",
    command: "resume --reason cause fixed -- audit o-1",
  },
  {
    name: "another order's pause",
    given: { pauses: [{ ...PAUSE, orderId: id("o-2") }], streams: stream(pending(1), pending(2)) },
    code: "wake-up-missing",
    says: "due",
    command: "wake -- o-1",
  },
  {
    name: "a subscription that is gone",
    given: { deployed: deployed("billing", "quick"), streams: stream(pending(1), pending(2)) },
    code: "subscription-gone",
    says: "Subscription audit is not in the module, and 2 of its events are pending",
    command: "dead discard --pending --reason subscription is gone --subscription audit -- o-1",
  },
  {
    name: "a type that the module lacks",
    given: { deployed: deployed("audit", "slow"), streams: stream(pending(1), pending(2)) },
    code: "handler-not-deployed",
    says: "(type quick) waits for a deployment",
  },
  {
    name: "a type that a worker lacked",
    given: { streams: stream(pending(1, { lastError: "handler-missing: event type x" }), pending(2)) },
    code: "handler-not-deployed",
    says: "waits for a deployment",
  },
  {
    name: "a type that a worker lacked and the module has",
    given: { deployed: deployed("audit", "quick"), streams: stream(pending(1, { lastError: "handler-missing: x" }), pending(2)) },
    code: "wake-up-missing",
    says: "due",
    command: "wake -- o-1",
  },
  {
    name: "ghosts are nothing to do",
    given: { progress: progress(2), streams: stream(pending(1), pending(2)) },
    code: "nothing-to-do",
    says: "is done",
  },
  {
    name: "a blob without our metadata",
    given: { progress: progress(0, 0), sequence: 0, streams: stream({ id: IDS[1]!, sequence: undefined, state: undefined }) },
    code: "wake-up-missing",
    says: `Event ${IDS[1]} of audit`,
    command: "wake -- o-1",
  },
];

test.each(cases)("$name: $code", ({ given, code, says, command }) => {
  const { verdict } = explainOrder(facts(given));

  expect(verdict.code).toBe(code);
  expect(verdict.sentence).toContain(says);
  expect(verdict.command?.join(" ")).toBe(command);
});

test("without the module, a due event may wait for a deployment too: how to rule that out", () => {
  const said = (given: Partial<OrderFacts>): string =>
    explainOrder(facts({ streams: stream(pending(1), pending(2)), ...given })).verdict.sentence;
  expect(said({})).toMatch(/ A run with --workflow rules out that its subscription or type is not deployed\.$/);
  expect(said({ deployed: deployed("audit", "quick") })).not.toContain("--workflow");
  const lastError = "handler-missing: event type quick is not in the deployed workflow w; it waits";
  const { code, sentence } = explainOrder(facts({ streams: stream(pending(1, { lastError }), pending(2)) })).verdict;
  expect([code, sentence]).toEqual(["handler-not-deployed", expect.stringContaining("(type quick) waits for a deployment")]);
});

test("streams are judged one by one, the one that needs a human first (G4)", () => {
  const two = [
    { subscription: "audit", pending: [pending(1), pending(2)] },
    { subscription: "billing", pending: [pending(1, BLOCKED)] },
  ];
  const { verdict, others, stuck } = explainOrder(facts({ streams: two }));

  expect([verdict, ...others].map(({ code, subscription }) => [code, subscription])).toEqual([
    ["blocked-dead-letter", "billing"],
    ["wake-up-missing", "audit"],
  ]);
  expect(stuck).toBe(true);
  expect(explainOrder(facts({ streams: stream(pending(1), pending(2)) })).stuck).toBe(false);
});

test("what is stored can't forge a line of the sentence", () => {
  const lastError = "x\n\u001b[2Jnothing-to-do: fine";
  const { verdict } = explainOrder(facts({ streams: stream(pending(1, { ...BLOCKED, lastError }), pending(2)) }));
  expect(verdict.sentence).not.toMatch(/[\n\u001b]/);
});

describe("from storage", () => {
  test("an order never heard of, a committed one, a blocked one, a paused one, a finished one", async () => {
    const scene = new Scene();
    const code = async (orderId: string): Promise<VerdictCode> => (await explain(scene.context, id(orderId))).verdict.code;
    await scene.commit("committed", 2);
    await scene.committed("blocked", 1);
    await scene.writeProgress("blocked", { clean: 0, relayed: 1, streams: {} });
    scene.blocked("blocked", 1);
    await scene.committed("paused", 1);
    await scene.writeProgress("paused", { clean: 0, relayed: 1, streams: {} });
    scene.pending("paused", 1, {}, "billing");
    await pause(scene.context, { subscription: "billing" }, ANN, { force: true });
    await scene.committed("finished", 1);
    await scene.progress("finished", 1);
    scene.archived("finished", 1);

    expect(await Promise.all(["unknown", "committed", "blocked", "paused", "finished"].map(code))).toEqual([
      "order-unknown",
      "wake-up-missing",
      "blocked-dead-letter",
      "paused",
      "nothing-to-do",
    ]);
  });

  test("a lost event is a gap; while a worker holds the order nothing is said to be lost", async () => {
    const scene = new Scene();
    await scene.committed("o-1", 2);
    await scene.writeProgress("o-1", { clean: 0, relayed: 2, streams: { audit: { sequence: 0, id: undefined, relayed: 2 } } });
    scene.pending("o-1", 2);
    const said = async (): Promise<string> => (await explain(scene.context, id("o-1"))).verdict.sentence;
    expect((await explain(scene.context, id("o-1"))).verdict.code).toBe("gap");
    // W3: what to undelete, exactly if anything that is left tells the id.
    expect(await said()).toContain("its blob was one below events/audit/o-1/, and nothing that is left tells its id. Undelete it");
    scene.archived("o-1", 1, {}, "mail");
    const streams = { audit: { sequence: 0, id: undefined, relayed: 2 }, mail: { sequence: 1, id: scene.eventId("o-1", 1), relayed: 1 } };
    await scene.writeProgress("o-1", { clean: 0, relayed: 2, streams });
    const blob = `its blob was events/${scene.name("o-1", 1)}`;
    expect(await said()).toContain(`${blob}. Undelete it, then \`wake\` the order.`);
    expect((await verifyOrder(scene.context, "o-1")).findings.map(({ text }) => text)).toContain(
      `event 1 is missing from the pending events: ${blob}`,
    );

    await scene.hold("o-1");
    expect((await explain(scene.context, id("o-1"))).verdict.code).toBe("lease-held");
  });

  test("a worker that finishes an event between two reads makes no gap: the order is read again", async () => {
    const scene = new Scene();
    await scene.committed("o-1", 1);
    await scene.writeProgress("o-1", { clean: 0, relayed: 1, streams: {} });
    scene.pending("o-1", 1);
    let finish = true;
    scene.storage.onCall = async ({ port, method }) => {
      if (port !== "orders" || method !== "readOutbox" || !finish) return;
      finish = false;
      await scene.progress("o-1", 1);
      scene.storage.deleteBlob("events", scene.name("o-1", 1));
    };
    expect((await explain(scene.context, id("o-1"))).verdict.code).toBe("nothing-to-do");
  });

  test("an order that moved once while it was read is read again: a gap that stays is told", async () => {
    const scene = new Scene();
    await scene.committed("o-1", 2);
    await scene.writeProgress("o-1", { clean: 0, relayed: 2, streams: { audit: { sequence: 0, id: undefined, relayed: 2 } } });
    scene.pending("o-1", 1);
    let finish = true;
    scene.storage.onCall = async ({ port, method }) => {
      if (port !== "blobs" || method !== "list" || !finish) return;
      finish = false;
      const audit = { sequence: 1, id: scene.eventId("o-1", 1), relayed: 2 };
      await scene.writeProgress("o-1", { clean: 0, relayed: 2, streams: { audit } });
    };
    expect((await explain(scene.context, id("o-1"))).verdict.code).toBe("gap");
  });

  test("with the module: subscription and type are looked at", async () => {
    const scene = new Scene();
    await scene.committed("o-1", 1);
    scene.pending("o-1", 1, {}, "report");
    scene.pending("o-1", 1, {}, "old-report");
    const { verdict, others } = await explain(scene.context, id("o-1"), { deployed: { workflow, subscriptions } });

    expect([verdict, ...others].map(({ code, subscription }) => [code, subscription])).toEqual([
      ["subscription-gone", "old-report"],
      ["handler-not-deployed", "report"],
    ]);
  });

  test("progress that can't be read is an error of its own", async () => {
    const scene = new Scene();
    await scene.committed("o-1", 1);
    await scene.hold("o-1", async (leaseId, etag) => {
      await scene.storage.leases.writeMetadata(scene.order("o-1"), { progress: "nonsense" }, { leaseId, etag });
    });
    await expect(explain(scene.context, id("o-1"))).rejects.toMatchObject({ code: "corrupt" });
  });
});

describe("a head that is paused too", () => {
  test.each([
    ["blocked-dead-letter", BLOCKED, ", and paused by ann at 2026-01-01T00:00:00.000Z (audit): redrive it"],
    ["waiting-retry", PARKED, "is tried again at 2026-01-01T00:00:20.000Z, 1 more behind it, and paused by ann"],
  ] as const)("is told by its own state first: %s", (code, state, says) => {
    const { verdict, stuck } = explainOrder(facts({ streams: stream(pending(1, state), pending(2)), pauses: [PAUSE] }));
    expect([verdict.code, verdict.paused, stuck]).toEqual([code, true, true]);
    expect(verdict.sentence).toContain(says);
  });
});

test("a park that a wrong clock made too long is due (C30)", () => {
  const state = { ...PARKED, waitMs: 20_000, nextAttemptMs: NOW + 86_400_000 };
  expect(explainOrder(facts({ streams: stream(pending(1, state), pending(2)) })).verdict.code).toBe("wake-up-missing");
});

test("an order that is done mentions the dead letters that were skipped", async () => {
  const scene = new Scene();
  await scene.committed("o-1", 1);
  await scene.progress("o-1", 1);
  scene.archived("o-1", 1, { outcome: "dead-lettered" });
  scene.deadIndex("o-1", 1, "skip");
  const { verdict } = await explain(scene.context, id("o-1"));
  expect([verdict.code, verdict.sentence]).toEqual(["nothing-to-do", expect.stringContaining("still listed: 1")]);
});

test("W12: of an order that is behind its progress no event is said to be beyond it, nor of one that a worker moves", () => {
  const streams = stream(pending(1), pending(2));
  const { verdict, others } = explainOrder(facts({ sequence: 1, streams }));
  expect([verdict, ...others].map(({ code }) => code)).toEqual(["order-behind-progress", "wake-up-missing"]);
  expect(explainOrder(facts({ sequence: 1, progress: progress(0, 0), streams })).verdict.code).toBe("contradiction");
  expect(explainOrder(facts({ sequence: 1, progress: progress(0, 0), streams, settled: false })).verdict.code).toBe("wake-up-missing");
});
