import { decodeHolderMark } from "../core/holder-mark.ts";
import type { OrderKey } from "../core/order-id.ts";
import type { LeaseBlob } from "../core/ports.ts";
import type { OperationsContext } from "./context.ts";

/**
 * Since when the lease of an order is held, in milliseconds since 1970 by its worker's clock. Undefined if it is not held, or its holder has
 * not left its mark yet: the mark on the blob may be that of a round before. Costs one call for a lease that is taken.
 */
export async function heldSince(context: OperationsContext, order: OrderKey, lease: LeaseBlob | undefined): Promise<number | undefined> {
  const mark = lease?.state === "taken" ? decodeHolderMark(lease.metadata) : undefined;
  if (mark === undefined || !(await context.storage.leases.isHeldBy(order, mark.leaseId))) return undefined;
  return mark.sinceMs;
}
