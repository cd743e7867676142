import type { EventId } from "../core/event-id.ts";
import { eventBlobName, UNROUTED, type Container } from "../core/names.ts";
import type { OrderKey } from "../core/order-id.ts";
import type { Storage } from "../core/ports.ts";
import { decodeProgress } from "../core/progress.ts";

/**
 * Did this event get into storage? Looks at the outbox, then at the pending events, then at the archive: an event moves in this direction, so
 * it can't slip past (C2). Which streams to look at is in the order's progress: a worker names a stream there before the entities of its events
 * go (W1), and an event that no subscription wants is in the archive by then.
 *
 * False means "not found", which is no proof: retention may have removed it.
 */
export async function traceEvent(storage: Storage, order: OrderKey, id: EventId): Promise<boolean> {
  const { outbox } = await storage.orders.readOutbox(order);
  if (outbox.some((entity) => entity.id === id)) return true;
  // Asked for anew each time: streams only ever get more while the event moves.
  if (await isIn("events", await subscriptionsOf(storage, order))) return true;
  return isIn("archive", [UNROUTED, ...(await subscriptionsOf(storage, order))]);

  async function isIn(container: Container, names: readonly string[]): Promise<boolean> {
    for (const name of names) {
      if ((await storage.blobs.read(container, eventBlobName(name, order, id))) !== undefined) return true;
    }
    return false;
  }
}

/** Subscriptions that events of the order have been relayed to. */
async function subscriptionsOf(storage: Storage, order: OrderKey): Promise<readonly string[]> {
  const lease = await storage.leases.read(order);
  return lease === undefined ? [] : Object.keys(decodeProgress(lease.metadata).streams);
}
