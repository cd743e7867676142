/** What the loaded process tells. */

/** Figures of which none may grow while the load stays the same. */
export interface Sample {
  /** After a collection. */
  readonly heapBytes: number;
  readonly rssBytes: number;
  /** All that keeps the process alive, by `process.getActiveResourcesInfo`. */
  readonly handles: number;
  /** Open, in use or kept for later. */
  readonly sockets: number;
  readonly timers: number;
  /** Since the sample before. */
  readonly calls: number;
  readonly events: number;
}

export interface Totals {
  readonly committed: number;
  /** Events that a subscription has handled. */
  readonly handled: number;
  readonly operatorActs: number;
  readonly duplicates: number;
  readonly outOfOrder: number;
  /** Still missing when the load had been over for a while. */
  readonly missing: number;
  readonly problems: readonly string[];
}

export type SoakMessage = { readonly sample: Sample } | { readonly totals: Totals };
