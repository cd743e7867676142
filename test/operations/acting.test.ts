/** Pausing, resuming, waking, unlocking: what operators change besides dead letters. */
import { describe, expect, test } from "vitest";
import { CONTROL_CACHE_MS } from "../../src/core/controls.ts";
import { OutboxError } from "../../src/core/errors.ts";
import type { OrdersTable } from "../../src/core/ports.ts";
import { listDeadLetters } from "../../src/operations/dead-letters.ts";
import { decideMany, decideOrder, discardPending } from "../../src/operations/decide-many.ts";
import { dismiss } from "../../src/operations/dismiss.ts";
import { explain } from "../../src/operations/explain.ts";
import { inLanes } from "../../src/operations/lanes.ts";
import { listPauses } from "../../src/operations/list-pauses.ts";
import { pause, resume } from "../../src/operations/pauses.ts";
import { redriveSkipped } from "../../src/operations/redrive-skipped.ts";
import { showOrder } from "../../src/operations/show-order.ts";
import { unlockOrder } from "../../src/operations/unlock.ts";
import { verifyOrder } from "../../src/operations/verify.ts";
import { wakeOrder } from "../../src/operations/wake.ts";
import { settle } from "../support/manual-clock.ts";
import { ANN, BOB, id, key, Scene } from "./support.ts";

const ODD = 'o-1\n<b>"é📦\u001b[2J/..:pause';

describe("an operator without a name or a reason is refused, dry or not (G6)", () => {
  const NOBODY = { actor: "ann", reason: "" };
  test.each<[string, (scene: Scene, options: { readonly dryRun: boolean }) => Promise<unknown>]>([
    ["pause", (scene, options) => pause(scene.context, { subscription: "audit" }, NOBODY, options)],
    ["resume", (scene, options) => resume(scene.context, { subscription: "audit" }, NOBODY, options)],
    ["unlock", (scene, options) => unlockOrder(scene.context, id("o-1"), NOBODY, options)],
    ["wake", (scene, options) => wakeOrder(scene.context, id("o-1"), NOBODY, options)],
    ["redrive", (scene, options) => decideMany(scene.context, "redrive", {}, NOBODY, options)],
    ["discard of what is pending", (scene, options) => discardPending(scene.context, { subscription: "audit" }, NOBODY, options)],
  ])("%s", async (_name, act) => {
    const scene = new Scene();
    scene.pending("o-1", 1);
    await scene.hold("o-1");
    for (const dryRun of [true, false]) await expect(act(scene, { dryRun })).rejects.toMatchObject({ code: "invalid-option" });
    expect(scene.audit()).toEqual([]);
  });

  test.each([
    ["dismiss", dismiss],
    ["redrive out of order", redriveSkipped],
  ])("%s", async (_name, act) => {
    const scene = new Scene();
    scene.archived("o-1", 1, { outcome: "dead-lettered" });
    scene.deadIndex("o-1", 1, "skip");
    const [letter] = (await listDeadLetters(scene.context)).letters;
    await expect(act(scene.context, letter!, NOBODY, { dryRun: true })).rejects.toMatchObject({ code: "invalid-option" });
  });
});

test("OrderIds are plain text at the border, and are checked there", async () => {
  const scene = new Scene();
  scene.pending("o-1", 1);
  const { context } = scene;
  expect(await wakeOrder(context, "o-1", ANN)).toMatchObject({ outcome: "woken" });
  expect(await showOrder(context, "o-1")).toMatchObject({ orderId: "o-1" });
  const bad = "x".repeat(129);
  const calls = [
    () => wakeOrder(context, bad, ANN),
    () => unlockOrder(context, bad, ANN),
    () => showOrder(context, bad),
    () => explain(context, bad),
    () => verifyOrder(context, bad),
    () => listDeadLetters(context, { orderId: bad }),
    () => decideOrder(context, "redrive", { orderId: bad }, ANN),
    () => discardPending(context, { subscription: "audit", orderId: bad }, ANN),
    () => pause(context, { subscription: "audit", orderId: bad }, ANN),
    () => resume(context, { subscription: "audit", orderId: bad }, ANN),
  ];
  for (const call of calls) await expect(call()).rejects.toMatchObject({ code: "invalid-order-id" });
});

