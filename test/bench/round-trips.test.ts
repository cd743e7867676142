import { expect, test } from "vitest";
import { countRoundTrips } from "./round-trips.ts";

test("§8: a commit takes three round trips, a handler starts five after its wake-up was there, a hot order pays one an event", async () => {
  // Receive; lease blob; acquire, and order and outbox beside it; event blob; delete of the entity.
  expect(await countRoundTrips()).toEqual({ commit: 3, wakeUpToHandler: 5, betweenEvents: 1 });
});
