import { decodeProgress } from "../core/progress.ts";
import { eventBlobName, type Container } from "../core/names.ts";
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
  const subscriptions = await subscriptionsOf(storage, order);
  if (subscriptions === undefined) return false;
  if (await isIn("events", subscriptions)) return true;
  // A subscription that has finished nothing yet is not in the progress: only the blobs name it.
  for await (const { name } of storage.blobs.list("events", "")) {
    if (name.endsWith(eventBlobName("", order, id))) return true;
  }
  return isIn("archive", (await subscriptionsOf(storage, order)) ?? []);

  async function isIn(container: Container, names: readonly string[]): Promise<boolean> {
    for (const name of names) {
      if ((await storage.blobs.read(container, eventBlobName(name, order, id))) !== undefined) return true;
    }
    return false;
  }
}

/** Subscriptions that have finished events of the order; undefined if no worker ever saw it. */
async function subscriptionsOf(storage: Storage, order: OrderKey): Promise<readonly string[] | undefined> {
  const lease = await storage.leases.read(order);
  return lease && Object.keys(decodeProgress(lease.metadata).streams);
}
