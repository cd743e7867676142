/** What is finished gets to the archive in its time, whatever else goes on (G6). */
import { expect, test } from "vitest";
import { settle } from "../support/manual-clock.ts";
import { findings } from "./operator-support.ts";
import { Scene } from "./round-support.ts";

test("W9: about a second after it is handled it is archived and no longer pending, however rarely the round looks for new commits", async () => {
  const scene = new Scene();
  scene.onHandle = (_entry, { n }) => (n === 3 ? scene.clock.sleep(40_000) : undefined);
  await scene.commit("o-1", [1, 2, 3]);
  const round = scene
    .worker([scene.subscription("audit"), scene.subscription("idle", { events: ["other"] })], { pollMs: 60_000 })
    .handle("o-1");
  await settle();
  scene.storage.forgetCalls();
  await scene.clock.advance(2_000);
  await settle();
  expect([scene.ids("archive").length, scene.ids("events").length]).toEqual([2, 1]);
  // No look for new commits before its time.
  expect(scene.storage.callCounts()["orders.readOutbox"]).toBeUndefined();
  scene.storage.forgetCalls();
  await scene.clock.advance(20_000);
  const { "leases.renew": renewals, ...others } = scene.storage.callCounts();
  expect([renewals !== undefined, others]).toEqual([true, {}]);
  await scene.until(round);
  expect(scene.ids("archive")).toHaveLength(3);
});

test("G6: deletes that are slow keep no batch from being archived: done and clean means that all is in the archive", async () => {
  const scene = new Scene();
  const names = Array.from({ length: 9 }, (_, index) => `s${index}`);
  scene.onHandle = (entry) => scene.clock.sleep(1_500 + 170 * Number(entry[1]));
  scene.storage.onCall = ({ port, method }) => (port === "blobs" && method === "delete" ? scene.clock.sleep(9_500) : undefined);
  await scene.commit("o-1", [1, 2, 3]);
  const round = scene
    .worker(
      names.map((name) => scene.subscription(name)),
      { pollMs: 100 },
    )
    .handle("o-1");
  expect(await scene.until(round)).toMatchObject({ status: "done", problems: [] });
  expect(names.map((name) => [scene.ids("archive", name).length, scene.ids("events", name).length])).toEqual(names.map(() => [3, 0]));
  expect(await findings(scene)).toEqual([]);
});
