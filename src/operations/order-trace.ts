/** Is there such an order? */
import { isOutboxError, OutboxError } from "../core/errors.ts";
import { unknownOrderText } from "../core/explain.ts";
import { encodeOrderId, type OrderId, type OrderKey } from "../core/order-id.ts";
import type { OrdersTable } from "../core/ports.ts";
import { parseEventBlobName } from "./blob-name.ts";
import type { OperationsContext } from "./context.ts";

/** What is said of an order that nothing in storage speaks of. */
export function unknownOrder(orderId: OrderId): OutboxError {
  return new OutboxError("not-found", unknownOrderText(orderId));
}

/**
 * Costs two calls for an order that is in the table or that a worker has had; otherwise listings of `events/` and `dead/` besides.
 *
 * @throws `not-found` if nothing in storage speaks of the order; what storage throws
 */
export async function assertKnownOrder({ storage }: OperationsContext, orderId: OrderId): Promise<void> {
  const order = encodeOrderId(orderId);
  if ((await hasRows(storage.orders, order)) || (await storage.leases.read(order)) !== undefined) return;
  for (const container of ["events", "dead"] as const) {
    for await (const { name } of storage.blobs.list(container, "")) if (parseEventBlobName(name)?.order === order) return;
  }
  throw unknownOrder(orderId);
}

async function hasRows(orders: OrdersTable, order: OrderKey): Promise<boolean> {
  try {
    const found = await orders.readOutbox(order);
    return found.order !== undefined || found.outbox.length + found.unreadable.length > 0;
  } catch (error) {
    // There is a row, whoever wrote it.
    if (isOutboxError(error, "corrupt")) return true;
    throw error;
  }
}
