/** Events that their stream has passed and that wait to be archived, for a second or until somebody takes the order of a dead worker: finished. */
import { describe, expect, test } from "vitest";
import type { EventId } from "../../src/core/event-id.ts";
import { encodeProgress, NO_PROGRESS } from "../../src/core/progress.ts";
import { PermanentError } from "../../src/core/retry.ts";
import { decide, type DecisionAction, type DecisionResult } from "../../src/operations/decide.ts";
import { replay } from "../../src/operations/replay.ts";
import { showOrder } from "../../src/operations/show-order.ts";
import { settle } from "../support/manual-clock.ts";
import { archived, BOB, contextOf, deadLetters, findings, oid } from "../worker/operator-support.ts";
import { mortal, Scene } from "../worker/round-support.ts";
import { archivedEvents, KIM } from "./replay-support.ts";

/** Three events: the first two are handled and wait for their bundle, the third one's handler runs. `die` ends the worker. */
async function waiting(): Promise<{ readonly scene: Scene; readonly die: () => Promise<void> }> {
  const scene = new Scene();
  const gate = Promise.withResolvers<never>();
  let dead = false;
  scene.storage.onCall = () => (dead ? gate.promise : undefined);
  scene.onHandle = (_entry, { n }) => (n === 3 ? scene.clock.sleep(20_000) : undefined);
  await scene.commit("o-1", [1, 2, 3]);
  void scene.worker().handle("o-1");
  await settle();
  expect([scene.progress().streams["audit"]?.sequence, scene.ids("archive")]).toEqual([2, []]);
  return {
    scene,
    async die() {
      // Whatever it sends in the next minutes does not arrive.
      dead = true;
      await scene.clock.advance(140_000);
      scene.storage.onCall = undefined;
    },
  };
}

function decideAbout(scene: Scene, index: number, action: DecisionAction = "discard"): Promise<DecisionResult> {
  const target = { subscription: "audit", orderId: oid("o-1"), id: scene.ids("events")[index] as EventId };
  return decide(contextOf(scene), target, action, BOB, { anyPlace: true });
}

async function outcomes(scene: Scene): Promise<(string | undefined)[]> {
  scene.onHandle = () => undefined;
  await scene.until(scene.worker().handle("o-1"));
  expect(await findings(scene)).toEqual([]);
  return archived(scene).map(({ outcome }) => outcome);
}

describe("G6: a discard", () => {
  test("is answered `finished`, and changes nothing", async () => {
    const { scene } = await waiting();
    const before = scene.storage.blobEntries("events");
    expect(await decideAbout(scene, 1)).toMatchObject({ outcome: "finished", message: expect.stringContaining("about to be archived") });
    expect(scene.storage.blobEntries("events")).toEqual(before);
    expect(await decideAbout(scene, 2)).toMatchObject({ outcome: "recorded" });
  });

  test("that is recorded while the progress passes its event is `finished` too, and the archive has it as handled, whoever writes it", async () => {
    const { scene, die } = await waiting();
    // The operator's first look at the progress is older than the worker's last write.
    const { leases } = scene.storage;
    let looks = 0;
    const late = {
      ...leases,
      read: async (order: Parameters<typeof leases.read>[0]) => {
        const blob = await leases.read(order);
        return looks++ === 0 ? { ...blob!, metadata: encodeProgress(NO_PROGRESS, "") } : blob;
      },
    };
    const target = { subscription: "audit", orderId: oid("o-1"), id: scene.ids("events")[0] as EventId };
    const context = { ...contextOf(scene), storage: { ...scene.storage, leases: late } };
    expect(await decide(context, target, "discard", BOB, { anyPlace: true })).toMatchObject({ outcome: "finished" });
    expect(scene.storage.blobEntries("events")[0]![1].metadata["decidedby"]).toBe("bob");
    await die();
    expect(await outcomes(scene)).toEqual(["handled", "handled", "handled"]);
    expect(scene.log).toEqual(["audit E1", "audit E2", "audit E3", "audit E3"]);
    expect(archived(scene)[0]).not.toHaveProperty("decidedby");
  });

  test.each([
    ["its subscription's own", "audit"],
    ["one that does not know its subscription", "mail"],
  ])("that was carried out stays on record as such, at whatever call its worker died: %s", async (_name, deployed) => {
    for (let at = 1, lived = false; !lived; at++) {
      const scene = new Scene();
      scene.onHandle = () => {
        throw new PermanentError("refused");
      };
      await scene.commit("o-1", [1, 2]);
      await scene.until(scene.worker().handle("o-1"));
      expect(await decideAbout(scene, 0)).toMatchObject({ outcome: "recorded" });
      scene.onHandle = () => undefined;
      const { storage, calls } = mortal(scene.storage, at, "dies-after", new Error("dead"));
      void scene.worker([scene.subscription(deployed)], { storage }).handle("o-1");
      await settle();
      await scene.clock.advance(140_000);
      lived = calls() < at;
      expect(await outcomes(scene), `call ${at}`).toEqual(["discarded", "handled"]);
      expect([archived(scene)[0]?.["decidedby"], deadLetters(scene)]).toEqual(["bob", []]);
      expect(scene.log.filter((entry) => entry === "audit E1")).toHaveLength(1);
    }
  });

  test("that is carried out before the operator looks again is `recorded`", async () => {
    const scene = new Scene();
    scene.onHandle = () => {
      throw new PermanentError("refused");
    };
    await scene.commit("o-1", [1]);
    await scene.until(scene.worker().handle("o-1"));
    scene.storage.onCall = ({ port, method, args }) => {
      if (port !== "blobs" || method !== "writeMetadata" || args[0] !== "events") return;
      scene.storage.onCall = undefined;
      return { after: async () => void (await scene.worker().handle("o-1")) };
    };
    expect(await decideAbout(scene, 0)).toMatchObject({ outcome: "recorded" });
    expect(archived(scene)).toMatchObject([{ outcome: "discarded", decidedby: "bob" }]);
  });
});

