/** Sweep, reconcile and cleanup at their intervals, inside a worker that runs for long. Any number of processes may do so. */
import type { Clock } from "../core/clock.ts";
import { describeError } from "../core/errors.ts";
import { silentLogger, type Logger } from "../core/logger.ts";
import { wholeNumber, type NumberBounds } from "../core/options.ts";
import { systemClock } from "../system/clock.ts";
import type { Cleaner } from "./cleanup.ts";
import type { Reconciler } from "./reconcile.ts";
import type { Sweeper } from "./sweep.ts";

export interface ScheduleOptions {
  readonly sweeper: Sweeper;
  readonly reconciler: Reconciler;
  readonly cleaner: Cleaner;
  /** At most this long between the beginnings of two sweeps. Default 60,000; 1,000 to 3,600,000 ms. Part of the bound of G5. */
  readonly sweepIntervalMs?: number;
  /**
   * Default 60,000; 1,000 to 86,400,000 ms. Part of the bound of G5 too, for an order whose only wake-up was lost before any worker relayed
   * its event; a table that a run does not get through takes several.
   */
  readonly reconcileIntervalMs?: number;
  /** Default 3,600,000 (1 hour); 1,000 to 86,400,000 ms. */
  readonly cleanupIntervalMs?: number;
  readonly clock?: Clock;
  /** Numbers in [0, 1), so that many processes do not act in step. Default `Math.random`. */
  readonly random?: () => number;
  readonly logger?: Logger;
}

/** Disposing ends running tasks between two storage calls and resolves when nothing runs any more; it never rejects. */
export interface Schedule extends AsyncDisposable {}

/** Waits are shortened by up to this share, never lengthened: the interval is the bound that is promised. */
const JITTER = 0.1;

export const SWEEP_INTERVAL_MS: NumberBounds = { default: 60_000, min: 1_000, max: 3_600_000 };

/**
 * Starts the three tasks. Each runs for the first time after a random part of its interval, and never twice at once. A run that fails is
 * logged and done again at its next time; a run that takes longer than its interval is followed by a short rest.
 *
 * @throws `invalid-option`
 */
export function startSchedule(options: ScheduleOptions): Schedule {
  const { sweeper, reconciler, cleaner, clock = systemClock, random = Math.random, logger = silentLogger } = options;
  const sweepMs = wholeNumber("sweepIntervalMs", options.sweepIntervalMs, SWEEP_INTERVAL_MS);
  const reconcileMs = wholeNumber("reconcileIntervalMs", options.reconcileIntervalMs, { default: 60_000, min: 1_000, max: 86_400_000 });
  const cleanupMs = wholeNumber("cleanupIntervalMs", options.cleanupIntervalMs, { default: 3_600_000, min: 1_000, max: 86_400_000 });
  const end = new AbortController();
  const { signal } = end;

  /** Resolves with false when the schedule ends; never rejects. */
  const rest = (ms: number): Promise<boolean> =>
    clock.sleep(ms, signal).then(
      () => true,
      () => false,
    );

  /** Never rejects. */
  async function repeat(name: string, intervalMs: number, task: () => Promise<unknown>): Promise<void> {
    for (let waitMs = random() * intervalMs; await rest(waitMs);) {
      const startedAt = clock.monotonic();
      try {
        await task();
      } catch (error) {
        if (signal.aborted) return;
        logger.error(`${name} failed; it is tried again at its next time`, { error: describeError(error) });
      }
      const untilNextMs = intervalMs * (1 - JITTER * random()) - (clock.monotonic() - startedAt);
      waitMs = Math.max(untilNextMs, intervalMs * JITTER);
    }
  }

  const running = Promise.all([
    repeat("sweep", sweepMs, async () => {
      const { woken, marked } = await sweeper.sweep({ signal });
      if (woken > 0) logger.info("the sweep woke orders that nobody handled", { woken, marked });
    }),
    repeat("reconcile", reconcileMs, () => reconciler.reconcile({ signal })),
    repeat("cleanup", cleanupMs, async () => {
      const { removed, complete } = await cleaner.clean({ signal });
      logger.debug("cleanup ended", { ...removed, complete });
    }),
  ]);
  return {
    async [Symbol.asyncDispose]() {
      end.abort(new Error("the schedule ends"));
      await running;
    },
  };
}