test("without a clock the system's is used", async () => {
  const scene = new Scene();
  scene.pending("o-1", 1);
  const before = Date.now();
  await wakeOrder({ storage: scene.storage }, "o-1", ANN);
  expect(Date.parse(scene.audit()[0]!.at)).toBeGreaterThanOrEqual(before);
});

describe("pauses (F5)", () => {
  test("of a subscription and of one order, whatever it is called, are listed with who, when and why", async () => {
    const scene = new Scene();
    await pause(scene.context, { subscription: "audit" }, ANN, { force: true });
    await pause(scene.context, { subscription: "audit", orderId: id(ODD) }, BOB, { force: true });
    await pause(scene.context, { subscription: "audit-2" }, BOB, { force: true });

    expect(await listPauses(scene.context)).toEqual([
      { subscription: "audit", orderId: undefined, ...ANN, at: "2026-01-01T00:00:00.000Z" },
      { subscription: "audit-2", orderId: undefined, ...BOB, at: "2026-01-01T00:00:00.000Z" },
      { subscription: "audit", orderId: ODD, ...BOB, at: "2026-01-01T00:00:00.000Z" },
    ]);
  });

  test("a second pause changes nothing and tells of the first", async () => {
    const scene = new Scene();
    await pause(scene.context, { subscription: "audit" }, ANN, { force: true });
    expect(await pause(scene.context, { subscription: "audit" }, BOB, { force: true })).toMatchObject({
      outcome: "already-paused",
      pause: { actor: "ann" },
    });
    expect(await listPauses(scene.context)).toMatchObject([{ actor: "ann" }]);
  });

  test("of two at the very same time one has paused, and the other is told", async () => {
    const scene = new Scene();
    const both = await Promise.all(
      [ANN, BOB].map((operator) => pause(scene.context, { subscription: "audit" }, operator, { force: true })),
    );
    expect(both.map(({ outcome }) => outcome).sort()).toEqual(["already-paused", "paused"]);
    const [{ actor } = { actor: "" }] = await listPauses(scene.context);
    expect(both.map((result) => result.pause.actor)).toEqual([actor, actor]);
  });

  test("of two whose looks both came before either write, the second is told who was first, and when", async () => {
    const scene = new Scene();
    const gates = [Promise.withResolvers<void>(), Promise.withResolvers<void>()];
    let inserts = 0;
    scene.storage.onCall = ({ method }) => (method === "insertEntity" ? gates[inserts++]?.promise : undefined);
    const ann = pause(scene.context, { subscription: "audit" }, ANN, { force: true });
    await settle();
    await scene.clock.advance(5);
    const bob = pause(scene.context, { subscription: "audit" }, BOB, { force: true });
    await settle();
    expect(inserts).toBe(2);
    gates[1]?.resolve();
    const first = { subscription: "audit", orderId: undefined, ...BOB, at: "2026-01-01T00:00:00.005Z" };
    expect(await bob).toEqual({ outcome: "paused", pause: first });
    gates[0]?.resolve();
    expect(await ann).toEqual({ outcome: "already-paused", pause: first });
    expect(await listPauses(scene.context)).toEqual([first]);
    expect(
      scene
        .audit()
        .map(({ actor, outcome }) => `${actor} ${outcome}`)
        .sort(),
    ).toEqual(["ann already-paused", "ann intended", "bob intended", "bob paused"]);
  });

  test("the same operator twice at the very same time has paused once", async () => {
    const scene = new Scene();
    const both = await Promise.all([1, 2].map(() => pause(scene.context, { subscription: "audit" }, ANN, { force: true })));
    expect(both.map(({ outcome }) => outcome).sort()).toEqual(["already-paused", "paused"]);
  });

  test("a pause whose request the client repeated is its own", async () => {
    const scene = new Scene();
    scene.storage.onCall = ({ method }) =>
      method === "insertEntity"
        ? {
            after: () => {
              throw new OutboxError("already-exists", "the client repeated a request that had landed");
            },
          }
        : undefined;
    expect(await pause(scene.context, { subscription: "audit" }, ANN, { force: true })).toMatchObject({
      outcome: "paused",
      pause: { actor: "ann" },
    });
  });

  test("one that is resumed between the refusal and the look is paused anew", async () => {
    const scene = new Scene();
    let isFirst = true;
    scene.storage.onCall = async ({ method }) => {
      if (method !== "insertEntity" || !isFirst) return;
      isFirst = false;
      await pause(scene.context, { subscription: "audit" }, BOB, { force: true });
    };
    let reads = 0;
    const inner = scene.storage.orders;
    const orders: OrdersTable = {
      ...inner,
      readEntity: async (...args) => {
        if (++reads === 2) await resume(scene.context, { subscription: "audit" }, BOB);
        return inner.readEntity(...args);
      },
    };
    const context = { ...scene.context, storage: { ...scene.storage, orders } };
    expect(await pause(context, { subscription: "audit" }, ANN, { force: true })).toMatchObject({
      outcome: "paused",
      pause: { actor: "ann" },
    });
    expect(await listPauses(scene.context)).toMatchObject([{ actor: "ann" }]);
  });

  test("resuming wakes the orders with a backlog of it, once every worker knows", async () => {
    const scene = new Scene();
    await pause(scene.context, { subscription: "audit" }, ANN, { force: true });
    scene.pending("o-1", 1);
    scene.pending("o-2", 1);
    scene.pending("o-3", 1, {}, "billing");

    expect(await resume(scene.context, { subscription: "audit" }, BOB)).toEqual({ outcome: "resumed", woken: 2 });
    expect(await listPauses(scene.context)).toEqual([]);
    expect(scene.wakeUps().sort()).toEqual(["o-1", "o-2"]);
    expect(scene.storage.messages().map(({ hiddenForMs }) => hiddenForMs)).toEqual([CONTROL_CACHE_MS, CONTROL_CACHE_MS]);
    expect(await resume(scene.context, { subscription: "audit" }, BOB)).toEqual({ outcome: "not-paused", woken: 0 });
  });

  test("one order of a subscription is resumed alone", async () => {
    const scene = new Scene();
    for (const orderId of ["o-1", "o-10"]) {
      await pause(scene.context, { subscription: "audit", orderId: id(orderId) }, ANN, { force: true });
      scene.pending(orderId, 1);
    }
    expect(await resume(scene.context, { subscription: "audit", orderId: id("o-1") }, BOB)).toEqual({ outcome: "resumed", woken: 1 });
    expect(scene.wakeUps()).toEqual(["o-1"]);
    expect((await listPauses(scene.context)).map(({ orderId }) => orderId)).toEqual(["o-10"]);
  });

  test("dry runs change and record nothing", async () => {
    const scene = new Scene();
    expect(await pause(scene.context, { subscription: "audit" }, ANN, { dryRun: true, force: true })).toMatchObject({
      outcome: "would-pause",
    });
    expect([await listPauses(scene.context), scene.audit()]).toEqual([[], []]);
    await pause(scene.context, { subscription: "audit" }, ANN, { force: true });
    scene.pending("o-1", 1);
    expect(await resume(scene.context, { subscription: "audit" }, ANN, { dryRun: true })).toEqual({ outcome: "would-resume", woken: 1 });
    expect([await listPauses(scene.context), scene.wakeUps()]).toMatchObject([[{ actor: "ann" }], []]);
  });

  test("are in the audit log, each with its target (G6)", async () => {
    const scene = new Scene();
    await pause(scene.context, { subscription: "audit" }, ANN, { force: true });
    await scene.clock.advance(1);
    await resume(scene.context, { subscription: "audit" }, BOB);

    expect(scene.audit().map(({ action, actor, outcome, target }) => [action, actor, outcome, target])).toEqual([
      ["pause", "ann", "intended", { subscription: "audit" }],
      ["pause", "ann", "paused", { subscription: "audit" }],
      ["resume", "bob", "intended", { subscription: "audit" }],
      ["resume", "bob", "resumed", { subscription: "audit" }],
    ]);
  });

  test("a bad name, a missing reason", async () => {
    const { context } = new Scene();
    await expect(pause(context, { subscription: "A/b" }, ANN, { force: true })).rejects.toMatchObject({ code: "invalid-option" });
    await expect(pause(context, { subscription: "a" }, { actor: "ann", reason: "" })).rejects.toMatchObject({ code: "invalid-option" });
  });
});

