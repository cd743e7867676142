/** How the handling of a stream's head may end. */
import type { Decision } from "../core/pending-event.ts";
import type { QueuedEvent } from "../core/stream.ts";
import type { FinishedEvent } from "./archiver.ts";

export type HeadEnd =
  /** Done with, one way or the other: the stream goes on. */
  | { readonly kind: "finished"; readonly event: Omit<FinishedEvent, "subscription"> }
  /** Nothing of the stream may start in this round. Look again after `retryInMs`; undefined: somebody else sees to the wake-up. */
  | { readonly kind: "stands"; readonly queued: QueuedEvent; readonly retryInMs: number | undefined; readonly problem: string | undefined };

/** An end, or the head as it is by now, to be judged again. */
export type HeadStep = HeadEnd | { readonly kind: "again"; readonly queued: QueuedEvent };

export function stands(queued: QueuedEvent, retryInMs: number | undefined, problem?: string): HeadEnd {
  return { kind: "stands", queued, retryInMs, problem };
}

export function finished(
  { id, sequence, previous, attempts }: QueuedEvent,
  text: string | undefined,
  outcome: FinishedEvent["outcome"],
  dropsDeadLetter: boolean,
  decision?: Decision,
): HeadEnd {
  return {
    kind: "finished",
    event: { id, sequence, previous, attempts, text, outcome, dropsDeadLetter, ...(decision === undefined ? {} : { decision }) },
  };
}
