/** A bundle whose write lands after the next holder has archived its events one by one: the enumeration has it, and the audit takes it. */
import { expect, test } from "vitest";
import { readArchive } from "../archive.ts";
import { runOne } from "./run-one.ts";
import { memoryWorlds, type World } from "./world.ts";

test("W11: events that are in a late bundle and alone have the same bytes in both", async () => {
  const worlds = memoryWorlds();
  const { trail } = await runOne(worlds, "full", []);
  const call = trail.findIndex((each) => /blobs create archive audit\/B\/.*\.ndjson$/.test(each)) + 1;
  expect(call).toBeGreaterThan(0);
  const made: World[] = [];
  const make = async (...args: Parameters<typeof worlds.make>): Promise<World> => {
    const world = await worlds.make(...args);
    made.push(world);
    return world;
  };
  const { violations } = await runOne({ ...worlds, make }, "full", [{ call, fault: "late" }]);
  expect(violations).toEqual([]);
  const { events } = readArchive(await made[0]!.archive());
  const copies = [...events.values()].filter((each) => each.length > 1);
  expect(copies.length).toBeGreaterThan(1);
  for (const [own, inBundle] of copies) expect(inBundle).toEqual({ ...own, blob: expect.stringMatching(/\.ndjson$/) as string });
});
