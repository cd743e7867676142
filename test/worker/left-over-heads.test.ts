/** W2: a finished event whose blob a worker could not delete is neither blocked nor the head of its stream. */
import { expect, test } from "vitest";
import { OutboxError } from "../../src/core/errors.ts";
import { PermanentError } from "../../src/core/retry.ts";
import { listOrders } from "../../src/operations/orders.ts";
import { readStatus } from "../../src/operations/status.ts";
import { createSweeper } from "../../src/operations/sweep.ts";
import { contextOf, decideAbout } from "./operator-support.ts";
import { Scene } from "./round-support.ts";

/** E1 is a dead letter that was discarded; its blob could not be deleted. */
async function leftOver(numbers: readonly number[]): Promise<Scene> {
  const scene = new Scene();
  await scene.commit("o-1", numbers);
  scene.onHandle = (entry) => {
    throw entry === "audit E1" ? new PermanentError("no such customer") : new Error("carrier is down");
  };
  await scene.until(scene.worker().handle("o-1"));
  expect((await readStatus(contextOf(scene))).subscriptions).toMatchObject([{ blocked: 1, parked: 0 }]);
  await decideAbout(scene, "discard");
  expect((await readStatus(contextOf(scene))).subscriptions).toMatchObject([{ blocked: 0, parked: 0 }]);
  scene.storage.onCall = ({ port, method, args }) => {
    if (port === "blobs" && method === "delete" && args[0] === "events") throw new OutboxError("unavailable", "503");
  };
  await scene.until(scene.worker().handle("o-1"));
  scene.storage.onCall = undefined;
  expect(scene.ids("archive")).toHaveLength(1);
  expect(scene.ids("events")).toHaveLength(numbers.length);
  return scene;
}

test("W2: alone, it waits for nobody", async () => {
  const scene = await leftOver([1]);
  expect((await readStatus(contextOf(scene))).subscriptions).toMatchObject([{ blocked: 0, parked: 0, dead: 0 }]);
  expect((await listOrders(contextOf(scene))).orders).toEqual([]);
  const { subscriptions } = await createSweeper({ storage: scene.storage, clock: scene.clock }).sweep();
  expect(subscriptions).toMatchObject([{ blocked: 0, parked: 0 }]);
});

test("W2: before others, the one behind it is the head of the stream, whatever its state", async () => {
  const scene = await leftOver([1, 2, 3]);
  const head = { sequence: 2, state: "parked" };
  expect((await listOrders(contextOf(scene))).orders).toMatchObject([{ backlog: 2, head }]);
  expect((await listOrders(contextOf(scene), { state: "parked" })).orders).toMatchObject([{ backlog: 2, head }]);
  expect((await listOrders(contextOf(scene), { state: "blocked" })).orders).toEqual([]);
});
