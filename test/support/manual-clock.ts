/** A clock that stands still until a test turns it. */
import type { Clock } from "../../src/core/clock.ts";

interface Sleeper {
  readonly dueAt: number;
  readonly wake: () => void;
}

export class ManualClock implements Clock {
  #now: number;
  #monotonic = 0;
  readonly #sleepers = new Set<Sleeper>();

  /** @param now wall clock in milliseconds since 1970; default 2026-01-01 */
  constructor(now: number = Date.UTC(2026, 0, 1)) {
    this.#now = now;
  }

  now(): number {
    return this.#now;
  }

  monotonic(): number {
    return this.#monotonic;
  }

  sleep(ms: number, signal?: AbortSignal): Promise<void> {
    return new Promise((resolve, reject) => {
      if (signal?.aborted) return reject(signal.reason);
      const onAbort = (): void => {
        this.#sleepers.delete(sleeper);
        reject(signal?.reason);
      };
      const sleeper: Sleeper = {
        dueAt: this.#monotonic + Math.max(0, ms),
        wake: () => {
          signal?.removeEventListener("abort", onAbort);
          resolve();
        },
      };
      this.#sleepers.add(sleeper);
      signal?.addEventListener("abort", onAbort, { once: true });
    });
  }

  /** How many sleeps have not ended yet. */
  pending(): number {
    return this.#sleepers.size;
  }

  /**
   * Turns both clocks forward by `ms`, waking sleepers at their times and in their order. Between two of them everything that can run
   * without time or I/O runs; a sleep that starts meanwhile and is due before the end is woken too.
   */
  async advance(ms: number): Promise<void> {
    const end = this.#monotonic + ms;
    await settle();
    for (let next = this.#nextDue(end); next !== undefined; next = this.#nextDue(end)) {
      this.#turnTo(next.dueAt);
      this.#sleepers.delete(next);
      next.wake();
      await settle();
    }
    this.#turnTo(end);
    await settle();
  }

  /** Turns to the earliest sleeper and wakes it. False if nobody sleeps. */
  async advanceToNext(): Promise<boolean> {
    await settle();
    const next = this.#nextDue(Number.POSITIVE_INFINITY);
    if (next === undefined) return false;
    await this.advance(Math.max(0, next.dueAt - this.#monotonic));
    return true;
  }

  /** Sets the wall clock alone, as a time correction would. */
  setNow(now: number): void {
    this.#now = now;
  }

  /** Turns the monotonic clock alone and wakes nobody, as for a process that was frozen: its timers fire late. */
  skipMonotonic(ms: number): void {
    this.#monotonic += ms;
  }

  #turnTo(time: number): void {
    const step = Math.max(0, time - this.#monotonic);
    this.#monotonic += step;
    this.#now += step;
  }

  /** The earliest sleeper due by `end`; of those due at the same time the one that went to sleep first. */
  #nextDue(end: number): Sleeper | undefined {
    let next: Sleeper | undefined;
    for (const sleeper of this.#sleepers) {
      if (sleeper.dueAt <= end && (next === undefined || sleeper.dueAt < next.dueAt)) next = sleeper;
    }
    return next;
  }
}

/** Rounds of the event loop that {@link settle} waits for. */
const SETTLE_ROUNDS = 10;

/** Lets everything run that waits for nothing but promises and immediates. */
export async function settle(): Promise<void> {
  for (let round = 0; round < SETTLE_ROUNDS; round++) await new Promise((resolve) => setImmediate(resolve));
}
