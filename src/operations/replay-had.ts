/**
 * Has a subscription had an event, under the event's own id? Told from what is left of its stream, long after retention has removed most of
 * it. Pure.
 */
import type { EventId } from "../core/event-id.ts";
import type { StreamProgress } from "../core/progress.ts";

/** An event of the subscription's own stream that storage still has. */
export interface OwnEvent {
  readonly id: EventId;
  readonly sequence: number;
  /** Sequence of the event before it in this stream; 0 for the first. */
  readonly previous: number;
  /** What the archive says of it; undefined while it is pending. */
  readonly outcome: string | undefined;
}

/**
 * The chain of `previous` tells: the first event of the stream at or after `sequence` names the one before it, and if that lies before
 * `sequence`, the stream never had this one. With no such event left, a progress before `sequence` tells the same. Anything else is `unknown`:
 * the stream was there already, and what it had is gone by retention.
 *
 * @param own in order
 */
export function hadItself(sequence: number, own: readonly OwnEvent[], progress: StreamProgress): "had" | "never" | "unknown" {
  const next = own.find((event) => event.sequence >= sequence);
  if (next === undefined) return Math.max(progress.sequence, progress.relayed) < sequence ? "never" : "unknown";
  if (next.sequence === sequence || next.previous === sequence) return "had";
  return next.previous < sequence ? "never" : "unknown";
}
