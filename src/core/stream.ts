/** One subscription's ordered stream of an order, as the worker sees it: what is pending, and whether something is missing (W3, W10). */
import type { EventId } from "./event-id.ts";
import type { PendingState } from "./pending-event.ts";
import type { Etag } from "./ports.ts";
import type { StreamProgress } from "./progress.ts";

export interface QueuedEvent extends PendingState {
  readonly id: EventId;
  readonly etag: Etag;
  /** Its blob was there before this round: its handler may have killed the process that ran it (W4). */
  readonly suspect: boolean;
  /** It was the head of its stream when a holder died without giving the lease back: its handler may have been running. */
  readonly mayHaveRun?: true;
  /** Until when its blob is known to be as it is here: a decision recorded since then must be seen before it starts (F4). */
  readonly known?: { readonly pokes: number; readonly atMs: number };
  /** The event's text, if the relay of this round had it at hand. */
  readonly text?: string;
}

/** Events that the progress has passed: left over by a crash before their delete, or written late by a dead holder (W2). Never run. */
export function splitGhosts<E extends { readonly id: EventId }>(
  events: readonly E[],
  progress: StreamProgress,
): { readonly ghosts: readonly E[]; readonly pending: readonly E[] } {
  const last = progress.id;
  if (last === undefined) return { ghosts: [], pending: events };
  return { ghosts: events.filter(({ id }) => id <= last), pending: events.filter(({ id }) => id > last) };
}

/**
 * Sequence of an event that must be in the stream and is not (W3), or undefined. The chain of `previous` shows it; so does a relayed
 * sequence that is not there at the end.
 *
 * @param pending in order, without ghosts
 */
export function missingSequence(
  pending: readonly { readonly sequence: number; readonly previous: number }[],
  progress: StreamProgress,
): number | undefined {
  let last = progress.sequence;
  for (const event of pending) {
    // A smaller `previous` only means that the subscription's filter has changed since.
    if (event.previous > last) return event.previous;
    last = event.sequence;
  }
  return progress.relayed > last ? progress.relayed : undefined;
}

/**
 * The first sequence after `from` up to `to` for which there is no trace (W3): not relayed by what the progress says, and in none of the
 * given sets. Undefined if all are accounted for.
 */
export function firstUnaccounted(from: number, to: number, ...evidence: readonly ReadonlySet<number>[]): number | undefined {
  for (let sequence = from + 1; sequence <= to; sequence++) {
    if (!evidence.some((set) => set.has(sequence))) return sequence;
  }
  return undefined;
}
