/**
 * OrderIds and their one reversible encoding.
 *
 * An OrderId is any non-empty well-formed text of up to 128 UTF-16 units. Table keys refuse `/ \ # ?` and control characters, blob names
 * lose dot segments and trailing dots, some tools decode `%`. So every place that names an order uses its {@link OrderKey}, made of
 * `A-Z a-z 0-9 _ - ~` alone: each other UTF-16 unit is written as `~` and two hexadecimal digits (ASCII) or as `~` and three characters
 * (the rest). Distinct ids have distinct keys, no key is the beginning of another order's path (paths end the segment with `/`), and the
 * longest key has 512 characters, the most a table key may have.
 */
import { OutboxError, printable } from "./errors.ts";

declare const brand: unique symbol;
/** A validated OrderId. */
export type OrderId = string & { readonly [brand]: "OrderId" };
/** The encoded form of an OrderId: partition key, blob path segment and lease name. */
export type OrderKey = string & { readonly [brand]: "OrderKey" };

export const MAX_ORDER_ID_LENGTH = 128;

const DIGITS = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
/** The first of the three characters holds four bits; letters g to v tell it from a hexadecimal digit 0 to 7. */
const FIRST = "ghijklmnopqrstuv";

/** Checks that `text` can be an OrderId. Throws `invalid-order-id`. */
export function parseOrderId(text: unknown): OrderId {
  if (typeof text !== "string") {
    throw new OutboxError("invalid-order-id", `an OrderId is a string, got ${text === null ? "null" : typeof text}. Quote numeric ids.`);
  }
  if (text.length === 0) throw new OutboxError("invalid-order-id", "an OrderId has at least one character");
  if (text.length > MAX_ORDER_ID_LENGTH) {
    throw new OutboxError(
      "invalid-order-id",
      `"${printable(text, 40)}" has ${text.length} UTF-16 units, at most ${MAX_ORDER_ID_LENGTH} are allowed`,
    );
  }
  if (!text.isWellFormed()) {
    throw new OutboxError("invalid-order-id", `"${printable(text, 40)}" contains half of a surrogate pair`);
  }
  return text as OrderId;
}

export function encodeOrderId(orderId: OrderId): OrderKey {
  return encodeKeyText(orderId) as OrderKey;
}

/** The encoding of {@link encodeOrderId} for any text that becomes part of a key; at most four times as long as the text. */
export function encodeKeyText(text: string): string {
  return text.replace(/[^A-Za-z0-9_-]/g, (unit) => {
    const code = unit.charCodeAt(0);
    if (code < 0x80) return `~${code.toString(16).toUpperCase().padStart(2, "0")}`;
    return `~${FIRST[code >> 12]}${DIGITS[(code >> 6) & 63]}${DIGITS[code & 63]}`;
  });
}

/** The OrderId of a key, or undefined if no OrderId has this key (a foreign name in our containers). */
export function decodeOrderKey(key: string): OrderId | undefined {
  if (!/^(?:[A-Za-z0-9_-]|~[0-7][0-9A-F]|~[g-v][A-Za-z0-9_-]{2})+$/.test(key)) return undefined;
  const text = key.replace(/~(?:([0-7][0-9A-F])|(..)(.))/g, (_match, ascii: string | undefined, high: string, low: string) => {
    if (ascii !== undefined) return String.fromCharCode(Number.parseInt(ascii, 16));
    return String.fromCharCode((FIRST.indexOf(high[0]!) << 12) | (DIGITS.indexOf(high[1]!) << 6) | DIGITS.indexOf(low));
  });
  if (text.length > MAX_ORDER_ID_LENGTH || !text.isWellFormed()) return undefined;
  return encodeKeyText(text) === key ? (text as OrderId) : undefined;
}
