/** Ends an order's lease by force, for a holder that neither finishes nor dies. */
import { encodeOrderId, type OrderId } from "../core/order-id.ts";
import { audited } from "./audit-log.ts";
import type { OperationsContext, Operator } from "./context.ts";
import { assertKnownOrder } from "./order-trace.ts";
import { tryWakeUp } from "./wake.ts";

export interface UnlockResult {
  readonly orderId: OrderId;
  /** `not-held`: there was no lease to break, and nothing was changed. `would-break`: a dry run. */
  readonly outcome: "broken" | "not-held" | "would-break";
  /** What may happen now, for people. */
  readonly warning?: string;
}

const WARNING =
  "the handler that ran under the lease may still be running, and its event may run a second time beside it; nothing of what the old holder writes counts any more";

/**
 * Breaks the lease, then sends a wake-up, so that another worker takes the order over. An expired lease needs no breaking: any worker may
 * take it.
 *
 * @throws `not-found` for an order that storage knows nothing of
 */
export async function unlockOrder(
  context: OperationsContext,
  orderId: OrderId,
  operator: Operator,
  options: { readonly dryRun?: boolean } = {},
): Promise<UnlockResult> {
  const order = encodeOrderId(orderId);
  const { leases } = context.storage;
  const lease = await leases.read(order);
  if (lease === undefined) await assertKnownOrder(context, orderId);
  if (lease?.state !== "taken") return { orderId, outcome: "not-held" };
  if (options.dryRun === true) return { orderId, outcome: "would-break", warning: WARNING };
  return audited(context, { ...operator, action: "unlock", target: { orderId } }, async () => {
    await leases.break(order);
    await tryWakeUp(context, orderId);
    return { orderId, outcome: "broken", warning: WARNING };
  });
}
