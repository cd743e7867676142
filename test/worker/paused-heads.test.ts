/** F5 beside F4 and the lease: what `explain` says of a paused head, and what the sweep does with it. */
import { expect, test } from "vitest";
import { OutboxError } from "../../src/core/errors.ts";
import type { Explanation } from "../../src/core/explain.ts";
import { PermanentError } from "../../src/core/retry.ts";
import { explain } from "../../src/operations/explain.ts";
import { pause } from "../../src/operations/pauses.ts";
import { createSweeper } from "../../src/operations/sweep.ts";
import { settle } from "../support/manual-clock.ts";
import { ANN, archived, BOB, contextOf, decideAbout, deliver, live, oid, pendingStates } from "./operator-support.ts";
import { Scene } from "./round-support.ts";

const AUDIT = { subscription: "audit" };

function explained(scene: Scene): Promise<Explanation> {
  return explain(contextOf(scene), oid("o-1"));
}

/** Its head is a dead letter, its stream is paused, a decision is recorded, and the wake-up for it is lost. */
async function decided(action: "redrive" | "discard"): Promise<Scene> {
  const scene = new Scene();
  await scene.commit("o-1", [1, 2]);
  scene.onHandle = (entry) => {
    if (entry === "audit E1") throw new PermanentError("no such customer");
  };
  await deliver(scene, scene.worker());
  expect(scene.log).toEqual(["audit E1"]);
  await pause(contextOf(scene), AUDIT, ANN);
  scene.storage.onCall = ({ port, method }) => {
    if (port === "wakeUps" && method === "send") throw new OutboxError("unavailable", "503");
  };
  await decideAbout(scene, action, BOB);
  scene.storage.onCall = undefined;
  return scene;
}

function sweep(scene: Scene): Promise<{ readonly woken: number }> {
  return createSweeper({ storage: scene.storage, clock: scene.clock }).sweep();
}

test("F4, F5: a discard on a paused stream is told as one, woken by the sweep and carried out", async () => {
  const scene = await decided("discard");
  const { verdict } = await explained(scene);
  expect(verdict).toMatchObject({ code: "wake-up-missing", command: ["wake", "--", "o-1"] });
  expect(verdict.sentence).toMatch(/^Event 1 of audit \(bob decided at .* to discard it\): due,/);
  expect(verdict).not.toHaveProperty("paused");
  expect(await sweep(scene)).toMatchObject({ woken: 1 });
  await live(scene, scene.worker(), 1_000);
  expect(archived(scene)).toMatchObject([{ outcome: "discarded" }]);
  expect(scene.log).toEqual(["audit E1"]);
  expect((await explained(scene)).verdict).toMatchObject({ code: "paused" });
});

test("F4, F5: a redrive on a paused stream is recorded, and its event waits for the resume without more wake-ups", async () => {
  const scene = await decided("redrive");
  const { verdict, stuck } = await explained(scene);
  expect(verdict).toMatchObject({ code: "wake-up-missing", paused: true });
  expect(verdict.sentence).toMatch(/^Event 1 of audit \(bob decided at .* to redrive it, and paused by ann at /);
  expect(stuck).toBe(true);
  expect(await sweep(scene)).toMatchObject({ woken: 1 });
  await live(scene, scene.worker(), 1_000);
  expect(pendingStates(scene)[0]).toMatchObject({ status: "pending", attempts: 0 });
  expect(scene.log).toEqual(["audit E1"]);
  expect((await explained(scene)).verdict).toMatchObject({ code: "paused" });
  await scene.clock.advance(120_000);
  expect(await sweep(scene)).toMatchObject({ woken: 0 });
});

test("F5: a head that runs since before the pause: the verdict tells of it and of the lease", async () => {
  const scene = new Scene();
  await scene.commit("o-1", [1]);
  const gate = Promise.withResolvers<void>();
  scene.onHandle = () => gate.promise;
  const startedAt = new Date(scene.clock.now()).toISOString();
  const running = scene.worker().handle("o-1");
  await settle();
  await pause(contextOf(scene), AUDIT, ANN);
  await scene.clock.advance(30_000);
  const { verdict } = await explained(scene);
  expect(verdict).toMatchObject({ code: "paused", heldSince: startedAt, command: ["resume", "--reason", "cause fixed", "--", "audit"] });
  expect(verdict.sentence).toMatch(/ If it started before the pause, it runs on: .* has held the order's lease since /);
  gate.resolve();
  await scene.until(running);
  expect((await explained(scene)).verdict).toMatchObject({ code: "nothing-to-do" });
});

test("W5: a holder that was killed before it left its mark is not said to be at it, nor to be new", async () => {
  const scene = new Scene();
  await scene.commit("o-1", [1]);
  await deliver(scene, scene.worker());
  scene.log.length = 0;
  await scene.commit("o-1", [2]);
  scene.onHandle = () => new Promise(() => undefined);
  scene.storage.onCall = ({ port, method }) =>
    port === "leases" && (method === "renew" || method === "writeMetadata") && scene.log.length > 0
      ? new Promise(() => undefined)
      : undefined;
  void scene.worker([scene.subscription("audit")], { lease: { durationMs: 60_000 } }).handle("o-1");
  await settle();
  await scene.clock.advance(55_000);
  const { verdict } = await explained(scene);
  expect(verdict.code).toBe("lease-held");
  expect(verdict).not.toHaveProperty("heldSince");
  expect(verdict.sentence).toContain("or its worker died or met a fault before it could leave one");
  expect(verdict.sentence).not.toMatch(/less than|is at it/);
});

test("W5: a holder that was killed after its mark is not said to be alive", async () => {
  const scene = new Scene();
  await scene.commit("o-1", [1]);
  scene.onHandle = () => new Promise(() => undefined);
  void scene.worker().handle("o-1");
  await settle();
  await scene.clock.advance(11_000);
  scene.storage.onCall = ({ port }) => (port === "leases" ? new Promise(() => undefined) : undefined);
  await scene.clock.advance(20_000);
  scene.storage.onCall = undefined;
  expect((await explained(scene)).verdict.sentence).toContain("and is at it unless it died within the last minute");
});
