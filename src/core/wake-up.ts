/**
 * The text of a wake-up: the OrderId as a JSON string, ASCII only.
 *
 * Why JSON: the Functions library runs `JSON.parse` on queue text, so a bare `12345678901234567890` would arrive rounded and `1e5` as
 * 100000. Why ASCII: control characters and some others do not survive the queue's XML. Producer, worker and trigger share this codec.
 */
import { OutboxError, printable } from "./errors.ts";
import { parseOrderId, type OrderId } from "./order-id.ts";

export function encodeWakeUp(orderId: OrderId): string {
  return JSON.stringify(orderId).replace(/[\u007F-\uFFFF]/g, (unit) => `\\u${unit.charCodeAt(0).toString(16).padStart(4, "0")}`);
}

/**
 * The OrderId in the text of a queue message. A bare text from another producer is accepted where every reader understands it alike:
 * text that is no JSON (`o-1`, `0012`), or a number that reads back as it was written (`100`). `1e5`, `true` and `12345678901234567890`
 * are refused. Throws `invalid-order-id`.
 */
export function decodeWakeUp(text: string): OrderId {
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch {
    return parseOrderId(text);
  }
  if (typeof value === "string") return parseOrderId(value);
  if (typeof value === "number" && Number.isSafeInteger(value) && String(value) === text) return parseOrderId(text);
  throw new OutboxError("invalid-order-id", `the wake-up ${printable(text, 60)} is ambiguous: send the OrderId as a JSON string`);
}
