/** `--kill`: workers die as in an outage of their machines, without a chance to say good-bye. */
import { setTimeout as delay } from "node:timers/promises";
import { randomInteger, type Random } from "./seeded-random.ts";
import type { WorkerPool } from "./worker-pool.ts";

const MIN_PAUSE_MS = 400;
const MAX_PAUSE_MS = 1_200;

/** Kills and restarts a worker chosen at random about every second, until the signal aborts. The replacement runs when it resolves. */
export async function killAtRandom(workers: WorkerPool, random: Random, signal: AbortSignal): Promise<void> {
  for (;;) {
    try {
      await delay(randomInteger(random, MIN_PAUSE_MS, MAX_PAUSE_MS), undefined, { signal });
    } catch {
      return;
    }
    await workers.killAndRestart(randomInteger(random, 0, workers.size - 1));
  }
}
