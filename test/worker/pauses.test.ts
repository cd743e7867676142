/** F5: a paused subscription, or one order of it, starts nothing; everything else goes on. */
import { describe, expect, test } from "vitest";
import { CONTROL_CACHE_MS } from "../../src/core/controls.ts";
import { OutboxError } from "../../src/core/errors.ts";
import { RetryableError } from "../../src/core/retry.ts";
import { pause, resume } from "../../src/operations/pauses.ts";
import { createSweeper } from "../../src/operations/sweep.ts";
import { settle } from "../support/manual-clock.ts";
import { ANN, archived, BOB, contextOf, decideAbout, deliver, failWhile, findings, live, oid, pendingStates } from "./operator-support.ts";
import { Scene } from "./round-support.ts";

const AUDIT = { subscription: "audit" };
const ONE_ORDER = { subscription: "audit", orderId: oid("o-1") };

function both(scene: Scene) {
  return scene.worker([scene.subscription("audit"), scene.subscription("mail")]);
}

describe.each([
  ["a subscription", AUDIT],
  ["one order of it", ONE_ORDER],
] as const)("%s is paused", (_name, target) => {
  test("it starts nothing and counts nothing, others go on; resumed, it continues in order", async () => {
    const scene = new Scene();
    await pause(contextOf(scene), target, ANN, { force: true });
    await scene.commit("o-1", [1, 2]);
    await scene.commit("o-2", [8, 9]);
    const worker = both(scene);
    await live(scene, worker, 3_000);
    await createSweeper({ storage: scene.storage, clock: scene.clock }).sweep();
    await live(scene, worker, 70_000);
    const ran = (prefix: string): string[] => scene.log.filter((entry) => entry.startsWith(prefix));
    const other = target === AUDIT ? [] : ["audit E8", "audit E9"];
    expect(ran("audit")).toEqual(other);
    expect(ran("mail")).toEqual(["mail E1", "mail E2", "mail E8", "mail E9"]);
    expect(pendingStates(scene).map(({ status, attempts, crashes }) => [status, attempts, crashes])).toEqual([
      ["pending", 0, 0],
      ["pending", 0, 0],
    ]);
    expect(scene.storage.messages()).toEqual([]);
    expect(await resume(contextOf(scene), target, ANN)).toMatchObject({ outcome: "resumed", woken: target === AUDIT ? 2 : 1 });
    await live(scene, worker, CONTROL_CACHE_MS);
    expect(ran("audit").filter((entry) => /E[12]$/.test(entry))).toEqual(["audit E1", "audit E2"]);
    expect(ran("audit")).toHaveLength(4);
    expect(ran("mail")).toHaveLength(4);
    expect(archived(scene).map(({ attempts }) => attempts)).toEqual(["1", "1"]);
    expect(await findings(scene)).toEqual([]);
  });
});

test("it takes effect within CONTROL_CACHE_MS, also in a round that is longer than that", async () => {
  const scene = new Scene();
  await scene.commit("o-1", [1, 2, 3, 4, 5]);
  scene.onHandle = () => scene.clock.sleep(10_000);
  const round = scene.worker().handle("o-1");
  await settle();
  await pause(contextOf(scene), ONE_ORDER, ANN, { force: true });
  await scene.clock.advance(100_000);
  expect(await round).toMatchObject({ status: "done", problems: ["event 3 of audit stands: paused by ann: carrier is back"] });
  // E2 started after 10 s, on what the worker knew; what runs may finish.
  expect(scene.log).toEqual(["audit E1", "audit E2"]);
});

test("what is committed right after the resume needs no sweep, although the worker has just seen the pause", async () => {
  const scene = new Scene();
  const worker = scene.worker();
  await pause(contextOf(scene), AUDIT, ANN, { force: true });
  await scene.commit("o-1", [1]);
  await deliver(scene, worker);
  expect(await resume(contextOf(scene), AUDIT, ANN)).toMatchObject({ outcome: "resumed", woken: 1 });
  await scene.commit("o-2", [8]);
  await deliver(scene, worker);
  expect(scene.log).toEqual(["audit E8"]);
  await live(scene, worker, CONTROL_CACHE_MS);
  expect(scene.log).toEqual(["audit E8", "audit E1"]);
  expect(scene.storage.messages()).toEqual([]);
});

