import { isOutboxError, OutboxError } from "../core/errors.ts";
import { eventBlobName } from "../core/names.ts";
import { decodePendingState, encodePendingState, type PendingState } from "../core/pending-event.ts";
import type { QueuedEvent } from "../core/stream.ts";
import type { HeadContext } from "./round-options.ts";

/**
 * Writes a head's state to its event blob, if nobody else has changed it. If an operator has, theirs stands: what was to be written is
 * dropped, and the head comes back as it is now (F4).
 *
 * @throws `gap` if the blob is gone, `lease-lost`, what storage throws
 */
export async function saveState(
  { storage, order, lease }: HeadContext,
  subscription: string,
  queued: QueuedEvent,
  change: Partial<PendingState>,
): Promise<{ readonly saved: boolean; readonly queued: QueuedEvent }> {
  const name = eventBlobName(subscription, order, queued.id);
  const next = { ...queued, ...change };
  const metadata = encodePendingState(next);
  lease.assertHeld();
  let failure: unknown;
  try {
    return { saved: true, queued: { ...next, etag: await storage.blobs.writeMetadata("events", name, metadata, queued.etag) } };
  } catch (error) {
    if (!isOutboxError(error, "precondition-failed", "not-found", "timeout", "unavailable", "aborted")) throw error;
    failure = error;
  }
  // A lost answer looks like somebody else's write: was it mine?
  const blob = await storage.blobs.read("events", name);
  // Without an answer and not there.
  if (blob?.etag === queued.etag) throw failure;
  if (blob === undefined) throw new OutboxError("gap", `events/${name} is gone although it was not handled`);
  const mine = Object.keys({ ...metadata, ...blob.metadata }).every((key) => blob.metadata[key] === metadata[key]);
  if (mine) return { saved: true, queued: { ...next, etag: blob.etag } };
  return { saved: false, queued: { ...queued, ...decodePendingState(blob.metadata), etag: blob.etag } };
}
