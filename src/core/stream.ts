/** One subscription's ordered stream of an order, as the worker sees it: what is pending, and whether something is missing (W3, W10). */
import type { EventId } from "./event-id.ts";
import type { PendingState } from "./pending-event.ts";
import type { Etag } from "./ports.ts";
import type { Progress, StreamProgress } from "./progress.ts";

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

export interface Placed {
  readonly id: EventId;
  /** Undefined: its blob has no metadata of ours, and only the id tells its place. */
  readonly sequence: number | undefined;
}

/** W2. Has the progress passed the event, by its id and by its sequence? */
export function isFinished({ id, sequence }: Placed, progress: StreamProgress): boolean {
  return progress.id !== undefined && id <= progress.id && (sequence === undefined || sequence <= progress.sequence);
}

/** W2. Events that the progress has passed: left over by a crash before their delete, or written late by a dead holder. Never run. */
export function splitGhosts<E extends Placed>(
  events: readonly E[],
  progress: StreamProgress,
): { readonly ghosts: readonly E[]; readonly pending: readonly E[] } {
  return {
    ghosts: events.filter((event) => isFinished(event, progress)),
    pending: events.filter((event) => !isFinished(event, progress)),
  };
}

/**
 * W12. Ids and sequences grow together, and no event is newer than its order. Where that is not so, the progress or the metadata of a blob was
 * changed by something else, and neither says any more what is finished.
 *
 * @param events in order of their ids
 * @param top by {@link newestSequence}; infinite for who can't know it
 * @returns the first event that does not fit the one before it, the progress, or the order
 */
export function contradictionIn<E extends Placed>(events: readonly E[], progress: StreamProgress, top: number): E | undefined {
  let before: number | undefined;
  return events.find(({ id, sequence }) => {
    if (sequence === undefined) return false;
    const isPassed = progress.id !== undefined && id <= progress.id;
    const fits = isPassed === sequence <= progress.sequence && (before === undefined || before < sequence) && sequence <= top;
    before = sequence;
    return !fits;
  });
}

/** For people: what does not fit to what. */
export function contradictionText(subscription: string, { id, sequence }: Placed, progress: StreamProgress): string {
  const at = progress.id === undefined ? "has finished nothing" : `is at event ${progress.id} with sequence ${progress.sequence}`;
  return `event ${id} of ${subscription} has sequence ${sequence}, which contradicts the order, the events beside it, or the progress, which ${at}: metadata was changed by something else`;
}

/** For people, too: what comes of it, and what they can do. */
export function contradictionAlarm(subscription: string, event: Placed, progress: StreamProgress): string {
  return `${contradictionText(subscription, event, progress)}. Nothing of ${subscription} runs in this order, and nothing is deleted; \`verify\` tells which blob to mend, then \`wake\` the order`;
}

/**
 * Sequence that no event of the order is beyond.
 *
 * @param sequence of the order entity, if there is one
 * @param outbox in order: a commit between two pages of the query shows its entities, but not its order entity
 */
export function newestSequence(sequence: number | undefined, outbox: readonly { readonly sequence: number }[]): number {
  return Math.max(sequence ?? 0, outbox.at(-1)?.sequence ?? 0);
}

/** Sequence up to which workers have seen the order: its entities became blobs, or never will. */
export function seenSequence({ clean, relayed }: Progress): number {
  return Math.max(clean, relayed);
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
 * Sequence up to which the stream has got events. What is beyond the order (W12) tells only that something waits: recorded as it is, it would
 * be missing for good once its blob is mended.
 *
 * @param pending in order, without ghosts
 */
export function relayedSequence(pending: readonly { readonly sequence: number }[], progress: StreamProgress, top: number): number {
  const known = Math.max(progress.relayed, progress.sequence);
  if (pending.length === 0) return known;
  const last = pending.findLast(({ sequence }) => sequence <= top)?.sequence;
  return Math.max(known, last ?? progress.sequence + 1);
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
