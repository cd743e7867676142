import { describeError, printable } from "../core/errors.ts";
import { decodeEventBytes } from "../core/event.ts";
import type { EventId } from "../core/event-id.ts";
import type { Logger } from "../core/logger.ts";
import { eventIdOfBlob, streamPrefix } from "../core/names.ts";
import type { OrderKey } from "../core/order-id.ts";
import { decodePendingState, freshState, type PendingState } from "../core/pending-event.ts";
import type { Blobs, ListedBlob } from "../core/ports.ts";
import type { QueuedEvent } from "../core/stream.ts";

export interface Listing {
  readonly events: readonly QueuedEvent[];
  /** Names below the prefix that are none of ours: reported, left alone (W10). */
  readonly foreign: readonly string[];
}

/** All pending event blobs of a stream, oldest first. They were there before this round, so all of them are suspect (W4). */
export async function listPending(blobs: Blobs, subscription: string, order: OrderKey, logger: Logger): Promise<Listing> {
  const prefix = streamPrefix(subscription, order);
  const events: QueuedEvent[] = [];
  const foreign: string[] = [];
  for await (const blob of blobs.list("events", prefix)) {
    const id = eventIdOfBlob(blob.name, prefix);
    const state = id === undefined ? undefined : (decodePendingState(blob.metadata) ?? (await stateFromBytes(blobs, blob, id, logger)));
    if (id === undefined || state === undefined) foreign.push(blob.name);
    else events.push({ id, ...state, etag: blob.etag, suspect: true });
  }
  // The service lists by its own rule for letters; ours is by code unit.
  events.sort((a, b) => (a.id < b.id ? -1 : 1));
  return { events, foreign };
}

/** An event blob without our metadata (restored from a backup, say): its bytes tell its place. */
async function stateFromBytes(blobs: Blobs, blob: ListedBlob, id: EventId, logger: Logger): Promise<PendingState | undefined> {
  const content = await blobs.read("events", blob.name);
  if (content === undefined) return undefined;
  try {
    const event = decodeEventBytes(content.bytes);
    return event.id === id ? freshState(event.sequence, 0) : undefined;
  } catch (error) {
    logger.error("a blob with an event's name holds no event", { name: printable(blob.name), error: describeError(error) });
    return undefined;
  }
}
