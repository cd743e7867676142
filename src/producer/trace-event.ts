import { decodeProgress } from "../core/progress.ts";
import { eventBlobName } from "../core/names.ts";
import type { EventId } from "../core/event-id.ts";
import type { OrderKey } from "../core/order-id.ts";
import type { Storage } from "../core/ports.ts";

/**
 * Did this event get into storage? Looks at the outbox, then at the pending events, then at the archive: an event moves in this direction, so
 * it can't slip past (C2). False means "not found", which is no proof: an event that no subscription wants leaves no blob.
 */
export async function traceEvent(storage: Storage, order: OrderKey, id: EventId): Promise<boolean> {
  const { outbox } = await storage.orders.readOutbox(order);
  if (outbox.some((entity) => entity.id === id)) return true;
  const lease = await storage.leases.read(order);
  if (lease === undefined) return false;
  const subscriptions = Object.keys(decodeProgress(lease.metadata).streams);
  for (const container of ["events", "archive"] as const) {
    for (const subscription of subscriptions) {
      if ((await storage.blobs.read(container, eventBlobName(subscription, order, id))) !== undefined) return true;
    }
  }
  return false;
}
