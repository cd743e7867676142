/** Filters that find nothing: because nothing is there, or because a name is wrong? A typo must not read like an all-clear. */
import { parseOrderId } from "../core/order-id.ts";
import type { OperationsContext } from "../operations/context.ts";
import { assertKnownSubscription } from "../operations/known-subscriptions.ts";
import { assertKnownOrder } from "../operations/order-trace.ts";

/** To be asked when nothing was found, since it costs listings. Throws `not-found` for a name that nothing in storage speaks of. */
export async function assertKnown(
  context: OperationsContext,
  { subscription, orderId }: { readonly subscription?: string | undefined; readonly orderId?: string | undefined },
): Promise<void> {
  if (subscription !== undefined) await assertKnownSubscription(context, subscription);
  if (orderId !== undefined) await assertKnownOrder(context, parseOrderId(orderId));
}
