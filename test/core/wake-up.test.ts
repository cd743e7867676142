import * as fc from "fast-check";
import { describe, expect, test } from "vitest";
import { decodeWakeUp, encodeWakeUp } from "../../src/core/wake-up.ts";
import { parseOrderId } from "../../src/core/order-id.ts";
import { anyOrderId, thrown, TRICKY_ORDER_IDS } from "./support.ts";

/** What the queue trigger of the Functions library does to a text before our code sees it. */
function asTriggerSeesIt(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return text;
  }
}

describe("wake-up text (C23)", () => {
  test.each([
    ["100", '"100"'],
    ["12345678901234567890", '"12345678901234567890"'],
    ["1e5", '"1e5"'],
    ["abcd", '"abcd"'],
    ["\u00E9\u{1F4E6}", '"\\u00e9\\ud83d\\udce6"'],
    ['<a>&"', '"<a>&\\""'],
    ["\r\n", '"\\r\\n"'],
    ["\u0000", '"\\u0000"'],
    ["\u007F", '"\\u007f"'],
    ["\uFEFF", '"\\ufeff"'],
  ])("the id %j is sent as %s", (id, text) => {
    expect(encodeWakeUp(parseOrderId(id))).toBe(text);
    expect(decodeWakeUp(text)).toBe(id);
  });

  test("property: every OrderId comes back, through our loop and through the trigger", () => {
    fc.assert(
      fc.property(anyOrderId, (orderId) => {
        const text = encodeWakeUp(orderId);
        expect(decodeWakeUp(text)).toBe(orderId);
        expect(asTriggerSeesIt(text)).toBe(orderId);
      }),
    );
  });

  test("property: the text is visible ASCII, so XML and headers carry it unchanged", () => {
    fc.assert(
      fc.property(anyOrderId, (orderId) => {
        expect(encodeWakeUp(orderId)).toMatch(/^[\x20-\x7E]+$/);
      }),
    );
  });

  test("the longest text is far below the 64 KiB of a message", () => {
    expect(encodeWakeUp(parseOrderId("\uFFFF".repeat(128))).length).toBeLessThan(1_000);
  });

  test.each([
    "o-1",
    "0012",
    "100",
    "0",
    "-5",
    "9007199254740991",
    "abcd",
    "undefined",
    "NaN",
    "Infinity",
    "0x10",
    "'o-1'",
    '"o-1',
    "\u00E9\u{1F4E6}",
  ])("a bare %j from another producer wakes the order of that name", (text) => {
    expect(decodeWakeUp(text)).toBe(text);
  });

  test.each([
    "1e5",
    "1E5",
    "1.0",
    "-0",
    "100.0",
    "12345678901234567890",
    "9007199254740993",
    "1e400",
    " 100",
    "100\n",
    "true",
    "false",
    "null",
    "{}",
    '{"id":"o-1"}',
    "[]",
    '["o-1"]',
  ])("a bare %j means different things to different readers and is refused", (text) => {
    expect(thrown(() => decodeWakeUp(text))).toMatchObject({ code: "invalid-order-id" });
  });

  test.each(["", '""', `"${"a".repeat(129)}"`, "x".repeat(129), String.raw`"\ud83d"`, "\uD83D"])(
    "a text that holds no OrderId is refused",
    (text) => {
      expect(thrown(() => decodeWakeUp(text))).toMatchObject({ code: "invalid-order-id" });
    },
  );

  test("property: any text decodes to what the trigger sees, or is refused with invalid-order-id", () => {
    fc.assert(
      fc.property(
        fc.oneof(
          fc.string({ unit: "binary" }),
          fc.json(),
          fc.double().map(String),
          fc.bigInt().map(String),
          fc.constantFrom(...TRICKY_ORDER_IDS),
        ),
        (text) => {
          let orderId: string;
          try {
            orderId = decodeWakeUp(text);
          } catch (error) {
            expect(error).toMatchObject({ code: "invalid-order-id" });
            return;
          }
          expect(orderId).toBe(String(asTriggerSeesIt(text)));
        },
      ),
      { numRuns: 500 },
    );
  });
});
