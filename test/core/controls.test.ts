/** F5: rows of pauses. */
import * as fc from "fast-check";
import { expect, test } from "vitest";
import { parsePauseRow, pauseRow } from "../../src/core/controls.ts";
import { MAX_SUBSCRIPTION_NAME_LENGTH } from "../../src/core/names.ts";
import { encodeOrderId, MAX_ORDER_ID_LENGTH, parseOrderId } from "../../src/core/order-id.ts";

const LONGEST_NAME = "m".repeat(MAX_SUBSCRIPTION_NAME_LENGTH);

test("F5: every order of every subscription has a row key that fits, and no two have the same", () => {
  const orderIds = fc
    .string({ unit: "binary", minLength: 1, maxLength: MAX_ORDER_ID_LENGTH })
    .filter((text) => text.length <= MAX_ORDER_ID_LENGTH && text.isWellFormed());
  const long = fc.constantFrom("注".repeat(MAX_ORDER_ID_LENGTH), `${"😀".repeat(63)}a`, "\u0000é".repeat(64));
  fc.assert(
    fc.property(fc.oneof(orderIds, long), fc.constantFrom("a", LONGEST_NAME), (text, subscription) => {
      const orderId = parseOrderId(text);
      const rowKey = pauseRow(subscription, encodeOrderId(orderId));
      expect(rowKey.length).toBeLessThanOrEqual(512);
      expect(parsePauseRow(rowKey)).toEqual({ subscription, orderId });
    }),
  );
});

test("an order has its plain key in the row key as long as there is room", () => {
  expect(pauseRow("audit", encodeOrderId(parseOrderId("o/1")))).toBe("pause:audit:o~2F1");
});

test.each(["pause:audit:!", "pause:audit:!AAA", "pause:audit:!YQA=", "pause:audit:!YQ A", "pause:audit:a/b", "pause:", "other"])(
  "%s is no row of a pause",
  (rowKey) => expect(parsePauseRow(rowKey)).toBeUndefined(),
);
