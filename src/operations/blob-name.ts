import type { EventId } from "../core/event-id.ts";
import { assertSubscriptionName, eventIdOfBlob, UNROUTED } from "../core/names.ts";
import { decodeOrderKey, type OrderId, type OrderKey } from "../core/order-id.ts";

/** What the name of an event's blob says, in `events`, `archive` and `dead` alike. */
export interface EventBlobName {
  /** {@link UNROUTED} for an archived event that no subscription wanted. */
  readonly subscription: string;
  readonly order: OrderKey;
  readonly orderId: OrderId;
  readonly id: EventId;
}

/** Undefined for a name that is none of ours (W10). */
export function parseEventBlobName(name: string): EventBlobName | undefined {
  const [subscription, order, file, ...rest] = name.split("/");
  if (subscription === undefined || order === undefined || file === undefined || rest.length > 0) return undefined;
  const id = eventIdOfBlob(file, "");
  const orderId = decodeOrderKey(order);
  if (id === undefined || orderId === undefined || !isSubscriptionName(subscription)) return undefined;
  return { subscription, order: order as OrderKey, orderId, id };
}

function isSubscriptionName(text: string): boolean {
  if (text === UNROUTED) return true;
  try {
    assertSubscriptionName(text);
    return true;
  } catch {
    return false;
  }
}
