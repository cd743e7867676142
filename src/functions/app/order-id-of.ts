/** The OrderId in what the queue trigger hands over. */
import { OutboxError, describeError, printable } from "../../core/errors.ts";
import { parseOrderId, type OrderId } from "../../core/order-id.ts";

/**
 * The library has run `JSON.parse` on the message text by now and the text itself is gone (its trigger metadata are parsed too). A wake-up of
 * ours is a JSON string, so it arrives as what was sent. Bare text of another producer that is no JSON arrives as it is. Bare digits arrive as
 * a number: one that kept all its digits is taken at its word. Texts like `1e2` or `100.0` are the same number as `100` and wake that order,
 * which does no harm (W7). All else is ambiguous.
 *
 * @throws `invalid-order-id`
 */
export function orderIdOf(entry: unknown): OrderId {
  if (typeof entry === "string") return parseOrderId(entry);
  if (typeof entry === "number" && Number.isSafeInteger(entry)) return parseOrderId(String(entry));
  throw new OutboxError(
    "invalid-order-id",
    `the wake-up ${printable(describeError(entry), 60)} is ambiguous: send the OrderId as a JSON string`,
  );
}
