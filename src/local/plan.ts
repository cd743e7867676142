/** What a run is going to commit: the input file or generated histories, in one form. */
import type { ShipmentEventType } from "../shipment/workflow.ts";

export interface PlannedEvent {
  readonly type: ShipmentEventType;
  /** ISO 8601, committed as written. */
  readonly time: string;
  /** JSON text, committed byte for byte. */
  readonly dataText: string;
}

/** One transaction. */
export interface PlannedCommit {
  readonly orderId: string;
  readonly events: readonly PlannedEvent[];
  /** Where it comes from, for error messages: `FILE:LINE`. */
  readonly origin?: string;
}

/** In commit order; only the order of commits to the same order matters. */
export type Plan = readonly PlannedCommit[];
