/** W3, F4, F10: a relay that ended in the middle, and a deployment that has changed before the next one. */
import { expect, test } from "vitest";
import { CONTROL_CACHE_MS } from "../../src/core/controls.ts";
import { OutboxError } from "../../src/core/errors.ts";
import type { Storage } from "../../src/core/ports.ts";
import { discardPending } from "../../src/operations/decide-many.ts";
import { pause, resume } from "../../src/operations/pauses.ts";
import type { Worker } from "../../src/worker/round-result.ts";
import { ANN, archived, contextOf, findings, live, pendingStates } from "./operator-support.ts";
import { key, Scene } from "./round-support.ts";

/** The first event blob of `side` is refused once; those beside it land. */
function refuseFirst({ storage }: Scene): Storage {
  let refused = false;
  const blobs = new Proxy(storage.blobs, {
    get(target, method, receiver) {
      const real = Reflect.get(target, method, receiver) as (...args: unknown[]) => unknown;
      return (...args: unknown[]) => {
        if (method === "create" && args[0] === "events" && String(args[1]).startsWith("side/") && !refused) {
          refused = true;
          return Promise.reject(new OutboxError("unavailable", "503"));
        }
        return real.apply(target, args);
      };
    },
  });
  return { orders: storage.orders, wakeUps: storage.wakeUps, leases: storage.leases, blobs };
}

async function interrupted(numbers: readonly number[]): Promise<Scene> {
  const scene = new Scene();
  await scene.commit("o-1", numbers);
  const both = scene.worker([scene.subscription("mail"), scene.subscription("side")], { storage: refuseFirst(scene) });
  await expect(scene.until(both.handle("o-1"))).rejects.toThrow("503");
  expect(pendingStates(scene, "side").map(({ sequence, previous }) => [sequence, previous])).toEqual(
    numbers.slice(1).map((n) => [n, n - 1]),
  );
  await scene.clock.advance(40_000);
  return scene;
}

function ran(scene: Scene, name: string): string[] {
  return scene.log.filter((entry) => entry.startsWith(`${name} `));
}

test("F10: the subscription is gone by the next relay, and deployed again: what landed runs in order", async () => {
  const scene = await interrupted([1, 2, 3]);
  const mail = scene.subscription("mail");
  await live(scene, scene.worker([mail]), 5_000);
  expect(scene.outboxRows()).toEqual([]);
  expect(pendingStates(scene, "side").map(({ sequence, previous }) => [sequence, previous])).toEqual([
    [2, 0],
    [3, 2],
  ]);
  const both = scene.worker([mail, scene.subscription("side")]);
  await scene.until(both.handle("o-1"));
  await scene.commit("o-1", [4]);
  await live(scene, both, 5_000);
  expect(ran(scene, "mail")).toEqual(["mail E1", "mail E2", "mail E3", "mail E4"]);
  expect(ran(scene, "side")).toEqual(["side E2", "side E3", "side E4"]);
});

test("F10: what landed is discarded while the subscription is gone", async () => {
  const scene = await interrupted([1, 2, 3]);
  const without = scene.worker([scene.subscription("mail")]);
  await live(scene, without, 5_000);
  const { results } = await discardPending(contextOf(scene), { subscription: "side" }, ANN);
  expect(results.map(({ outcome }) => outcome)).toEqual(["recorded", "recorded"]);
  await live(scene, without, 5_000);
  expect(pendingStates(scene, "side")).toEqual([]);
  expect(archived(scene, "side").map(({ outcome }) => outcome)).toEqual(["discarded", "discarded"]);
  expect(scene.log).toEqual(["mail E1", "mail E2", "mail E3"]);
});

test("the filter is narrower by the next relay: what landed runs, and what comes after it", async () => {
  const scene = await interrupted([1, 2]);
  const narrow = scene.worker([scene.subscription("mail"), scene.subscription("side", { events: ["other"] })]);
  await live(scene, narrow, 5_000);
  await scene.commit("o-1", [3], "other");
  await live(scene, narrow, 30_000);
  expect(ran(scene, "mail")).toEqual(["mail E1", "mail E2", "mail E3"]);
  expect(ran(scene, "side")).toEqual(["side E2", "side E3"]);
  expect(await findings(scene)).toEqual([]);
});

test("nothing has changed by the next relay: no event is skipped", async () => {
  const scene = await interrupted([1, 2, 3]);
  await live(scene, scene.worker([scene.subscription("mail"), scene.subscription("side")]), 5_000);
  expect(ran(scene, "side")).toEqual(["side E1", "side E2", "side E3"]);
  expect(await findings(scene)).toEqual([]);
});

