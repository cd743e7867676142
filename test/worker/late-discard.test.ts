/** F4: a decision that is recorded while the event waits in the memory of the round that relayed it. */
import { expect, test } from "vitest";
import { OutboxError } from "../../src/core/errors.ts";
import { discardPending } from "../../src/operations/decide-many.ts";
import { pause } from "../../src/operations/pauses.ts";
import { settle } from "../support/manual-clock.ts";
import { ANN, archived, contextOf, findings } from "./operator-support.ts";
import type { Worker } from "../../src/worker/round-result.ts";
import { Scene } from "./round-support.ts";

async function discarded({ handlerMs, poke }: { readonly handlerMs: number; readonly poke: boolean }): Promise<Scene> {
  const scene = new Scene();
  scene.onHandle = (entry) => (entry === "erp E1" ? scene.clock.sleep(handlerMs) : undefined);
  await scene.commit("o-1", [1, 2, 3]);
  const worker = scene.worker([scene.subscription("erp")]);
  const round = worker.handle("o-1");
  await settle();
  const { results } = await discardPending(contextOf(scene), { subscription: "erp" }, ANN);
  expect(results.map(({ outcome }) => outcome)).toEqual(["recorded", "recorded", "recorded"]);
  const joined = poke ? worker.handle("o-1") : undefined;
  await scene.until(round);
  if (joined !== undefined) await scene.until(joined);
  return scene;
}

test.each([
  ["its wake-up comes to this process, behind a short handler", { handlerMs: 1_000, poke: true }],
  ["its wake-up comes to another process, behind a long handler", { handlerMs: 20_000, poke: false }],
])("F4: %s: nothing that was discarded behind it runs", async (_name, how) => {
  const scene = await discarded(how);
  expect(scene.log).toEqual(["erp E1"]);
  expect(archived(scene, "erp").map(({ outcome }) => outcome)).toEqual(["handled", "discarded", "discarded"]);
  expect(await findings(scene)).toEqual([]);
});

test("F4: a pending head that stands, as its subscription is paused, is discarded while another stream's handler runs", async () => {
  const scene = new Scene();
  await pause(contextOf(scene), { subscription: "erp" }, ANN, { force: true });
  scene.onHandle = () => scene.clock.sleep(20_000);
  await scene.commit("o-1", [1]);
  const worker = scene.worker([scene.subscription("erp"), scene.subscription("mail")]);
  const round = worker.handle("o-1");
  await settle();
  await discardPending(contextOf(scene), { subscription: "erp" }, ANN);
  const joined = worker.handle("o-1");
  await scene.until(Promise.all([round, joined]));
  expect(scene.log).toEqual(["mail E1"]);
  expect(archived(scene, "erp").map(({ outcome }) => outcome)).toEqual(["discarded"]);
});

/** 90 events of 200 ms each: they wait for 18 s altogether. */
async function longBurst(meanwhile: (scene: Scene, worker: Worker) => Promise<void> = () => Promise.resolve()): Promise<Scene> {
  const scene = new Scene();
  scene.onHandle = () => scene.clock.sleep(200);
  await scene.commit("o-1", numbersTo(90));
  const worker = scene.worker([scene.subscription("erp")]);
  const round = worker.handle("o-1");
  await settle();
  scene.storage.forgetCalls();
  await meanwhile(scene, worker);
  await scene.until(round);
  return scene;
}

function numbersTo(last: number): number[] {
  return Array.from({ length: last }, (_, index) => index + 1);
}

test("§8: of a burst that waits for long, one listing in 5 s tells that nobody has decided; none is asked for alone until the last few", async () => {
  const scene = await longBurst();
  expect(scene.log).toEqual(numbersTo(90).map((n) => `erp E${n}`));
  const calls = scene.storage.calls.map(({ port, method, args }) => `${port}.${method} ${String(args[0])}`);
  expect(calls.filter((call) => call === "blobs.list events")).toHaveLength(2);
  expect(calls.filter((call) => call === "blobs.writeMetadata events").length).toBeLessThanOrEqual(12);
});

test("F4: what is discarded in the middle of a burst that waits for long does not run", async () => {
  const scene = await longBurst(async (running) => {
    await running.clock.advance(6_000);
    await discardPending(contextOf(running), { subscription: "erp" }, ANN);
  });
  const ran = scene.log.length;
  expect(scene.log).toEqual(numbersTo(ran).map((n) => `erp E${n}`));
  // At most what was known for 5 s when they were discarded.
  expect(ran).toBeLessThanOrEqual(30 + 26);
  expect(archived(scene, "erp").map(({ outcome }) => outcome)).toEqual(numbersTo(90).map((n) => (n <= ran ? "handled" : "discarded")));
  expect(await findings(scene)).toEqual([]);
});

test("F4: a look that fails keeps nothing from being asked for alone", async () => {
  const scene = await longBurst(async (running) => {
    running.storage.onCall = ({ port, method, args }) => {
      if (port === "blobs" && method === "list" && args[0] === "events") throw new OutboxError("unavailable", "busy");
    };
  });
  expect(scene.log).toEqual(numbersTo(90).map((n) => `erp E${n}`));
  scene.storage.onCall = undefined;
  expect(await findings(scene)).toEqual([]);
});

test("§8: wake-ups that keep coming don't make a listing each", async () => {
  const scene = await longBurst(async (running, worker) => {
    running.onHandle = async () => {
      await running.clock.sleep(200);
      await worker.handle("o-1");
    };
  });
  expect(scene.log).toEqual(numbersTo(90).map((n) => `erp E${n}`));
  expect(scene.storage.calls.filter(({ port, method }) => port === "blobs" && method === "list").length).toBeLessThanOrEqual(4);
});
