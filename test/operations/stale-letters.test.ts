/** W11: an entry in the index of dead letters that lands late does not outlive its event; no other goes by itself (G6). */
import { expect, test } from "vitest";
import { PermanentError } from "../../src/core/retry.ts";
import { createSweeper } from "../../src/operations/sweep.ts";
import { deadLetters, findings, live } from "../worker/operator-support.ts";
import { Scene as RoundScene } from "../worker/round-support.ts";
import { Scene } from "./support.ts";

interface Case {
  readonly name: string;
  readonly policy: "block" | "skip";
  /** Where the event is. */
  readonly place: (scene: Scene) => void;
  readonly stays: boolean;
}

const archivedAs =
  (outcome: string) =>
  (scene: Scene): void =>
    scene.archived("o-1", 1, { outcome });

const CASES: readonly Case[] = [
  { name: "handled after a redrive", policy: "block", place: archivedAs("handled"), stays: false },
  { name: "discarded", policy: "block", place: archivedAs("discarded"), stays: false },
  { name: "dead", policy: "block", place: (scene) => scene.pending("o-1", 1, { status: "blocked" }), stays: true },
  { name: "redriven, and not handled yet", policy: "block", place: (scene) => scene.pending("o-1", 1), stays: false },
  {
    name: "redriven, and parked",
    policy: "block",
    place: (scene) => scene.pending("o-1", 1, { status: "parked", nextAttemptMs: 1 }),
    stays: false,
  },
  {
    name: "dead, and about to be redriven",
    policy: "block",
    place: (scene) =>
      scene.pending("o-1", 1, {
        status: "blocked",
        decision: { action: "redrive", actor: "ann", reason: "up", at: "2026-01-01T00:00:00Z" },
      }),
    stays: true,
  },
  { name: "skipped", policy: "skip", place: archivedAs("dead-lettered"), stays: true },
  { name: "lost: the entry is the only trace", policy: "block", place: () => undefined, stays: true },
];

test.each(CASES)("its event is $name", async ({ policy, place, stays }) => {
  const scene = new Scene();
  scene.deadIndex("o-1", 1, policy);
  place(scene);
  const { storage, clock } = scene;
  const sweeper = createSweeper({ storage, clock });
  await sweeper.sweep({ dryRun: true });
  expect(storage.blobEntries("dead")).toHaveLength(1);
  await sweeper.sweep();
  expect(storage.blobEntries("dead").map(([each]) => each)).toEqual(stays ? [scene.name("o-1", 1)] : []);
});

test("its event was listed before it died: the entry stays", async () => {
  const scene = new Scene();
  const { storage, clock } = scene;
  scene.pending("o-1", 1);
  scene.deadIndex("o-1", 1, "block");
  storage.onCall = ({ method, args }) => {
    if (method === "read" && args[0] === "events") scene.pending("o-1", 1, { status: "blocked" });
  };
  await createSweeper({ storage, clock }).sweep();
  expect(storage.blobEntries("dead")).toHaveLength(1);
});

test("§8: what is dead, or was skipped, costs no call of its own", async () => {
  const scene = new Scene();
  scene.blocked("o-1", 1);
  scene.deadIndex("o-2", 1, "skip");
  const { storage, clock } = scene;
  storage.forgetCalls();
  await createSweeper({ storage, clock }).sweep();
  expect(storage.calls.filter(({ port, method }) => port === "blobs" && method === "read")).toEqual([]);
});

test("a dead letter whose entry a late delete took is listed again: its order is woken, once, and the worker writes it", async () => {
  const scene = new RoundScene();
  scene.onHandle = () => {
    throw new PermanentError("refused");
  };
  await scene.commit("o-1", [1]);
  await scene.until(scene.worker().handle("o-1"));
  const before = deadLetters(scene);
  await scene.storage.blobs.delete("dead", [scene.storage.blobEntries("dead")[0]![0]]);
  const sweeper = createSweeper({ storage: scene.storage, clock: scene.clock });
  expect(await sweeper.sweep()).toMatchObject({ woken: 1, marked: 0 });
  expect(await sweeper.sweep()).toMatchObject({ woken: 0, wokenBefore: 1 });
  await live(scene, scene.worker(), 1_000);
  expect(scene.log).toEqual(["audit E1"]);
  expect(deadLetters(scene)).toMatchObject(
    before.map(({ reason, sequence }) => ({ sequence, reason: expect.stringContaining(reason) as string })),
  );
  expect(await findings(scene)).toEqual([]);
  expect(await sweeper.sweep()).toMatchObject({ woken: 0, wokenBefore: 0 });
});
