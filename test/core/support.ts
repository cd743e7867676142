/** What the tests of core share: hostile values, and how to catch an error. */
import * as fc from "fast-check";
import { expect } from "vitest";
import type { EventId } from "../../src/core/event-id.ts";
import { MAX_ORDER_ID_LENGTH, parseOrderId, type OrderId } from "../../src/core/order-id.ts";

/** Ids that some layer between us and the disk changes, cuts or takes for another (C07, C23). */
export const TRICKY_ORDER_IDS: readonly string[] = [
  "..",
  ".",
  "...",
  "a.",
  "a",
  "A",
  "a/b",
  "a%2Fb",
  "a\\b",
  "%2e%2e",
  "%",
  " a",
  "a ",
  " ",
  "o-1",
  "o-10",
  "o-1-x",
  "o_1",
  "~",
  "~2E",
  "100",
  "0100",
  "1e5",
  "100000",
  "-0",
  "12345678901234567890",
  "true",
  "null",
  '"o-1"',
  "'; drop table orders --",
  "<a>&\"'",
  "abcd",
  "1234",
  "caf\u00E9",
  "cafe\u0301",
  "\u65E5\u672C\u8A9E\u306E\u6CE8\u6587",
  "\u{1F4E6}",
  "\u{1F468}\u200D\u{1F469}\u200D\u{1F467}",
  "\u0000",
  "a\nb",
  "a\r\nb",
  "\u001B[2J",
  "\u202Eabc",
  "\u2028",
  "\uFEFFa",
  "\uFFFD",
  "\uFFFF",
  "__proto__",
  "constructor",
  "a?b#c",
  "order",
  "outbox:01JZ0000000000000000000001",
];

/** Any OrderId there can be, the tricky ones among them. */
export const anyOrderId: fc.Arbitrary<OrderId> = fc
  .oneof(
    fc.constantFrom(...TRICKY_ORDER_IDS),
    fc.string({ unit: "binary", minLength: 1, maxLength: MAX_ORDER_ID_LENGTH }),
    fc.string({ unit: fc.constantFrom("~", "2", "E", ".", "/", "%", "g", "\u00E9", "\u{1F4E6}"), minLength: 1, maxLength: 6 }),
    fc.string({ unit: fc.integer({ min: 1, max: 0xffff }).map((unit) => String.fromCharCode(unit)), minLength: 1, maxLength: 8 }),
    fc.nat().map(String),
  )
  .filter((text) => text.length <= MAX_ORDER_ID_LENGTH && text.isWellFormed())
  .map(parseOrderId);

/** `01JZ0000000000000000000001` for 1. */
export function eventId(number: number): EventId {
  return `01JZ${String(number).padStart(22, "0")}` as EventId;
}

/** What `action` throws. */
export function thrown(action: () => unknown): unknown {
  let result: unknown;
  try {
    result = action();
  } catch (error) {
    return error;
  }
  return expect.fail(`returned ${String(result)} instead of throwing`);
}
