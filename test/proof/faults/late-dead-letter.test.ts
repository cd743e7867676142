/** What the enumeration found: each with the schedule that shows it. */
import { expect, test } from "vitest";
import { runOne } from "./run-one.ts";
import { memoryWorlds } from "./world.ts";

test("W11: a dead letter's entry in the index that lands after the event was redriven and handled does not stay", async () => {
  const { trail } = await runOne(memoryWorlds(), "full", []);
  const call = trail.findIndex((each) => each.includes("blobs create dead ")) + 1;
  expect(call).toBeGreaterThan(0);
  // The worker gives up after its deadline, writes the entry again, the operator redrives, the event is handled; then the first write lands.
  const { violations } = await runOne(memoryWorlds(), "full", [{ call, fault: "late" }]);
  expect(violations).toEqual([]);
});
