/** W11, F4: requests to the index of dead letters that land late, and an operator's list that is older than what it says. */
import { describe, expect, test } from "vitest";
import { OutboxError } from "../../src/core/errors.ts";
import type { Storage } from "../../src/core/ports.ts";
import { PermanentError } from "../../src/core/retry.ts";
import { decideMany, decideOrder } from "../../src/operations/decide-many.ts";
import { createSweeper } from "../../src/operations/sweep.ts";
import type { Worker } from "../../src/worker/round-result.ts";
import { ANN, archived, BOB, contextOf, deadLetters, decideAbout, findings, live, oid, pendingStates } from "../worker/operator-support.ts";
import { Scene } from "../worker/round-support.ts";

const DEAD = (): never => {
  throw new PermanentError("refused");
};
const DOWN = (): never => {
  throw new Error("carrier is down");
};

function skipping(scene: Scene, storage: Storage = scene.storage): Worker {
  return scene.worker([scene.subscription("audit", { retry: { shortStarts: 1, onDead: "skip" } })], { storage });
}

/** The first such request to the index gets no answer, and lands when it is told to. */
function losing(scene: Scene, method: "create" | "deleteUnchanged"): { readonly storage: Storage; readonly land: () => Promise<unknown> } {
  const { blobs } = scene.storage;
  let held: (() => Promise<unknown>) | undefined;
  const proxy = new Proxy(blobs, {
    get(target, name, receiver) {
      const real = Reflect.get(target, name, receiver) as (...args: unknown[]) => Promise<unknown>;
      if (name !== method) return real.bind(target);
      return async (...args: unknown[]) => {
        if (args[0] !== "dead" || held !== undefined) return real.apply(target, args);
        held = () => real.apply(target, args);
        throw new OutboxError("timeout", "no answer");
      };
    },
  });
  return { storage: { ...scene.storage, blobs: proxy }, land: () => held!() };
}

async function dead(scene: Scene, storage: Storage = scene.storage): Promise<void> {
  scene.onHandle = DEAD;
  await scene.commit("o-1", [1]);
  await scene.until(scene.worker(undefined, { storage }).handle("o-1"));
  await live(scene, scene.worker(), 60_000);
  expect(deadLetters(scene)).toHaveLength(1);
}

describe("an entry that lands late", () => {
  test("when the event was redriven and is parked: no bulk discard takes it, and a sweep takes the entry off", async () => {
    const scene = new Scene();
    const { storage, land } = losing(scene, "create");
    await dead(scene, storage);
    await decideAbout(scene, "redrive");
    scene.onHandle = DOWN;
    await scene.until(scene.worker().handle("o-1"));
    expect([pendingStates(scene)[0]!.status, deadLetters(scene)]).toEqual(["parked", []]);
    await land();
    expect((await decideMany(contextOf(scene), "discard", {}, BOB)).results).toMatchObject([{ outcome: "not-waiting" }]);
    await createSweeper({ storage: scene.storage, clock: scene.clock }).sweep();
    expect(deadLetters(scene)).toEqual([]);
    scene.onHandle = () => undefined;
    await live(scene, scene.worker(), 60_000);
    expect(archived(scene)).toMatchObject([{ outcome: "handled" }]);
  });

  test("as one of a block, when the event is skipped by now: it gives way, and the event can be redriven out of order", async () => {
    const scene = new Scene();
    const { storage, land } = losing(scene, "create");
    await dead(scene, storage);
    await decideAbout(scene, "redrive");
    scene.onHandle = async () => {
      await land();
      throw new PermanentError("refused again");
    };
    await scene.until(skipping(scene).handle("o-1"));
    expect(deadLetters(scene)).toMatchObject([{ policy: "skip", reason: expect.stringContaining("refused again") as string }]);
    scene.onHandle = () => undefined;
    const redriven = await decideOrder(contextOf(scene), "redrive", { orderId: oid("o-1") }, ANN, { outOfOrder: true });
    expect(redriven).toMatchObject([{ outcome: "recorded" }]);
  });
});

describe("a delete of a redrive that lands late, when the event has died again", () => {
  test.each(["block", "skip"] as const)("under %s: the entry of its second death stays", async (policy) => {
    const scene = new Scene();
    await dead(scene);
    await decideAbout(scene, "redrive");
    const { storage, land } = losing(scene, "deleteUnchanged");
    const worker = (own: Storage): Worker => (policy === "block" ? scene.worker(undefined, { storage: own }) : skipping(scene, own));
    await scene.until(worker(storage).handle("o-1"));
    await live(scene, worker(scene.storage), 60_000);
    expect(scene.log).toEqual(["audit E1", "audit E1"]);
    await land();
    expect(deadLetters(scene)).toMatchObject([{ policy }]);
    expect(await findings(scene)).toEqual([]);
  });

  test("G6: what is archived as dead, and neither listed nor decided about, is damage", async () => {
    const scene = new Scene();
    scene.onHandle = DEAD;
    await scene.commit("o-1", [1]);
    await scene.until(skipping(scene).handle("o-1"));
    expect(await findings(scene)).toEqual([]);
    await scene.storage.blobs.delete("dead", [scene.storage.blobEntries("dead")[0]![0]]);
    expect(await findings(scene)).toEqual([
      expect.stringMatching(/^dead-index: event .* is archived as dead-lettered, and neither listed nor/),
    ]);
  });
});

test("a bulk discard whose list is old: what was redriven since, and is parked, goes on, and the operator is told", async () => {
  const scene = new Scene();
  await dead(scene);
  const { blobs } = scene.storage;
  let first = true;
  const read: typeof blobs.read = async (...call) => {
    if (call[0] === "events" && first) {
      first = false;
      await decideAbout(scene, "redrive", ANN);
      scene.onHandle = DOWN;
      await scene.until(scene.worker().handle("o-1"));
    }
    return blobs.read(...call);
  };
  const context = { ...contextOf(scene), storage: { ...scene.storage, blobs: { ...blobs, read } } };
  expect((await decideMany(context, "discard", {}, BOB)).results).toMatchObject([
    { outcome: "not-waiting", message: expect.stringContaining("it was redriven") as string },
  ]);
  scene.onHandle = () => undefined;
  await live(scene, scene.worker(), 60_000);
  expect(archived(scene)).toMatchObject([{ outcome: "handled" }]);
});
