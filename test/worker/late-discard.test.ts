/** F4: a decision that is recorded while the event waits in the memory of the round that relayed it. */
import { expect, test } from "vitest";
import { discardPending } from "../../src/operations/decide-many.ts";
import { pause } from "../../src/operations/pauses.ts";
import { settle } from "../support/manual-clock.ts";
import { ANN, archived, contextOf, findings } from "./operator-support.ts";
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
