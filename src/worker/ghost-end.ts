import type { QueuedEvent } from "../core/stream.ts";
import type { FinishedEvent } from "./archiver.ts";

/** How an event ended that the progress has passed already, or that an operator has discarded. */
export function ghostEnd(event: QueuedEvent): Omit<FinishedEvent, "subscription"> {
  const { id, sequence, previous, attempts, status, decision } = event;
  const discarded = decision?.action === "discard";
  return {
    id,
    sequence,
    previous,
    // The last start of a handled event is counted nowhere else.
    attempts: discarded ? attempts : Math.max(1, attempts),
    text: event.text,
    outcome: discarded ? "discarded" : "handled",
    dropsDeadLetter: status === "blocked",
    leftOver: true,
    ...(discarded ? { decision } : {}),
  };
}
