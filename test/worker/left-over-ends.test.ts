/** G6: what is archived of an event that a dead holder left over is what became of it: handled if it ran, and only then. */
import { expect, test } from "vitest";
import { OutboxError } from "../../src/core/errors.ts";
import type { Storage } from "../../src/core/ports.ts";
import { decideOrder } from "../../src/operations/decide-many.ts";
import { createSweeper } from "../../src/operations/sweep.ts";
import type { Worker } from "../../src/worker/round-result.ts";
import { settle } from "../support/manual-clock.ts";
import { creates, dieAt } from "./crash-support.ts";
import { archived, BOB, contextOf, findings, headId, live, oid, pendingStates } from "./operator-support.ts";
import { key, passing, Scene } from "./round-support.ts";

type Land = () => Promise<unknown>;

function both(scene: Scene, storage: Storage = scene.storage): Worker {
  return scene.worker([scene.subscription("audit"), scene.subscription("mail")], { storage });
}

function ends(scene: Scene, subscription: string): (readonly (string | undefined)[])[] {
  return archived(scene, subscription).map(({ sequence, outcome }) => [sequence, outcome]);
}

/** E1 is handled; of `numbers` the relay of mail gets no answer and dies, and a deployment without mail goes on. They land when they are told to. */
async function lateMail(numbers: readonly number[]): Promise<{ readonly scene: Scene; readonly lands: readonly Land[] }> {
  const scene = new Scene();
  await scene.commit("o-1", [1]);
  await scene.until(both(scene).handle("o-1"));
  await scene.commit("o-1", numbers);
  const lands: Land[] = [];
  const { blobs } = scene.storage;
  const create: typeof blobs.create = async (...call) => {
    if (call[0] !== "events" || !call[1].startsWith("mail/")) return blobs.create(...call);
    lands.push(() => blobs.create(...call));
    throw new OutboxError("timeout", "no answer");
  };
  await expect(scene.until(both(scene, { ...scene.storage, blobs: { ...blobs, create } }).handle("o-1"))).rejects.toThrow("no answer");
  expect(lands).toHaveLength(numbers.length);
  await scene.clock.advance(31_000);
  await scene.until(scene.worker([scene.subscription("audit")]).handle("o-1"));
  return { scene, lands };
}

function archiveIsDown(scene: Scene, prefix = ""): void {
  scene.storage.onCall = (call) => {
    if (creates("archive")(call) && String(call.args[1]).startsWith(prefix)) throw new OutboxError("unavailable", "busy");
  };
}

/** Any holder that dies: the next one lists. */
async function abandon(scene: Scene): Promise<void> {
  const { etag } = scene.storage.leaseOf(key("o-1"))!;
  await scene.storage.leases.acquire(key("o-1"), { id: "dead", durationMs: 15_000, etag });
  await scene.clock.advance(31_000);
}

test("the filter was narrower when what comes behind it was relayed: its place is written down, so what ran is handled", async () => {
  const scene = new Scene();
  await scene.commit("o-1", [1]);
  await scene.commit("o-1", [2], "other");
  await dieAt(scene, scene.worker([scene.subscription("audit", { events: ["other"] })]), ({ method }) => method === "deleteOutbox");
  expect(pendingStates(scene)).toMatchObject([{ sequence: 2, previous: 0 }]);
  // The next deployment wants both, and dies in E2 before E1, its own first start, is archived.
  scene.onHandle = (entry) => (entry === "audit E2" ? new Promise<void>(() => undefined) : undefined);
  let dead = false;
  const storage = passing(scene.storage, (real) => (dead ? new Promise(() => undefined) : real()));
  scene
    .worker(undefined, { storage })
    .handle("o-1")
    .catch(() => undefined);
  await settle();
  dead = true;
  expect(scene.log).toEqual(["audit E1", "audit E2"]);
  expect(pendingStates(scene)).toMatchObject([
    { sequence: 1, attempts: 0 },
    { sequence: 2, previous: 1 },
  ]);
  scene.storage.breakLease(key("o-1"));
  await scene.clock.advance(31_000);
  scene.onHandle = () => undefined;
  await live(scene, scene.worker(), 60_000);
  expect(ends(scene, "audit")).toEqual([
    ["1", "handled"],
    ["2", "handled"],
  ]);
});

test("event 3 lands late, and what its stream has passed it with is archived: it did not run, and is archived as unwanted", async () => {
  const { scene, lands } = await lateMail([2, 3]);
  await scene.commit("o-1", [4]);
  await scene.until(both(scene).handle("o-1"));
  await lands[1]!();
  await createSweeper({ storage: scene.storage, clock: scene.clock }).sweep();
  await live(scene, both(scene), 40_000);
  expect(scene.log.filter((entry) => entry.startsWith("mail"))).toEqual(["mail E1", "mail E4"]);
  expect(ends(scene, "mail")).toEqual([
    ["1", "handled"],
    ["3", "unwanted"],
    ["4", "handled"],
  ]);
  expect(scene.ids("events", "mail")).toEqual([]);
  expect(await findings(scene)).toEqual([]);
});

test("event 3 lands late, and what its stream has passed it with is left over too: the same", async () => {
  const { scene, lands } = await lateMail([2, 3]);
  await scene.commit("o-1", [4]);
  archiveIsDown(scene, "mail/");
  await scene.until(both(scene).handle("o-1"));
  scene.storage.onCall = undefined;
  await lands[1]!();
  await scene.clock.advance(31_000);
  await scene.until(both(scene).handle("o-1"));
  expect(ends(scene, "mail")).toEqual([
    ["1", "handled"],
    ["3", "unwanted"],
    ["4", "handled"],
  ]);
  expect(await findings(scene)).toEqual([]);
});

