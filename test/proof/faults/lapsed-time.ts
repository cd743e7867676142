/**
 * Time of a whole Node process that stands still until somebody turns it: timers, dates and deadlines of everything in here, the storage SDKs
 * and Azurite included, follow one manual clock. So a call that hangs until its deadline, a lease that runs out and a message that becomes
 * visible again cost nothing, and a run is the same each time.
 */
import { createRequire, syncBuiltinESMExports } from "node:module";
import type { ManualClock } from "../../support/manual-clock.ts";

const timersPromises = createRequire(import.meta.url)("node:timers/promises") as { setTimeout: unknown };

const real = { setTimeout: globalThis.setTimeout, clearTimeout: globalThis.clearTimeout, Date: globalThis.Date, random: Math.random };

/** What waits for no longer only gives way to others, as Azurite's database does. */
const SOON_MS = 1;
/** Nobody sees it; an exception of its own for each timer would cost more than the timer. */
const CLOSED = new Error("the timer was closed");

/** Stands for a Timeout of Node. */
class LapsedTimer {
  readonly #ended = new AbortController();

  constructor(clock: ManualClock, ms: number, callback: () => void) {
    if (ms > SOON_MS) void this.#wait(clock, ms, callback);
    else setImmediate(() => (this.#ended.signal.aborted ? undefined : callback()));
  }

  async #wait(clock: ManualClock, ms: number, callback: () => void): Promise<void> {
    try {
      await clock.sleep(ms, this.#ended.signal);
    } catch {
      return;
    }
    callback();
  }

  close(): this {
    this.#ended.abort(CLOSED);
    return this;
  }
  ref(): this {
    return this;
  }
  unref(): this {
    return this;
  }
  hasRef(): boolean {
    return true;
  }
  [Symbol.dispose](): void {
    this.close();
  }
}

/** From now on the process follows `clock`; may be called again with another one. Chance follows `random`. */
export function lapseTime(clock: ManualClock, random: () => number): void {
  class LapsedDate extends real.Date {
    constructor(...args: readonly unknown[]) {
      if (args.length === 0) super(clock.now());
      else super(...(args as [number]));
    }
    static override now(): number {
      return clock.now();
    }
    static override [Symbol.hasInstance](value: unknown): boolean {
      return Object.prototype.toString.call(value) === "[object Date]";
    }
  }
  const timeout = (callback: (...args: unknown[]) => void, ms: number = 0, ...args: unknown[]): LapsedTimer =>
    new LapsedTimer(clock, ms, () => callback(...args));
  Object.assign(globalThis, {
    Date: LapsedDate,
    setTimeout: timeout,
    clearTimeout: (timer: unknown) => {
      if (timer instanceof LapsedTimer) timer.close();
      else real.clearTimeout(timer as NodeJS.Timeout | undefined);
    },
  });
  Math.random = random;
  AbortSignal.timeout = (ms) => {
    const controller = new AbortController();
    void clock.sleep(ms).then(() => controller.abort(new DOMException("The operation was aborted due to timeout", "TimeoutError")));
    return controller.signal;
  };
  timersPromises.setTimeout = async (ms: number, value: unknown, options: { readonly signal?: AbortSignal } = {}) => {
    await clock.sleep(ms, options.signal);
    return value;
  };
  syncBuiltinESMExports();
}
