import { archivedMetadata } from "../core/archive-bundle.ts";
import { isOutboxError, OutboxError } from "../core/errors.ts";
import { eventBytes } from "../core/event.ts";
import type { Logger } from "../core/logger.ts";
import { eventBlobName } from "../core/names.ts";
import { encodeDecision, type Decision } from "../core/pending-event.ts";
import type { Blobs, Metadata } from "../core/ports.ts";
import type { QueuedEvent } from "../core/stream.ts";
import type { RoundInput, RoundOptions } from "./round-options.ts";

/** What is archived already is checked against what would have been. Throws `corrupt`; what storage throws. */
export async function createArchived(blobs: Blobs, name: string, bytes: Uint8Array, metadata: Metadata, logger: Logger): Promise<void> {
  try {
    await blobs.create("archive", name, bytes, metadata);
  } catch (error) {
    if (!isOutboxError(error, "already-exists")) throw error;
    await isArchived(blobs, name, bytes, logger, error);
  }
}

/**
 * W11: already there with the same bytes is success; other bytes under one event id are a loud error, neither is touched.
 *
 * @returns false if it is gone
 */
export async function isArchived(blobs: Blobs, name: string, bytes: Uint8Array, logger: Logger, cause?: unknown): Promise<boolean> {
  const existing = await blobs.read("archive", name);
  if (existing === undefined) return false;
  if (Buffer.compare(existing.bytes, bytes) === 0) return true;
  logger.error("an archived event has other bytes than the pending one; both are kept", { name });
  throw new OutboxError("corrupt", `archive/${name} has other bytes than the pending event`, { cause });
}

/**
 * W2. A discard is archived before the progress passes its event. So the archive tells what became of an event that the progress has passed: what
 * is not there as discarded was not discarded, whatever an operator has decided since (G6). Nothing can come in between: the decision stays
 * on the pending blob, and whoever is the next to hold the lease carries it out too (F4).
 *
 * @param missing sequence of an event before it that the stream did not have by then
 * @returns false if something is archived already, or the pending blob is gone: the archiver sees to that
 */
export async function archiveDiscard(
  { storage, order, lease, clock }: Pick<RoundOptions, "storage" | "clock"> & Pick<RoundInput, "order" | "lease">,
  subscription: string,
  event: QueuedEvent,
  decision: Decision,
  missing?: number,
): Promise<boolean> {
  const name = eventBlobName(subscription, order, event.id);
  const bytes = event.text === undefined ? (await storage.blobs.read("events", name))?.bytes : eventBytes(event.text);
  if (bytes === undefined) return false;
  lease.assertHeld();
  try {
    const record = { ...event, finishedAtMs: Math.trunc(clock.now()) };
    await storage.blobs.create("archive", name, bytes, {
      ...archivedMetadata(record, "discarded"),
      ...encodeDecision(decision),
      ...(missing === undefined ? {} : { missing: String(missing) }),
    });
    return true;
  } catch (error) {
    if (!isOutboxError(error, "already-exists")) throw error;
    return false;
  }
}
