import { decodeHolderMark, type HolderMark } from "../core/holder-mark.ts";
import type { OrderKey } from "../core/order-id.ts";
import type { LeaseBlob } from "../core/ports.ts";
import type { OperationsContext } from "./context.ts";

/**
 * Who holds the lease of an order, and since when. Undefined if it is not held, or its holder has
 * not left its mark yet: the mark on the blob may be that of a round before. Costs one call for a lease that is taken.
 */
export async function holderOf(context: OperationsContext, order: OrderKey, lease: LeaseBlob | undefined): Promise<HolderMark | undefined> {
  const mark = lease?.state === "taken" ? decodeHolderMark(lease.metadata) : undefined;
  if (mark === undefined || !(await context.storage.leases.isHeldBy(order, mark.leaseId))) return undefined;
  return mark;
}
