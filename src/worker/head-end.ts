/** How the handling of a stream's head may end, and what is left of an event then. */
import type { QueuedEvent } from "../core/stream.ts";
import type { FinishedEvent } from "./archiver.ts";

type EventEnd = Omit<FinishedEvent, "subscription">;
type Discarded = Required<Pick<FinishedEvent, "decision" | "archived">>;

export type HeadEnd =
  /** Done with, one way or the other: the stream goes on. */
  | { readonly kind: "finished"; readonly event: EventEnd }
  /**
   * Nothing of the stream may start in this round, unless `until` aborts. Look again after `retryInMs`; undefined: somebody else sees to the
   * wake-up.
   */
  | {
      readonly kind: "stands";
      readonly queued: QueuedEvent;
      readonly retryInMs: number | undefined;
      readonly problem: string | undefined;
      readonly until?: AbortSignal;
    };

/** An end, or the head as it is by now, to be judged again. */
export type HeadStep = HeadEnd | { readonly kind: "again"; readonly queued: QueuedEvent };

export function stands(queued: QueuedEvent, retryInMs: number | undefined, problem?: string): HeadEnd {
  return { kind: "stands", queued, retryInMs, problem };
}

export function finished(...end: Parameters<typeof eventEnd>): HeadEnd {
  return { kind: "finished", event: eventEnd(...end) };
}

/**
 * How an event ended that the progress has passed already. If it was discarded, the archive has it as discarded by now, and that stays on
 * record. A discard that was recorded later changes nothing any more (G6).
 *
 * @param next what is pending or left over behind it
 */
export function ghostEnd(event: QueuedEvent, next: QueuedEvent | undefined): EventEnd {
  const { attempts, text, status, skipped } = event;
  // The last start of a handled event is counted nowhere else.
  const ended = { ...event, attempts: Math.max(1, attempts) };
  return { ...eventEnd(ended, text, skipped ? "dead-lettered" : "handled", status === "blocked"), leftOver: { next } };
}

/** How one ended that nobody runs here, and that is discarded and archived so. */
export function discardedEnd(event: QueuedEvent, how: Discarded): EventEnd {
  return eventEnd(event, event.text, "discarded", event.status === "blocked", how);
}

function eventEnd(
  { id, sequence, previous, attempts }: QueuedEvent,
  text: string | undefined,
  outcome: FinishedEvent["outcome"],
  dropsDeadLetter: boolean,
  discarded?: Discarded,
): EventEnd {
  return { id, sequence, previous, attempts, text, outcome, dropsDeadLetter, ...discarded };
}
