import { createSweeper, type Sweeper, type SweeperOptions } from "../../src/operations/sweep.ts";
import { ManualClock } from "../support/manual-clock.ts";
import { createMemoryStorage, type MemoryStorage } from "../support/memory-storage.ts";

export interface SweepScene {
  readonly clock: ManualClock;
  readonly storage: MemoryStorage;
  readonly sweeper: Sweeper;
}

/** A sweeper over an empty account. */
export function sweepScene(options: Partial<SweeperOptions> = {}): SweepScene {
  const clock = new ManualClock();
  const storage = createMemoryStorage(clock);
  return { clock, storage, sweeper: createSweeper({ storage, clock, ...options }) };
}
