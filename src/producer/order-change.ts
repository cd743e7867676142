/** What a producer reads, decides and gets back. */
import type { EventReference } from "../core/commit-tokens.ts";
import type { OrderId } from "../core/order-id.ts";
import type { ApplicationEntity } from "../core/ports.ts";
import type { InputOf, OutputOf } from "../core/schema.ts";
import type { AnyWorkflow, EventInput } from "../core/workflow.ts";

export interface Order<State> {
  readonly orderId: OrderId;
  /** Undefined once the order is deleted. */
  readonly state: State | undefined;
  /** Sequence of its last event; goes on counting when a deleted order is created again (C7). */
  readonly sequence: number;
  readonly lastEventId: string | undefined;
}

export interface Change<W extends AnyWorkflow> {
  /** The next state, stored as given; `null` deletes the order and keeps its sequence (C7). */
  readonly state: InputOf<W["state"]> | null;
  /** What happened, in order. */
  readonly events: readonly EventInput<W>[];
  /** Rows of the application's own, written in the same transaction. */
  readonly entities?: readonly ApplicationEntity[];
}

/**
 * Decides on the next state. Called again after a conflict, so it must not have effects of its own. Returning undefined means: no change,
 * nothing is written.
 */
export type Decide<W extends AnyWorkflow> = (
  state: OutputOf<W["state"]> | undefined,
  order: Order<OutputOf<W["state"]>>,
) => Change<W> | undefined | Promise<Change<W> | undefined>;

export interface CommitOptions {
  /** A command with this key is done once per order: a repetition gets the first one's result. 1 to 120 UTF-16 units. */
  readonly idempotencyKey?: string;
  /** Refuses the commit (`sequence-mismatch`) unless the order's last event has this sequence; 0 for a new order. */
  readonly expectedSequence?: number;
  /** From an `outcome-unknown` error: repeats that very commit, and does nothing if it happened after all. */
  readonly commitToken?: string;
  /** W3C trace context that the events carry. Default: that of the active OpenTelemetry span, if there is one. */
  readonly traceparent?: string;
  /** Goes with `traceparent`; up to 512 visible ASCII characters. */
  readonly tracestate?: string;
  readonly signal?: AbortSignal;
}

export interface CommitResult {
  /** Sequence of the order after the commit. */
  readonly sequence: number;
  /** The events, in order; their data is what the caller gave. */
  readonly events: readonly EventReference[];
  /** True if an earlier call had committed this already (same idempotency key or commit token). */
  readonly repeated: boolean;
}
