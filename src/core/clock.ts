/** Time comes in as an argument, so that tests can turn it by hand. */
export interface Clock {
  /** Wall clock in milliseconds since 1970. May jump; never used to judge a lease or an order of events. */
  now(): number;
  /** Milliseconds that only grow, from an arbitrary start. */
  monotonic(): number;
  /** Resolves after `ms` (at least 0); rejects with the signal's reason if that comes first. Leaves no timer behind. */
  sleep(ms: number, signal?: AbortSignal): Promise<void>;
}
