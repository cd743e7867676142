/** F5: a handler that says its subscription is gone switches it off, as an operator would have done. */
import { describe, expect, test } from "vitest";
import type { AuditRecord } from "../../src/core/audit-record.ts";
import { CONTROL_CACHE_MS } from "../../src/core/controls.ts";
import { OutboxError } from "../../src/core/errors.ts";
import type { LogFields, Logger } from "../../src/core/logger.ts";
import { SubscriptionGoneError } from "../../src/core/retry.ts";
import { listPauses } from "../../src/operations/list-pauses.ts";
import { pause, resume } from "../../src/operations/pauses.ts";
import { readStatus } from "../../src/operations/status.ts";
import { createSweeper } from "../../src/operations/sweep.ts";
import { settle } from "../support/manual-clock.ts";
import { ANN, archived, contextOf, deliver, failWhile, findings, live, pendingStates } from "./operator-support.ts";
import { key, Scene } from "./round-support.ts";

const REASON = "https://erp.example answered 410";
const PAUSED = { subscription: "erp", orderId: undefined, actor: "worker", reason: REASON };

function gone(): SubscriptionGoneError {
  return new SubscriptionGoneError(REASON);
}

function both(scene: Scene, logger?: Logger) {
  return scene.worker([scene.subscription("erp"), scene.subscription("mail")], logger === undefined ? {} : { logger });
}

function audit(scene: Scene): readonly AuditRecord[] {
  return scene.storage.blobEntries("audit").map(([, { bytes }]) => JSON.parse(new TextDecoder().decode(bytes)) as AuditRecord);
}

function ran(scene: Scene, name: string): string[] {
  return scene.log.filter((entry) => entry.startsWith(`${name} `));
}

test("it is paused at once, nothing is counted, the others go on; resumed, it continues in order", async () => {
  const scene = new Scene();
  const warnings: (readonly [string, LogFields | undefined])[] = [];
  const quiet = (): void => undefined;
  const logger: Logger = { debug: quiet, info: quiet, error: quiet, warn: (message, fields) => void warnings.push([message, fields]) };
  const broken = new Set(["erp E1"]);
  scene.onHandle = failWhile(broken, gone);
  await scene.commit("o-1", [1, 2]);
  await scene.commit("o-2", [8, 9]);
  const worker = both(scene, logger);
  await live(scene, worker, 5_000);
  expect(ran(scene, "erp")).toEqual(["erp E1"]);
  expect(ran(scene, "mail")).toEqual(["mail E1", "mail E2", "mail E8", "mail E9"]);
  expect(await listPauses(contextOf(scene))).toMatchObject([PAUSED]);
  const { subscriptions } = await readStatus(contextOf(scene));
  expect(subscriptions).toMatchObject([{ subscription: "erp", paused: "all", pending: 4, orders: 2, dead: 0, parked: 0 }]);
  expect(pendingStates(scene, "erp").map(({ status, attempts, crashes }) => [status, attempts, crashes])).toEqual([
    ["pending", 0, 0],
    ["pending", 0, 0],
  ]);
  const [intended, paused] = audit(scene);
  expect(audit(scene)).toHaveLength(2);
  expect(intended).toMatchObject({
    actor: "worker",
    reason: REASON,
    action: "pause",
    target: { subscription: "erp" },
    outcome: "intended",
  });
  expect(paused).toMatchObject({ ...intended, id: paused!.id, outcome: "paused", intention: intended!.id });
  expect(warnings.filter(([message]) => message.includes("is gone and was paused"))).toEqual([
    ["a subscription is gone and was paused; `ordered-outbox resume` lets it go on", { subscription: "erp", reason: REASON }],
  ]);
  // However long, no message goes round.
  await createSweeper({ storage: scene.storage, clock: scene.clock }).sweep();
  await live(scene, worker, 70_000);
  expect(scene.storage.messages()).toEqual([]);
  expect(ran(scene, "erp")).toEqual(["erp E1"]);
  broken.clear();
  expect(await resume(contextOf(scene), { subscription: "erp" }, ANN)).toMatchObject({ outcome: "resumed", woken: 2 });
  await live(scene, worker, CONTROL_CACHE_MS);
  expect(ran(scene, "erp").filter((entry) => /E[12]$/.test(entry))).toEqual(["erp E1", "erp E1", "erp E2"]);
  expect(ran(scene, "erp").filter((entry) => /E[89]$/.test(entry))).toEqual(["erp E8", "erp E9"]);
  expect(archived(scene, "erp").map(({ attempts }) => attempts)).toEqual(["1", "1"]);
  expect(await findings(scene)).toEqual([]);
});