test("the table is asked once in that time, by however many rounds", async () => {
  const scene = new Scene();
  const worker = scene.worker();
  for (let n = 1; n <= 20; n++) await scene.commit(`o-${n}`, [n]);
  scene.storage.forgetCalls();
  await deliver(scene, worker);
  expect(scene.log).toHaveLength(20);
  expect(scene.storage.callCounts()["orders.listEntities"]).toBe(1);
});

test("a table that can't be asked leaves the last known pauses in force", async () => {
  const scene = new Scene();
  await pause(contextOf(scene), AUDIT, ANN, { force: true });
  const worker = scene.worker();
  await scene.commit("o-1", [1]);
  await deliver(scene, worker);
  scene.storage.onCall = ({ method }) => {
    if (method === "listEntities") throw new OutboxError("unavailable", "the table is down");
  };
  await scene.clock.advance(CONTROL_CACHE_MS);
  await worker.handle("o-1");
  expect(scene.log).toEqual([]);
});

describe("the pauses can't be read", () => {
  function down(scene: Scene): void {
    scene.storage.onCall = ({ method }) => {
      if (method === "listEntities") throw new OutboxError("unavailable", "the table is down");
    };
  }

  test("a process that has never known them starts nothing; soon after they can be read, what is not paused runs", async () => {
    const scene = new Scene();
    await pause(contextOf(scene), AUDIT, ANN, { force: true });
    await scene.commit("o-1", [1, 2]);
    down(scene);
    const worker = both(scene);
    const unknown = (name: string): string => `event 1 of ${name} stands: it can't be told what is paused, as the table does not answer`;
    expect(await scene.until(worker.handle("o-1"))).toMatchObject({
      status: "left",
      retryInMs: 10_000,
      problems: [unknown("audit"), unknown("mail")],
    });
    await live(scene, worker, 20_000);
    expect(scene.log).toEqual([]);
    scene.storage.onCall = undefined;
    await live(scene, worker, 10_000);
    expect(scene.log).toEqual(["mail E1", "mail E2"]);
    expect(pendingStates(scene).map(({ status, attempts }) => [status, attempts])).toEqual([
      ["pending", 0],
      ["pending", 0],
    ]);
  });

  test("what was known stands for a minute, then nothing starts: a pause may have come since", async () => {
    const scene = new Scene();
    const worker = both(scene);
    await scene.commit("o-1", [1]);
    await deliver(scene, worker);
    down(scene);
    await pause(contextOf(scene), AUDIT, ANN, { force: true });
    await scene.clock.advance(59_000);
    await scene.commit("o-2", [2]);
    await deliver(scene, worker);
    await scene.clock.advance(1_000);
    await scene.commit("o-3", [3]);
    await live(scene, worker, 60_000);
    expect(scene.log).toEqual(["audit E1", "mail E1", "audit E2", "mail E2"]);
    scene.storage.onCall = undefined;
    await live(scene, worker, 10_000);
    expect(scene.log.slice(4)).toEqual(["mail E3"]);
  });
});

test("a parked event keeps its time over a pause, and runs after it", async () => {
  const scene = new Scene();
  const broken = new Set(["audit E1"]);
  // Due later than any worker may go on with what it knew.
  scene.onHandle = failWhile(broken, () => new RetryableError("busy", 20_000));
  await scene.commit("o-1", [1, 2]);
  const worker = scene.worker();
  await deliver(scene, worker);
  await pause(contextOf(scene), AUDIT, ANN, { force: true });
  await live(scene, worker, 60_000);
  expect(scene.log).toEqual(["audit E1"]);
  broken.clear();
  await resume(contextOf(scene), AUDIT, ANN);
  await live(scene, worker, CONTROL_CACHE_MS);
  expect(scene.log).toEqual(["audit E1", "audit E1", "audit E2"]);
  expect(archived(scene)[0]?.["attempts"]).toBe("2");
});

test("decisions are carried out while it is paused: a discarded head goes, the next does not start", async () => {
  const scene = new Scene();
  scene.onHandle = failWhile(new Set(["audit E1"]));
  await scene.commit("o-1", [1, 2]);
  const worker = scene.worker();
  await deliver(scene, worker);
  await pause(contextOf(scene), AUDIT, ANN, { force: true });
  await scene.clock.advance(CONTROL_CACHE_MS);
  await decideAbout(scene, "discard", BOB);
  await deliver(scene, worker);
  expect(archived(scene)).toMatchObject([{ outcome: "discarded" }]);
  expect(scene.log).toEqual(["audit E1"]);
});
