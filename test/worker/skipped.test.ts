/** F3, G6: a skipped dead letter is on record on its event blob before anything else, so whoever dies or writes late changes nothing of it. */
import { describe, expect, test } from "vitest";
import { OutboxError } from "../../src/core/errors.ts";
import { PermanentError } from "../../src/core/retry.ts";
import { decideOrder, discardPending } from "../../src/operations/decide-many.ts";
import { createSweeper } from "../../src/operations/sweep.ts";
import type { Worker } from "../../src/worker/round-result.ts";
import { creates, dieAt } from "./crash-support.ts";
import { archived, BOB, contextOf, deadLetters, decideAbout, findings, live, oid, pendingStates } from "./operator-support.ts";
import { Scene } from "./round-support.ts";

/** E1 is refused for good; that becomes of the first blob that is written in `container`. */
async function skipping(container: "dead" | "archive", fate: "dies" | "is down"): Promise<Scene> {
  const scene = new Scene();
  refusing(scene, "audit E1");
  await scene.commit("o-1", [1, 2]);
  if (fate === "dies") {
    await dieAt(scene, workerOf(scene), creates(container));
    return scene;
  }
  scene.storage.onCall = (call) => {
    if (creates(container)(call)) throw new OutboxError("unavailable", "busy");
  };
  await scene.until(workerOf(scene).handle("o-1"));
  scene.storage.onCall = undefined;
  return scene;
}

function refusing(scene: Scene, refused: string): void {
  scene.onHandle = (entry) => {
    if (entry === refused) throw new PermanentError("refused");
  };
}

function workerOf(scene: Scene): Worker {
  return scene.worker([scene.subscription("audit", { retry: { shortStarts: 1, onDead: "skip" } })]);
}

async function recover(scene: Scene): Promise<void> {
  await scene.clock.advance(60_000);
  await live(scene, workerOf(scene), 60_000);
  await scene.until(workerOf(scene).handle("o-1"));
}

describe.each(["dies", "is down"] as const)("its worker or the archive %s before it is archived", (fate) => {
  test("discarded before it is archived: refused until then, and it is not archived as handled", async () => {
    const scene = await skipping("archive", fate);
    expect(scene.progress().streams["audit"]).toMatchObject({ sequence: 2 });
    const [result] = await decideOrder(contextOf(scene), "discard", { orderId: oid("o-1") }, BOB);
    expect(result).toMatchObject({ outcome: "skipped", message: expect.stringContaining("once it is archived") as string });
    await recover(scene);
    expect(scene.log).toEqual(["audit E1", "audit E2"]);
    expect(archived(scene).map(({ outcome }) => outcome)).toEqual(["dead-lettered", "handled"]);
    expect(await decideOrder(contextOf(scene), "discard", { orderId: oid("o-1") }, BOB)).toMatchObject([{ outcome: "dismissed" }]);
    expect(deadLetters(scene)).toEqual([]);
    expect(await findings(scene)).toEqual([]);
  });

  test("redriven out of order before it is archived: refused until then", async () => {
    const scene = await skipping("archive", fate);
    const redrive = () => decideOrder(contextOf(scene), "redrive", { orderId: oid("o-1") }, BOB, { outOfOrder: true });
    expect(await redrive()).toMatchObject([{ outcome: "skipped", message: expect.stringContaining("once it is archived") as string }]);
    await recover(scene);
    scene.onHandle = () => undefined;
    expect(await redrive()).toMatchObject([{ outcome: "recorded" }]);
    await scene.until(workerOf(scene).handle("o-1"));
    expect(scene.log).toEqual(["audit E1", "audit E2", "audit E1"]);
  });

  test("its entry is gone by the time it is archived: it is archived as dead all the same", async () => {
    const scene = await skipping("archive", fate);
    await scene.storage.blobs.delete("dead", [scene.storage.blobEntries("dead")[0]![0]]);
    await recover(scene);
    expect(archived(scene).map(({ outcome }) => outcome)).toEqual(["dead-lettered", "handled"]);
  });
});

