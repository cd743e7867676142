/** G6, W3: whatever call a worker dies at, `verify` finds no damage, and nothing that retention is blamed for; the next round mends the rest. */
import { describe, expect, test } from "vitest";
import { PermanentError } from "../../src/core/retry.ts";
import { verifyOrder } from "../../src/operations/verify.ts";
import { settle } from "../support/manual-clock.ts";
import { contextOf, decideAbout, findings, live, oid } from "./operator-support.ts";
import { key, mortal, Scene } from "./round-support.ts";

type OnDead = "skip" | "block";

/** At most so many calls are there to die at. */
const MAX_CALLS = 80;

async function found(scene: Scene): Promise<readonly string[]> {
  const { findings: all } = await verifyOrder(contextOf(scene), oid("o-1"));
  return all.map(({ kind, severity, text }) => `${severity} ${kind}: ${text.replaceAll(/[0-9A-Z]{26}/g, "ID")}`);
}

/**
 * One worker does what `prepare` leaves to be done, and dies at its every call in turn.
 *
 * @returns what was found right after the deaths, without what is the same
 */
async function dieEverywhere(onDead: OnDead, prepare: (scene: Scene) => Promise<void>): Promise<readonly string[]> {
  const all = new Set<string>();
  for (let at = 1; at <= MAX_CALLS; at++) {
    const scene = new Scene();
    scene.onHandle = (entry) => {
      if (entry === "audit E1") throw new PermanentError("no such customer");
    };
    const subscriptions = [scene.subscription("audit", { retry: { onDead } })];
    await scene.commit("o-1", [1, 2]);
    await prepare(scene);
    const { storage, calls } = mortal(scene.storage, at, "dies-after", new Error("the process died"));
    void scene.worker(subscriptions, { storage }).handle("o-1");
    await settle();
    // A lease that runs out, not one that is ended: its calls must not go on.
    await scene.clock.advance(31_000);
    for (const each of await found(scene)) all.add(each);
    if (calls() < at) {
      expect(scene.storage.leaseOf(key("o-1"))?.state).toBe("free");
      return [...all].sort();
    }
    await live(scene, scene.worker(subscriptions), 70_000);
    await scene.until(scene.worker(subscriptions).handle("o-1"));
    expect(await findings(scene)).toEqual([]);
  }
  throw new Error("it never lives to the end");
}

async function blocked(scene: Scene): Promise<void> {
  await scene.until(scene.worker([scene.subscription("audit")]).handle("o-1"));
  expect(await findings(scene)).toEqual([]);
}

const notice = (sequence: number): string =>
  `notice moving: event ${sequence} and its entry among the dead letters do not agree: the last worker died on the way, the next one mends it`;

describe("a worker dies", () => {
  test("on the way to a dead letter that its stream skips", async () => {
    expect(await dieEverywhere("skip", () => Promise.resolve())).toEqual([notice(1)]);
  });

  test("on the way to a dead letter that blocks its stream", async () => {
    expect(await dieEverywhere("block", () => Promise.resolve())).toEqual([notice(1)]);
  });

  test.each(["discard", "redrive"] as const)("on the way to carry out a decision to %s", async (action) => {
    const decided = async (scene: Scene): Promise<void> => {
      await blocked(scene);
      await decideAbout(scene, action);
    };
    const onItsWay =
      "notice moving: event 1 is archived as discarded and pending still: the worker that carries it out, or the next one, goes on";
    expect(await dieEverywhere("block", decided)).toEqual(action === "discard" ? [notice(1), onItsWay] : [notice(1)]);
  });

  test("on the way to two handled events", async () => {
    const healed = async (scene: Scene): Promise<void> => {
      scene.onHandle = () => undefined;
      await Promise.resolve();
    };
    expect(await dieEverywhere("block", healed)).toEqual([]);
  });
});

test("the same without a worker's death is damage: the entry of a blocked event is gone", async () => {
  const scene = new Scene();
  scene.onHandle = () => {
    throw new PermanentError("no such customer");
  };
  await scene.commit("o-1", [1]);
  await blocked(scene);
  scene.storage.deleteBlob("dead", scene.storage.blobEntries("dead")[0]![0]);
  expect(await found(scene)).toEqual(["damage dead-index: event ID is blocked and not listed as a dead letter"]);
});
