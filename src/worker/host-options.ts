/** Options of the long-running host: units, defaults and bounds are here and nowhere else. */
import type { Clock } from "../core/clock.ts";
import { silentLogger, type Logger } from "../core/logger.ts";
import { wholeNumber } from "../core/options.ts";
import type { WakeUpQueue } from "../core/ports.ts";
import { systemClock } from "../system/clock.ts";
import type { Worker } from "./round-result.ts";

export interface WorkerHostOptions {
  readonly worker: Worker;
  readonly wakeUps: WakeUpQueue;
  /**
   * How many wake-ups are in work at once; orders run in parallel, the events of one never. Where there are several subscriptions, one without a
   * `concurrency` of its own takes up to three quarters of it. Default 16; 1 to 256.
   */
  readonly concurrency?: number;
  /**
   * How long a received wake-up is hidden from other hosts, renewed at a third of it while its round runs. After a kill it comes back within
   * this time. Default 30,000; 10,000 to 3,600,000.
   */
  readonly visibilityMs?: number;
  /** The shortest wait after the queue was found empty. Default 100; 10 to 60,000. */
  readonly pollMinMs?: number;
  /** The longest wait after the queue was found empty, hence the longest delay of a wake-up at an idle host. Default 5,000; `pollMinMs` to 60,000. */
  readonly pollMaxMs?: number;
  /** How long `stop` lets running handlers go on before it aborts them. Default 25,000 (hosts usually kill after 30 s); 0 to 3,600,000. */
  readonly stopGraceMs?: number;
  /** How long `stop` then waits for the aborted ones before it gives them up. Default 5,000; 0 to 600,000. */
  readonly abortGraceMs?: number;
  readonly clock?: Clock;
  /** Numbers in [0, 1), for jitter. Default `Math.random`. */
  readonly random?: () => number;
  /** Default: silent. */
  readonly logger?: Logger;
}

export type ResolvedHostOptions = Required<WorkerHostOptions>;

/** Throws `invalid-option`. */
export function resolveHostOptions(options: WorkerHostOptions): ResolvedHostOptions {
  const pollMinMs = wholeNumber("pollMinMs", options.pollMinMs, { default: 100, min: 10, max: 60_000 });
  return {
    worker: options.worker,
    wakeUps: options.wakeUps,
    concurrency: wholeNumber("concurrency", options.concurrency, { default: 16, min: 1, max: 256 }),
    visibilityMs: wholeNumber("visibilityMs", options.visibilityMs, { default: 30_000, min: 10_000, max: 3_600_000 }),
    pollMinMs,
    pollMaxMs: wholeNumber("pollMaxMs", options.pollMaxMs, { default: Math.max(5_000, pollMinMs), min: pollMinMs, max: 60_000 }),
    stopGraceMs: wholeNumber("stopGraceMs", options.stopGraceMs, { default: 25_000, min: 0, max: 3_600_000 }),
    abortGraceMs: wholeNumber("abortGraceMs", options.abortGraceMs, { default: 5_000, min: 0, max: 600_000 }),
    clock: options.clock ?? systemClock,
    random: options.random ?? Math.random,
    logger: options.logger ?? silentLogger,
  };
}
