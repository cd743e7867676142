import { describe, expect, test } from "vitest";
import type { CommitOptions } from "../../src/producer/order-change.ts";
import { settle } from "../support/manual-clock.ts";
import { Scene, steps } from "./support.ts";

/** Runs a commit whose calls wait for each other's round trip: what is sent together travels together. */
async function roundTrips(scene: Scene, options: CommitOptions = {}): Promise<readonly (readonly string[])[]> {
  const trips: string[][] = [];
  let waiting: { readonly name: string; readonly go: () => void }[] = [];
  scene.storage.onCall = ({ port, method }) => new Promise((resolve) => waiting.push({ name: `${port}.${method}`, go: () => resolve() }));
  let open = true;
  const commit = scene
    .outbox()
    .commit("o-1", steps(1), options)
    .finally(() => (open = false));
  while (open) {
    await settle();
    const trip = waiting;
    waiting = [];
    if (trip.length > 0) trips.push(trip.map(({ name }) => name).toSorted());
    for (const { go } of trip) go();
    await settle();
  }
  await commit;
  scene.storage.onCall = undefined;
  return trips;
}

describe("what a commit costs (design §8)", () => {
  const expected = [["orders.readOrder", "wakeUps.send"], ["orders.commit"], ["wakeUps.hide"]];

  test("four calls in three round trips, for the first event of an order and for the next", async () => {
    const scene = new Scene();
    expect(await roundTrips(scene)).toEqual(expected);
    expect(await roundTrips(scene)).toEqual(expected);
  });

  test("four calls for any number of events", async () => {
    const scene = new Scene();
    await scene.outbox().commit("o-1", steps(...Array.from({ length: 99 }, (_, n) => n)));
    expect(scene.storage.callCounts()).toEqual({ "orders.readOrder": 1, "wakeUps.send": 1, "orders.commit": 1, "wakeUps.hide": 1 });
  });

  test("an idempotency key adds one read, and no round trip", async () => {
    expect(await roundTrips(new Scene(), { idempotencyKey: "key" })).toEqual([
      ["orders.readIdempotency", "orders.readOrder", "wakeUps.send"],
      ["orders.commit"],
      ["wakeUps.hide"],
    ]);
  });
});
