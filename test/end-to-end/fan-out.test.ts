/** G2, G3, G4, C14 with real processes, real kills and Azurite, small enough for every day. The full size: fan-out.proof.ts. */
import { expect, inject, test } from "vitest";
import { runFanOut, type FanOutSize } from "./fan-out-scene.ts";

const SIZE: FanOutSize = { subscriptions: 4, orders: 6, events: 5, processes: 2, kills: 2, timeoutMs: 120_000 };

test(
  "4 subscriptions × 6 orders × 5 events, 2 processes, 2 kills: nothing missing, nothing out of order, nothing doubled but by a kill",
  { timeout: SIZE.timeoutMs },
  async () => {
    expect(await runFanOut(SIZE, 1, inject("azurite"))).toMatchObject({ kills: 2, doubled: 0, outOfOrder: 0, lost: 0 });
  },
);