test("event 3 lands late, and its stream comes to it: event 2, which is missing before it, is an alarm, and a discard lets the stream go on", async () => {
  const { scene, lands } = await lateMail([2, 3]);
  await lands[1]!();
  await abandon(scene);
  await scene.commit("o-1", [4]);
  expect(await scene.until(both(scene).handle("o-1"))).toMatchObject({
    problems: [expect.stringContaining("event 2 of mail is missing") as string],
  });
  expect(scene.log.filter((entry) => entry.startsWith("mail"))).toEqual(["mail E1"]);
  await decideOrder(contextOf(scene), "discard", { orderId: oid("o-1"), subscription: "mail", id: headId(scene, "mail") }, BOB);
  await live(scene, both(scene), 60_000);
  expect(scene.log.filter((entry) => entry.startsWith("mail"))).toEqual(["mail E1", "mail E4"]);
  expect(archived(scene, "mail").map(({ outcome }) => outcome)).toEqual(["handled", "discarded", "handled"]);
});

test("two that land late, one naming the other: neither ran", async () => {
  const { scene, lands } = await lateMail([2, 3]);
  await scene.commit("o-1", [4]);
  await scene.until(both(scene).handle("o-1"));
  for (const land of lands) await land();
  await createSweeper({ storage: scene.storage, clock: scene.clock }).sweep();
  await live(scene, both(scene), 40_000);
  expect(scene.log.filter((entry) => entry.startsWith("mail"))).toEqual(["mail E1", "mail E4"]);
  expect(ends(scene, "mail")).toEqual([
    ["1", "handled"],
    ["2", "unwanted"],
    ["3", "unwanted"],
    ["4", "handled"],
  ]);
  expect(await findings(scene)).toEqual([]);
});

test("one that lands late and runs after all, as its stream has not passed it: handled, though what is behind it does not name it", async () => {
  const { scene, lands } = await lateMail([2]);
  await scene.commit("o-1", [3]);
  scene.onHandle = (entry) => {
    if (entry === "mail E3") throw new Error("carrier is down");
  };
  await scene.until(both(scene).handle("o-1"));
  for (const land of lands) await land();
  await scene.clock.advance(11_000);
  archiveIsDown(scene);
  await scene.until(both(scene).handle("o-1"));
  scene.storage.onCall = undefined;
  scene.onHandle = () => undefined;
  await live(scene, both(scene), 120_000);
  expect(scene.log).toContain("mail E2");
  expect(ends(scene, "mail")).toEqual([
    ["1", "handled"],
    ["2", "handled"],
    ["3", "handled"],
  ]);
});

test("one that its predicate, asked again, does not want, and whose archive write fails: unwanted", async () => {
  const scene = new Scene();
  await scene.commit("o-1", [1, 2]);
  let asked = 0;
  const audit = scene.subscription("audit", {
    when: ({ sequence }) => {
      if (sequence !== 1) return true;
      asked += 1;
      if (asked === 1) throw new Error("not now");
      return false;
    },
  });
  archiveIsDown(scene);
  await scene.until(scene.worker([audit]).handle("o-1"));
  scene.storage.onCall = undefined;
  await live(scene, scene.worker([audit]), 120_000);
  expect(scene.log).toEqual(["audit E2"]);
  expect(ends(scene, "audit")).toEqual([
    ["1", "unwanted"],
    ["2", "handled"],
  ]);
});

test("one whose process dies when its end as unwanted is written, but not passed: the next round goes on with that", async () => {
  const scene = new Scene();
  await scene.commit("o-1", [1]);
  let asked = 0;
  const audit = scene.subscription("audit", {
    when: () => {
      asked += 1;
      if (asked === 1) throw new Error("not now");
      return false;
    },
  });
  await dieAt(scene, scene.worker([audit]), ({ port, method }) => port === "leases" && method === "writeMetadata" && asked === 2);
  expect(pendingStates(scene)).toMatchObject([{ ending: "unwanted" }]);
  await live(scene, scene.worker([audit]), 60_000);
  expect([asked, scene.log]).toEqual([2, []]);
  expect(ends(scene, "audit")).toEqual([["1", "unwanted"]]);
});

test.each([true, false])("event 3 is discarded while event 2 before it is missing; that it lands late is %s", async (landsLate) => {
  const { scene, lands } = await lateMail([2, 3]);
  await lands[1]!();
  await abandon(scene);
  await scene.commit("o-1", [4]);
  await scene.until(both(scene).handle("o-1"));
  await decideOrder(contextOf(scene), "discard", { orderId: oid("o-1"), subscription: "mail", id: headId(scene, "mail") }, BOB);
  await live(scene, both(scene), 60_000);
  if (landsLate) await lands[0]!();
  await createSweeper({ storage: scene.storage, clock: scene.clock }).sweep();
  await live(scene, both(scene), 120_000);
  expect(scene.log.filter((entry) => entry.startsWith("mail"))).toEqual(["mail E1", "mail E4"]);
  expect(ends(scene, "mail")).toEqual([["1", "handled"], ...(landsLate ? [["2", "unwanted"]] : []), ["3", "discarded"], ["4", "handled"]]);
  expect(await findings(scene)).toEqual(landsLate ? [] : ["gap: event 2 was missing when event 3 was discarded"]);
});