describe("unlock", () => {
  test("G2: breaks the lease: no renewal is granted, another worker is woken when it has ended", async () => {
    const scene = new Scene();
    await scene.hold("o-1");
    expect(await unlockOrder(scene.context, id("o-1"), ANN, { dryRun: true })).toMatchObject({ outcome: "would-break" });
    expect(scene.storage.leaseOf(key("o-1"))?.state).toBe("taken");

    const result = await unlockOrder(scene.context, id("o-1"), ANN);
    expect(result).toMatchObject({ outcome: "broken", endsInMs: 30_000, warning: expect.stringContaining("may run a second time") });
    expect(scene.storage.leaseOf(key("o-1"))).toMatchObject({ state: "taken", breaking: true });
    await expect(scene.storage.leases.renew(key("o-1"), "lease-o-1")).rejects.toMatchObject({ code: "lease-lost" });
    expect(scene.storage.messages()).toMatchObject([{ text: '"o-1"', hiddenForMs: 31_000 }]);
    await scene.clock.advance(30_000);
    expect(scene.storage.leaseOf(key("o-1"))?.state).toBe("abandoned");
    expect(scene.audit().map(({ action, outcome }) => [action, outcome])).toEqual([
      ["unlock", "intended"],
      ["unlock", "broken"],
    ]);
  });

  test("of an order that nobody holds does nothing", async () => {
    const scene = new Scene();
    scene.pending("o-1", 1);
    expect(await unlockOrder(scene.context, id("o-1"), ANN)).toEqual({ orderId: "o-1", outcome: "not-held" });
    expect([scene.audit(), scene.wakeUps()]).toEqual([[], []]);
  });

  test("of an order that does not exist is refused", async () => {
    const scene = new Scene();
    await expect(unlockOrder(scene.context, id("o-1"), ANN)).rejects.toMatchObject({ code: "not-found" });
    expect(scene.audit()).toEqual([]);
  });
});

