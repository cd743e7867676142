/** Switches that operators set: a subscription, or one order of it, is paused (F5). Kept as rows of one partition that no order can have. */
import { assertSubscriptionName } from "./names.ts";
import { decodeOrderKey, type OrderId, type OrderKey } from "./order-id.ts";

export interface Pause {
  readonly subscription: string;
  /** Undefined: all orders of the subscription. */
  readonly orderId: OrderId | undefined;
  readonly actor: string;
  readonly reason: string;
  /** ISO 8601. */
  readonly at: string;
}

/** No OrderKey begins with `~` and ends there. */
export const CONTROL_PARTITION = "~" as OrderKey;

/** How long workers may go on with what they knew: a pause or resume takes effect within this time. */
export const CONTROL_CACHE_MS = 15_000;

export function pauseRow(subscription: string, order: OrderKey | undefined): string {
  assertSubscriptionName(subscription);
  return order === undefined ? `pause:${subscription}` : `pause:${subscription}:${order}`;
}

/** What a row key of the control partition pauses, or undefined for other rows. */
export function parsePauseRow(rowKey: string): Pick<Pause, "subscription" | "orderId"> | undefined {
  const match = /^pause:([a-z0-9-]+)(?::(.+))?$/.exec(rowKey);
  if (match === null) return undefined;
  const orderId = match[2] === undefined ? undefined : decodeOrderKey(match[2]);
  if (match[2] !== undefined && orderId === undefined) return undefined;
  return { subscription: match[1]!, orderId };
}

export function isPaused(pauses: readonly Pause[], subscription: string, orderId: string): Pause | undefined {
  return pauses.find((pause) => pause.subscription === subscription && (pause.orderId === undefined || pause.orderId === orderId));
}