describe("show", () => {
  test("has them as sent, with type and attempts, also for as long as nobody takes the order of a dead worker", async () => {
    const { scene, die } = await waiting();
    const shown = async (): Promise<unknown[]> =>
      (await showOrder(scene, oid("o-1"))).timeline.map(({ sequence, state, attempts, type }) => [sequence, state, attempts, type]);
    const sent = [1, 2].map((n) => [n, "Sent", 1, "step"]);
    expect(await shown()).toEqual([...sent, [3, "InFlight", 0, "step"]]);
    await die();
    expect(await shown()).toEqual([...sent, [3, "Pending", 0, "step"]]);
  });

  test("has a dead letter as dead, whose stream has skipped it", async () => {
    const scene = await skipped();
    const { timeline } = await showOrder(scene, oid("o-1"));
    expect(timeline.map(({ sequence, state, lastError }) => [sequence, state, lastError])).toEqual([
      [1, "Dead", expect.stringContaining("refused")],
      [2, "InFlight", undefined],
    ]);
  });
});

describe("F9: replay", () => {
  const run = (scene: Scene): ReturnType<typeof replay> =>
    replay(scene, { orderId: oid("o-1"), subscription: "audit", from: 1, to: 2 }, KIM);

  test("has them run again, each once", async () => {
    const { scene, die } = await waiting();
    expect(await run(scene)).toMatchObject({ outcome: "done", events: 2, skipped: {} });
    await die();
    scene.onHandle = () => undefined;
    await scene.until(scene.worker().handle("o-1"));
    const all = archivedEvents(scene, "audit");
    expect(all.map(({ replayOf }) => all.findIndex(({ id }) => id === replayOf))).toEqual([-1, -1, -1, 0, 1]);
  });

  test("leaves a dead letter out, whose stream has skipped it", async () => {
    const scene = await skipped();
    expect(await run(scene)).toMatchObject({ events: 0, skipped: { "dead-lettered": 1, unfinished: 1 } });
  });
});

/** Of two events, the first one is dead and skipped, and its way to the archive takes long; the second one's handler runs. */
async function skipped(): Promise<Scene> {
  const scene = new Scene();
  scene.storage.onCall = ({ method, args }) => (method === "create" && args[0] === "archive" ? scene.clock.sleep(9_000) : undefined);
  scene.onHandle = (_entry, { n }) => {
    if (n === 1) throw new PermanentError("refused");
    return scene.clock.sleep(20_000);
  };
  await scene.commit("o-1", [1, 2]);
  void scene.worker([scene.subscription("audit", { retry: { shortStarts: 1, onDead: "skip" } })]).handle("o-1");
  await settle();
  expect([scene.progress().streams["audit"]?.sequence, scene.ids("archive")]).toEqual([1, []]);
  return scene;
}
