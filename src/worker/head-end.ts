/** How the handling of a stream's head may end, and what is left of an event then. */
import type { QueuedEvent } from "../core/stream.ts";
import type { FinishedEvent } from "./archiver.ts";

export type EventEnd = Omit<FinishedEvent, "subscription">;

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
 */
export function ghostEnd(event: QueuedEvent): EventEnd {
  return eventEnd(event, event.text, event.ending ?? "handled", { dropsDeadLetter: event.status === "blocked" });
}

export function eventEnd(
  { id, sequence, previous, attempts }: QueuedEvent,
  text: string | undefined,
  outcome: FinishedEvent["outcome"],
  more: Partial<Pick<FinishedEvent, "dropsDeadLetter" | "decision" | "archived">> = {},
): EventEnd {
  return { id, sequence, previous, attempts, text, outcome, dropsDeadLetter: false, ...more };
}
