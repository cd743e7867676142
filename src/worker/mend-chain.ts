/**
 * W3. A relay that was interrupted leaves event blobs whose `previous` names an event that never got there. If the event is not relayed to
 * their stream any more (the subscription is gone from the code, or its filter is narrower by now), nothing will ever fill that place once its
 * entity is deleted. So it is mended before, while the entity still proves that the event was not lost.
 */
import { isOutboxError } from "../core/errors.ts";
import { eventBlobName } from "../core/names.ts";
import { decodePendingState, encodePendingState } from "../core/pending-event.ts";
import type { StreamProgress } from "../core/progress.ts";
import type { QueuedEvent } from "../core/stream.ts";
import type { RoundState } from "./round-state.ts";

/** Bounds the race with operators who decide about the same blob. */
const MAX_TRIES = 5;

/**
 * @param waiting all that is pending in the stream, as listed, in order
 * @param relayed sequences of the entities in hand
 * @param targeted those of them that go to this stream
 * @returns the events whose place has changed
 */
export async function mendChain(
  round: RoundState,
  name: string,
  waiting: readonly QueuedEvent[],
  progress: StreamProgress,
  relayed: ReadonlySet<number>,
  targeted: ReadonlySet<number>,
): Promise<readonly QueuedEvent[]> {
  const there = new Set([...waiting.map(({ sequence }) => sequence), ...targeted]);
  const mended: QueuedEvent[] = [];
  for (const event of waiting) {
    const { previous, sequence } = event;
    if (previous <= progress.sequence || there.has(previous) || !relayed.has(previous)) continue;
    // What else is missing before it stays missing: only events whose entities are in hand are known not to be wanted.
    const before = [...there].filter((other) => other < sequence);
    const known = progress.relayed < sequence && !relayed.has(progress.relayed) ? progress.relayed : 0;
    mended.push(await writePrevious(round, name, event, Math.max(progress.sequence, known, ...before)));
  }
  return mended;
}

/** Only its place: what an operator has decided meanwhile stands (F4). */
export async function writePrevious(round: RoundState, subscription: string, event: QueuedEvent, previous: number): Promise<QueuedEvent> {
  const { blobs } = round.options.storage;
  const name = eventBlobName(subscription, round.order, event.id);
  let next = event;
  for (let tries = 1; ; tries++) {
    next = { ...next, previous };
    round.input.lease.assertHeld();
    try {
      return { ...next, etag: await blobs.writeMetadata("events", name, encodePendingState(next), next.etag) };
    } catch (error) {
      if (!isOutboxError(error, "precondition-failed") || tries >= MAX_TRIES) throw error;
    }
    const blob = await blobs.read("events", name);
    // Gone: whoever looks for it next will say so.
    if (blob === undefined) return next;
    next = { ...next, ...decodePendingState(blob.metadata), etag: blob.etag };
  }
}
