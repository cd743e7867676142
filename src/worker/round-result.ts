/** What became of a wake-up. */
export interface RoundResult {
  /**
   * - `done`: nothing of this order is left to do; the wake-up is used up.
   * - `joined`: a round for this order runs in this process already and will look again. It may end with work left: keep the wake-up, hidden.
   * - `taken`: another worker holds the order. It looks again after it releases, but it may die before: keep the wake-up, hidden (W6).
   * - `left`: something is left (a handler failed, the time budget is spent, the lease was lost, the host is stopping).
   */
  readonly status: "done" | "joined" | "taken" | "left";
  /** For all but `done`: look again after this time. */
  readonly retryInMs: number;
  /** Events recorded as finished in this round, over all subscriptions. */
  readonly handled: number;
  /** Bounded texts of what stands in the way, for logs: failed handlers, gaps, foreign blobs. */
  readonly problems: readonly string[];
}

/** Handles one order at a time per call; safe to call for many orders at once. */
export interface Worker {
  /**
   * One round for the order (design §5). Resolves also when handlers fail: the result says what is left.
   * Throws when storage can't be reached, or for stored data of the order that can't be read (`corrupt`).
   *
   * @param options.capacity how many orders the host handles at once: subscriptions without a `concurrency` of their own go by it
   * @param options.signal aborts when the host is stopping for good: no new event is started, running handlers see it, the lease is released
   */
  handle(orderId: string, options?: { readonly signal?: AbortSignal; readonly capacity?: number }): Promise<RoundResult>;
  /**
   * No new events are started from now on, running handlers go on; `handle` calls return when theirs are done. First stage of a graceful stop.
   */
  stopStarting(): void;
}
