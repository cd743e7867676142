/** The index of dead letters, as a worker keeps it under the lease (design §3). */
import { decodeDeadLetterSummary, encodeDeadLetter } from "../core/dead-letter.ts";
import { isOutboxError } from "../core/errors.ts";
import { eventBlobName } from "../core/names.ts";
import type { RetryPolicy } from "../core/retry.ts";
import type { QueuedEvent } from "../core/stream.ts";
import { readEvent } from "./open-event.ts";
import type { HeadContext } from "./round-options.ts";

type IndexContext = Pick<HeadContext, "storage" | "clock" | "lease" | "orderId" | "order">;

/**
 * An entry that is there already may be this one, whose writer died or got no answer, or a late copy of one from before a redrive; the latter,
 * told by its policy, gives way.
 *
 * @param type undefined if the event can't be read
 */
export async function enterDead(
  { storage, clock, orderId, order, lease }: IndexContext,
  subscription: string,
  queued: QueuedEvent,
  death: { readonly reason: string; readonly type: string | undefined; readonly policy: RetryPolicy["onDead"] },
): Promise<void> {
  const { id, sequence, attempts, history } = queued;
  const diedAt = new Date(clock.now()).toISOString();
  const { bytes, metadata } = encodeDeadLetter({ orderId, subscription, id, sequence, attempts, history, diedAt, ...death });
  const name = eventBlobName(subscription, order, id);
  const create = async (): Promise<boolean> => {
    lease.assertHeld();
    try {
      await storage.blobs.create("dead", name, bytes, metadata);
      return true;
    } catch (error) {
      if (!isOutboxError(error, "already-exists")) throw error;
      return false;
    }
  };
  if (await create()) return;
  const present = await storage.blobs.read("dead", name);
  if (present !== undefined && decodeDeadLetterSummary(present.metadata)?.policy === death.policy) return;
  if (present !== undefined) await storage.blobs.deleteUnchanged("dead", name, present.etag);
  await create();
}

/** It is dead no longer. Of this very entry: a copy of the request that lands late must not take that of a later death (W11). */
export async function leaveDead({ storage, order, lease }: IndexContext, subscription: string, { id }: QueuedEvent): Promise<void> {
  const name = eventBlobName(subscription, order, id);
  const present = await storage.blobs.read("dead", name);
  lease.assertHeld();
  if (present !== undefined) await storage.blobs.deleteUnchanged("dead", name, present.etag);
}

/** Undefined if the event can't be read. */
export async function typeOf(context: IndexContext, subscription: string, queued: QueuedEvent): Promise<string | undefined> {
  try {
    return (await readEvent(context, subscription, queued)).type;
  } catch (error) {
    if (!isOutboxError(error, "corrupt", "gap")) throw error;
    return undefined;
  }
}