test("the filter leaves out only what never landed: the place of the others is written down before the entities go", async () => {
  const scene = await interrupted([1, 2, 3]);
  let places: (readonly number[])[] = [];
  scene.storage.onCall = ({ method }) => {
    if (method === "deleteOutbox") places = pendingStates(scene, "side").map(({ sequence, previous }) => [sequence, previous]);
  };
  const side = scene.subscription("side", { when: ({ sequence }) => sequence > 1 });
  await live(scene, scene.worker([scene.subscription("mail"), side]), 5_000);
  expect(ran(scene, "side")).toEqual(["side E2", "side E3"]);
  expect(places).toEqual([
    [2, 0],
    [3, 2],
  ]);
});

/** E1 of `side` is relayed and waits, as `side` is paused. Its blob is lost. */
async function lost(numbers: readonly number[]): Promise<Scene> {
  const scene = new Scene();
  await pause(contextOf(scene), { subscription: "side" }, ANN, { force: true });
  await scene.commit("o-1", numbers);
  await live(scene, scene.worker([scene.subscription("mail"), scene.subscription("side")]), 1_000);
  await scene.storage.blobs.delete("events", [`side/${key("o-1")}/${scene.ids("events", "side")[0]}.json`]);
  await resume(contextOf(scene), { subscription: "side" }, ANN);
  await scene.clock.advance(CONTROL_CACHE_MS);
  return scene;
}

test("W3: an event that was lost stays missing, whatever is mended behind it", async () => {
  const scene = await lost([1]);
  await scene.commit("o-1", [2, 3]);
  const mail = scene.subscription("mail");
  const both = scene.worker([mail, scene.subscription("side")], { storage: refuseFirst(scene) });
  await expect(scene.until(both.handle("o-1"))).rejects.toThrow("503");
  await scene.clock.advance(40_000);
  const narrow = scene.worker([mail, scene.subscription("side", { events: ["other"] })]);
  expect((await scene.until(narrow.handle("o-1"))).problems.join()).toContain("event 1 of side is missing");
  expect(ran(scene, "side")).toEqual([]);
  expect(pendingStates(scene, "side").map(({ sequence, previous }) => [sequence, previous])).toEqual([[3, 1]]);
});

test.each([
  ["deployed", true],
  ["gone", false],
])("F4: what is behind a missing event can be discarded, its subscription is %s", async (_name, isDeployed) => {
  const scene = await lost([1, 2, 3]);
  const mail = scene.subscription("mail");
  const worker = scene.worker(isDeployed ? [mail, scene.subscription("side")] : [mail]);
  await live(scene, worker, 2_000);
  expect(pendingStates(scene, "side").map(({ sequence }) => sequence)).toEqual([2, 3]);
  await discardPending(contextOf(scene), { subscription: "side" }, ANN);
  await live(scene, worker, 5_000);
  expect(pendingStates(scene, "side")).toEqual([]);
  expect(archived(scene, "side").map(({ outcome }) => outcome)).toEqual(["discarded", "discarded"]);
  expect(ran(scene, "side")).toEqual([]);
});

test("W3: an event that was lost long ago stays missing when others of its order are relayed", async () => {
  const scene = await lost([1, 2]);
  await scene.commit("o-1", [3]);
  const both = scene.worker([scene.subscription("mail"), scene.subscription("side")]);
  expect((await scene.until(both.handle("o-1"))).problems.join()).toContain("event 1 of side is missing");
  expect(ran(scene, "mail")).toEqual(["mail E1", "mail E2", "mail E3"]);
  expect(ran(scene, "side")).toEqual([]);
});

test("W3: and when the event behind it is relayed once more", async () => {
  const scene = await lost([1]);
  await scene.commit("o-1", [2]);
  await scene.commit("o-1", [3], "other");
  const steps = (): Worker =>
    scene.worker([scene.subscription("mail", { events: ["step"] }), scene.subscription("side", { events: ["step"] })]);
  // All is on record, as nobody wants the last one, and the entities stay.
  scene.storage.onCall = ({ method }) => {
    if (method === "deleteOutbox") throw new OutboxError("unavailable", "503");
  };
  await expect(scene.until(steps().handle("o-1"))).rejects.toThrow("503");
  scene.storage.onCall = undefined;
  await scene.clock.advance(40_000);
  expect((await scene.until(steps().handle("o-1"))).problems.join()).toContain("event 1 of side is missing");
  expect(ran(scene, "mail")).toEqual(["mail E1", "mail E2"]);
  expect(ran(scene, "side")).toEqual([]);
});
