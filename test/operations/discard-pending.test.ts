/** F10: all that a subscription left behind that is gone from the code is discarded with one command. */
import { expect, test } from "vitest";
import { parseOrderId } from "../../src/core/order-id.ts";
import { discardPending } from "../../src/operations/decide-many.ts";
import { verifyOrder } from "../../src/operations/verify.ts";
import { Scene } from "../worker/round-support.ts";

test("a worker that does not know the subscription carries it out", async () => {
  const scene = new Scene();
  const mail = scene.subscription("mail");
  scene.onHandle = (entry) => {
    if (entry === "erp E2") throw new Error("503");
  };
  await scene.commit("o-1", [1, 2, 3, 4]);
  await scene.worker([mail, scene.subscription("erp", { retry: { shortStarts: 1 } })]).handle("o-1");
  expect(scene.storage.blobEntries("events")).toHaveLength(3);

  const { results } = await discardPending(scene, { subscription: "erp" }, { actor: "kim", reason: "erp is gone" });
  expect(results.map(({ outcome }) => outcome)).toEqual(["recorded", "recorded", "recorded"]);
  await scene.worker([mail]).handle("o-1");
  expect(scene.storage.blobEntries("events")).toEqual([]);
  const outcomes = scene.storage
    .blobEntries("archive")
    .flatMap(([name, { metadata }]) => (name.startsWith("erp/") ? metadata["outcome"] : []));
  expect(outcomes).toEqual(["handled", "discarded", "discarded", "discarded"]);
  expect((await verifyOrder(scene, parseOrderId("o-1"))).findings).toEqual([]);
});