test("many orders that find out at the same time write one pause, with one pair of records", async () => {
  const scene = new Scene();
  let release: () => void = () => undefined;
  const gate = new Promise<void>((resolve) => (release = resolve));
  scene.onHandle = async (entry) => {
    if (!entry.startsWith("erp")) return;
    await gate;
    throw gone();
  };
  const worker = both(scene);
  for (let n = 1; n <= 20; n++) await scene.commit(`o-${n}`, [n, n + 100]);
  const rounds = Array.from({ length: 20 }, (_, index) => worker.handle(`o-${index + 1}`));
  await settle();
  release();
  await Promise.all(rounds);
  expect(ran(scene, "erp")).toHaveLength(20);
  expect(audit(scene).map(({ outcome }) => outcome)).toEqual(["intended", "paused"]);
  expect(scene.storage.callCounts()["orders.insertEntity"]).toBe(1);
  // F8: whoever says so has answered. No breaker is open when it is resumed.
  scene.onHandle = () => undefined;
  await resume(contextOf(scene), { subscription: "erp" }, ANN);
  await live(scene, worker, CONTROL_CACHE_MS);
  expect(ran(scene, "erp")).toHaveLength(20 + 40);
});

test("an operator's pause that came first stands, with its actor and reason", async () => {
  const scene = new Scene();
  scene.onHandle = async (entry) => {
    if (entry !== "erp E1") return;
    await pause(contextOf(scene), { subscription: "erp" }, ANN);
    throw gone();
  };
  await scene.commit("o-1", [1]);
  const { problems } = await both(scene).handle("o-1");
  expect(problems).toEqual(["event 1 of erp stands: paused by ann: carrier is back"]);
  expect(await listPauses(contextOf(scene))).toMatchObject([{ actor: "ann" }]);
  expect(audit(scene).map(({ actor }) => actor)).toEqual(["ann", "ann"]);
});

test("F5: what a process has switched off stays off there while the table does not answer", async () => {
  const scene = new Scene();
  const broken = new Set(["erp E1"]);
  scene.onHandle = failWhile(broken, gone);
  await scene.commit("o-1", [1]);
  const worker = both(scene);
  await live(scene, worker, 5_000);
  broken.clear();
  scene.storage.onCall = ({ method }) => {
    if (method === "listEntities") throw new OutboxError("unavailable", "down");
  };
  await scene.commit("o-2", [8]);
  await live(scene, worker, CONTROL_CACHE_MS + 5_000);
  await scene.commit("o-3", [9]);
  await live(scene, worker, 5_000);
  expect(ran(scene, "erp")).toEqual(["erp E1"]);
  expect(ran(scene, "mail")).toEqual(["mail E1", "mail E8", "mail E9"]);
});

test("an operator's pause that comes while the worker makes its own stands too", async () => {
  const scene = new Scene();
  scene.onHandle = failWhile(new Set(["erp E1"]), gone);
  await scene.commit("o-1", [1]);
  let meanwhile: Promise<unknown> | undefined;
  scene.storage.onCall = async ({ method, args }) => {
    if (method !== "create" || args[0] !== "audit" || meanwhile !== undefined) return;
    // The worker has found none.
    meanwhile = pause(contextOf(scene), { subscription: "erp" }, ANN);
    await meanwhile;
  };
  const { problems } = await both(scene).handle("o-1");
  expect(problems).toEqual(["event 1 of erp stands: paused by ann: carrier is back"]);
  expect(await listPauses(contextOf(scene))).toMatchObject([{ actor: "ann" }]);
  expect(
    audit(scene)
      .filter(({ actor }) => actor === "worker")
      .map(({ outcome }) => outcome),
  ).toEqual(["intended", "already-paused"]);
});

