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
 * An event that is under way may get its blob after its successor (W1). So a predecessor that is not there is no trace of retention then, and
 * a progress that has come to such an event is newer than what was read of the stream: `moving`, another look will tell.
 *
 * @param own in order
 * @param isUnderWay was the event of this sequence still to be relayed when the order was read, before all else?
 */
export function hadItself(
  sequence: number,
  own: readonly OwnEvent[],
  progress: StreamProgress,
  isUnderWay: (sequence: number) => boolean,
): "had" | "never" | "unknown" | "moving" {
  const next = own.find((event) => event.sequence >= sequence);
  if (next !== undefined) {
    if (next.sequence === sequence || next.previous === sequence) return "had";
    if (next.previous < sequence) return "never";
    if (!isUnderWay(next.previous)) return "unknown";
  }
  // What is finished nowhere is still in `events`, so that nothing at or after `sequence` can be gone.
  const last = Math.max(progress.sequence, progress.relayed);
  if (last < sequence) return "never";
  return isUnderWay(last) ? "moving" : "unknown";
}
