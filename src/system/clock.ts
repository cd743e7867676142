import { setTimeout as delay } from "node:timers/promises";
import type { Clock } from "../core/clock.ts";

/** The longest delay a Node timer takes; longer sleeps are made of several. */
const MAX_TIMER_MS = 2_147_483_647;

export const systemClock: Clock = {
  now: () => Date.now(),
  monotonic: () => performance.now(),
  async sleep(ms, signal) {
    signal?.throwIfAborted();
    for (let left = Math.max(0, ms); ; left -= MAX_TIMER_MS) {
      try {
        await delay(Math.min(left, MAX_TIMER_MS), undefined, signal === undefined ? {} : { signal });
      } catch (error) {
        // The timer's own AbortError hides why: the signal's reason is what callers look at.
        signal?.throwIfAborted();
        throw error;
      }
      if (left <= MAX_TIMER_MS) return;
    }
  },
};