test("W4: the start of a suspect, counted before it ran, is taken back", async () => {
  const scene = new Scene();
  scene.onHandle = (entry) => (entry === "erp E1" ? new Promise(() => undefined) : undefined);
  await scene.commit("o-1", [1]);
  void both(scene).handle("o-1");
  await settle();
  scene.storage.breakLease(key("o-1"));
  await scene.clock.advance(31_000);
  scene.onHandle = failWhile(new Set(["erp E1"]), gone);
  await both(scene).handle("o-1");
  // The one that ended with its process stays counted.
  expect(pendingStates(scene, "erp")).toMatchObject([{ attempts: 1, crashes: 0, status: "pending" }]);
});

describe("the pause can't be written", () => {
  test.each([
    ["its audit record is refused", "create"],
    ["the table is down", "insertEntity"],
    ["the table can't be asked whether it is there", "readEntity"],
  ])("%s: the event is tried again like any other that failed, then it works out", async (_name, method) => {
    const scene = new Scene();
    const broken = new Set(["erp E1"]);
    scene.onHandle = failWhile(broken, gone);
    await scene.commit("o-1", [1, 2]);
    const worker = both(scene);
    scene.storage.onCall = (call) => {
      if (call.method === method && call.args[0] !== "events" && call.args[0] !== "archive" && call.port !== "leases")
        throw new OutboxError("unavailable", "down");
    };
    await deliver(scene, worker);
    scene.storage.onCall = undefined;
    expect(ran(scene, "erp")).toEqual(["erp E1"]);
    expect(await listPauses(contextOf(scene))).toEqual([]);
    expect(pendingStates(scene, "erp")[0]).toMatchObject({
      status: "parked",
      attempts: 1,
      lastError: `SubscriptionGoneError: ${REASON}`,
    });
    await live(scene, worker, 11_000);
    expect(ran(scene, "erp")).toEqual(["erp E1", "erp E1"]);
    expect(await listPauses(contextOf(scene))).toMatchObject([PAUSED]);
    expect(pendingStates(scene, "erp")[0]?.attempts).toBe(1);
  });

  test("its answer is lost and nobody can be asked: the audit log says unknown, and the next try finds it", async () => {
    const scene = new Scene();
    scene.onHandle = failWhile(new Set(["erp E1"]), gone);
    await scene.commit("o-1", [1]);
    const worker = both(scene);
    let lost = false;
    scene.storage.onCall = ({ method }) => {
      if (method === "readEntity" && lost) throw new OutboxError("unavailable", "down");
      if (method !== "insertEntity") return undefined;
      lost = true;
      return "lose-response";
    };
    await worker.handle("o-1");
    scene.storage.onCall = undefined;
    expect(audit(scene).map(({ outcome }) => outcome)).toEqual(["intended", expect.stringMatching(/^unknown: /)]);
    expect(await listPauses(contextOf(scene))).toMatchObject([PAUSED]);
    // This process does not know of it yet, so its retry runs; it then finds the pause, and writes no second one.
    await live(scene, worker, 60_000);
    expect(ran(scene, "erp")).toEqual(["erp E1", "erp E1"]);
    expect(audit(scene)).toHaveLength(2);
  });

  test("an audit record whose answer is lost is no reason", async () => {
    const scene = new Scene();
    scene.onHandle = failWhile(new Set(["erp E1"]), gone);
    await scene.commit("o-1", [1]);
    let lost = 0;
    scene.storage.onCall = ({ method, args }) => {
      if (method !== "create" || args[0] !== "audit" || lost > 0) return undefined;
      lost += 1;
      return "lose-response";
    };
    // The client repeats such a call; here the whole start is repeated.
    await live(scene, both(scene), 11_000);
    expect(await listPauses(contextOf(scene))).toMatchObject([PAUSED]);
  });
});

test.each<[string, () => unknown, string]>([
  ["empty", () => new SubscriptionGoneError("  "), "its handler says that it is gone"],
  ["too long", () => new SubscriptionGoneError("x".repeat(1_000)), `${"x".repeat(499)}…`],
  ["with a line break", () => new SubscriptionGoneError("gone\nforged"), "gone\\u000aforged"],
  ["a getter that throws", () => Object.defineProperty(gone(), "reason", { get: () => { throw new Error("no"); } }), "its handler says that it is gone"], // prettier-ignore
])("a reason that is %s", async (_name, error, reason) => {
  const scene = new Scene();
  scene.onHandle = failWhile(new Set(["erp E1"]), error);
  await scene.commit("o-1", [1]);
  await both(scene).handle("o-1");
  expect(await listPauses(contextOf(scene))).toMatchObject([{ reason }]);
});
