/**
 * Switches: a subscription, or one order of it, is paused (F5), by an operator or because its handler says that it is gone. Kept as rows of one
 * partition that no order can have.
 */
import { assertSubscriptionName, type RowRange } from "./names.ts";
import { decodeOrderKey, encodeOrderId, parseOrderId, type OrderId, type OrderKey } from "./order-id.ts";
import type { StoredEntity } from "./ports.ts";

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

/** Who switches a subscription off whose handler says that it is gone. */
export const WORKER_ACTOR = "worker";

/** The most characters a row key may have. */
const MAX_ROW_KEY_LENGTH = 512;
/** No OrderKey has it: what follows is the OrderId in a shorter form, where its key would leave no room for the rest of the row key. */
const SHORTENED = "!";

export function pauseRow(subscription: string, order: OrderKey | undefined): string {
  assertSubscriptionName(subscription);
  return order === undefined ? `pause:${subscription}` : orderRow(subscription, order);
}

function orderRow(subscription: string, order: OrderKey): string {
  const rowKey = `pause:${subscription}:${order}`;
  return rowKey.length <= MAX_ROW_KEY_LENGTH ? rowKey : `pause:${subscription}:${SHORTENED}${shortened(order)}`;
}

/** At most 342 characters: four characters hold three bytes, two of which are a unit, while a key may take four for each unit. */
function shortened(order: OrderKey): string {
  return Buffer.from(decodeOrderKey(order)!, "utf16le").toString("base64url");
}

function orderIdOf(text: string): OrderId | undefined {
  if (!text.startsWith(SHORTENED)) return decodeOrderKey(text);
  try {
    return parseOrderId(Buffer.from(text.slice(SHORTENED.length), "base64url").toString("utf16le"));
  } catch {
    return undefined;
  }
}

/** What a row key of the control partition pauses, or undefined for other rows. */
export function parsePauseRow(rowKey: string): Pick<Pause, "subscription" | "orderId"> | undefined {
  const match = /^pause:([a-z0-9-]+)(?::(.+))?$/.exec(rowKey);
  if (match === null) return undefined;
  const [, subscription = "", order] = match;
  if (order === undefined) return { subscription, orderId: undefined };
  const orderId = orderIdOf(order);
  // Each order has one row.
  return orderId !== undefined && orderRow(subscription, encodeOrderId(orderId)) === rowKey ? { subscription, orderId } : undefined;
}

/** Rows of the control partition that are pauses. */
export const PAUSE_ROWS: RowRange = { from: "pause:", to: "pause;" };

/** A pause as its row has it; undefined for other rows of the control partition. */
export function decodePause(rowKey: string, properties: StoredEntity["properties"]): Pause | undefined {
  const target = parsePauseRow(rowKey);
  const text = (name: string): string => (typeof properties[name] === "string" ? properties[name] : "");
  return target && { ...target, actor: text("actor"), reason: text("reason"), at: text("at") };
}

/** Looks for the pause that holds up an order's stream, however many pauses there are: first one of the subscription as a whole. */
export function pauseFinder(pauses: readonly Pause[]): (subscription: string, orderId: string) => Pause | undefined {
  // Subscription names have no spaces.
  const keyOf = (subscription: string, orderId: string | undefined): string =>
    orderId === undefined ? subscription : `${subscription} ${orderId}`;
  const byTarget = new Map(pauses.map((pause) => [keyOf(pause.subscription, pause.orderId), pause]));
  return (subscription, orderId) => byTarget.get(keyOf(subscription, undefined)) ?? byTarget.get(keyOf(subscription, orderId));
}

export function isPaused(pauses: readonly Pause[], subscription: string, orderId: string): Pause | undefined {
  return pauseFinder(pauses)(subscription, orderId);
}