describe.each(["dies", "is down"] as const)("its worker or the index %s before its entry is there", (fate) => {
  test("the next round goes on with it, and does not run it again", async () => {
    const scene = await skipping("dead", fate);
    expect(pendingStates(scene)).toMatchObject([{ ending: "dead-lettered" }, {}]);
    expect(scene.progress().streams["audit"]).toMatchObject({ sequence: 0 });
    for (const action of ["redrive", "discard"] as const) expect(await decideAbout(scene, action)).toMatchObject([{ outcome: "skipped" }]);
    await recover(scene);
    expect(scene.log).toEqual(["audit E1", "audit E2"]);
    expect(deadLetters(scene)).toMatchObject([
      { sequence: 1, policy: "skip", type: "step", reason: expect.stringContaining("refused") as string },
    ]);
    expect(archived(scene).map(({ outcome }) => outcome)).toEqual(["dead-lettered", "handled"]);
    expect(await findings(scene)).toEqual([]);
  });
});

test("an entry that is written late, when the next round has written it too: one entry, of an event that never ran again", async () => {
  const scene = new Scene();
  scene.onHandle = () => {
    throw new PermanentError("refused");
  };
  await scene.commit("o-1", [1]);
  let lands: (() => Promise<unknown>) | undefined;
  const { blobs } = scene.storage;
  const storage = {
    ...scene.storage,
    blobs: {
      ...blobs,
      create: async (...call: Parameters<typeof blobs.create>) => {
        if (call[0] !== "dead" || lands !== undefined) return blobs.create(...call);
        lands = () => blobs.create(...call);
        throw new OutboxError("timeout", "no answer");
      },
    },
  };
  await scene.until(scene.worker([scene.subscription("audit", { retry: { shortStarts: 1, onDead: "skip" } })], { storage }).handle("o-1"));
  scene.onHandle = () => undefined;
  await recover(scene);
  await expect(lands!()).rejects.toMatchObject({ code: "already-exists" });
  expect(scene.log).toEqual(["audit E1"]);
  expect(deadLetters(scene)).toHaveLength(1);
  expect(archived(scene)).toMatchObject([{ outcome: "dead-lettered" }]);
  expect(await findings(scene)).toEqual([]);
});

test.each(["its deployment", "an operator"])(
  "F10: a skipped head whose subscription is gone comes to its end by itself; what is behind it waits for %s",
  async (who) => {
    const scene = await skippingMail();
    const gone = scene.worker([scene.subscription("audit")]);
    await createSweeper({ storage: scene.storage, clock: scene.clock, subscriptions: ["audit"] }).sweep();
    await live(scene, gone, 60_000);
    expect(archived(scene, "mail")).toMatchObject([{ sequence: "1", outcome: "dead-lettered" }]);
    expect(deadLetters(scene, "mail")).toMatchObject([{ sequence: 1, policy: "skip" }]);
    if (who === "an operator") {
      const { results } = await discardPending(contextOf(scene), { subscription: "mail" }, BOB);
      expect(results).toMatchObject([{ outcome: "recorded" }]);
      await live(scene, gone, 60_000);
    } else {
      await createSweeper({ storage: scene.storage, clock: scene.clock }).sweep();
      await live(scene, scene.worker([scene.subscription("audit"), scene.subscription("mail")]), 60_000);
    }
    expect(scene.ids("events", "mail")).toEqual([]);
    expect(archived(scene, "mail").map(({ outcome }) => outcome)).toEqual([
      "dead-lettered",
      who === "an operator" ? "discarded" : "handled",
    ]);
    expect(await findings(scene)).toEqual([]);
  },
);

/** The process of mail dies when E1 is on record as skipped, and nothing else of that is. */
async function skippingMail(): Promise<Scene> {
  const scene = new Scene();
  refusing(scene, "mail E1");
  await scene.commit("o-1", [1, 2]);
  const mail = scene.subscription("mail", { retry: { shortStarts: 1, onDead: "skip" } });
  await dieAt(scene, scene.worker([scene.subscription("audit"), mail]), creates("dead"));
  expect(pendingStates(scene, "mail")).toMatchObject([{ ending: "dead-lettered" }, {}]);
  return scene;
}