describe("wake", () => {
  test("sends a wake-up that every reader understands alike, and is recorded", async () => {
    const scene = new Scene();
    await wakeOrder(scene.context, id("12345678901234567890"), ANN, { force: true });
    expect(scene.storage.messages()).toMatchObject([{ text: '"12345678901234567890"', hiddenForMs: 0 }]);
    expect(scene.audit()).toHaveLength(2);
  });

  test("fails with the queue, and says so in the audit log", async () => {
    const scene = new Scene();
    scene.pending("o-1", 1);
    scene.storage.onCall = ({ port }) => {
      if (port === "wakeUps") throw new OutboxError("unavailable", "queue");
    };
    await expect(wakeOrder(scene.context, id("o-1"), ANN)).rejects.toMatchObject({ code: "unavailable" });
    expect(scene.audit().at(-1)?.outcome).toBe("failed: unavailable: queue");
  });
});

describe("lanes", () => {
  test("keep the order of the results and the bound", async () => {
    let running = 0;
    let most = 0;
    const results = await inLanes([1, 2, 3, 4, 5, 6, 7], 3, async (item) => {
      most = Math.max(most, ++running);
      await new Promise((resolve) => setImmediate(resolve));
      running -= 1;
      return item * 10;
    });
    expect([results, most]).toEqual([[10, 20, 30, 40, 50, 60, 70], 3]);
  });

  test("begin nothing after a failure, and wait for what runs", async () => {
    const begun: number[] = [];
    let ended = 0;
    const work = inLanes([1, 2, 3, 4], 2, async (item) => {
      begun.push(item);
      if (item === 1) throw new Error("no");
      await new Promise((resolve) => setImmediate(resolve));
      ended += 1;
    });
    await expect(work).rejects.toThrow("no");
    expect([begun, ended]).toEqual([[1, 2], 1]);
  });
});
