/** G2, G3, G4, C14 at the size that the product promises: real processes, real kills, an Azurite of its own. */
import { afterAll, beforeAll, expect, test } from "vitest";
import type { Azurite } from "../support/azurite.ts";
import { runFanOut, type FanOutSize } from "./fan-out-scene.ts";
import { Emulator } from "../emulator/emulator.ts";

const SIZE: FanOutSize = { subscriptions: 10, orders: 50, events: 20, processes: 3, kills: 8, timeoutMs: 1_200_000 };

let azurite: Azurite;

beforeAll(async () => {
  azurite = await Emulator.start();
});

afterAll(() => azurite.stop());

test.each([1, 2])(
  "seed %i: 10 subscriptions × 50 orders × 20 events, 3 processes, 8 kills: nothing missing, nothing out of order, nothing doubled but by a kill",
  { timeout: SIZE.timeoutMs },
  async (seed) => {
    const report = await runFanOut(SIZE, seed, azurite.connectionString);
    process.stdout.write(`fan-out: ${JSON.stringify(report)}\n`);
    expect(report).toMatchObject({ kills: 8, doubled: 0, outOfOrder: 0, lost: 0 });
  },
);
