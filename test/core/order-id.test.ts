import * as fc from "fast-check";
import { describe, expect, test } from "vitest";
import { OutboxError } from "../../src/core/errors.ts";
import { eventBlobName, streamPrefix } from "../../src/core/names.ts";
import { decodeOrderKey, encodeKeyText, encodeOrderId, MAX_ORDER_ID_LENGTH, parseOrderId, type OrderId } from "../../src/core/order-id.ts";
import { anyOrderId, eventId, thrown, TRICKY_ORDER_IDS } from "./support.ts";

const KEY_ALPHABET = /^[A-Za-z0-9_~-]+$/;

/** What the table service refuses in keys, and what the URL layer and the blob service do to names. */
const UNSAFE_FOR_STORAGE = /[/\\#?%.\u0000-\u001F\u007F-\uFFFF]/;

describe("OrderId encoding (design §3, C07)", () => {
  test.each([
    ["100", "100"],
    ["o-1", "o-1"],
    ["O_1", "O_1"],
    ["..", "~2E~2E"],
    [".", "~2E"],
    ["a.", "a~2E"],
    ["a/b", "a~2Fb"],
    ["a%2Fb", "a~252Fb"],
    ["~", "~7E"],
    [" a", "~20a"],
    ["a ", "a~20"],
    ["\u0000", "~00"],
    ["\u007F", "~7F"],
    ["\u0080", "~gCA"],
    ["\u00E9", "~gDp"],
    ["e\u0301", "e~gMB"],
    ["\uFFFF", "~v__"],
  ])("%j has the key %s for good", (text, key) => {
    const orderId = parseOrderId(text);
    expect(encodeOrderId(orderId)).toBe(key);
    expect(decodeOrderKey(key)).toBe(text);
  });

  test("C07: ids that look alike to URLs, tables or people have keys and paths of their own", () => {
    const ids = TRICKY_ORDER_IDS.map(parseOrderId);
    const keys = ids.map(encodeOrderId);
    expect(new Set(keys).size).toBe(ids.length);
    // Azurite and some tools ignore case or normalise Unicode.
    for (const key of keys) expect(key).toMatch(KEY_ALPHABET);
    for (const [index, key] of keys.entries()) {
      const mine = eventBlobName("mail", key, eventId(1));
      expect(mine.split("/")).toHaveLength(3);
      const prefixesOfOthers = keys.filter((_, other) => other !== index).map((other) => streamPrefix("mail", other));
      expect(prefixesOfOthers.filter((prefix) => mine.startsWith(prefix))).toEqual([]);
      expect(new URL(`https://host/container/${mine}`).pathname).toBe(`/container/${mine}`);
    }
  });

  test("property: a key decodes to its id, and only to it", () => {
    fc.assert(
      fc.property(anyOrderId, (orderId) => {
        expect(decodeOrderKey(encodeOrderId(orderId))).toBe(orderId);
      }),
    );
  });

  test("property: distinct ids have distinct keys, and neither path begins the other", () => {
    fc.assert(
      fc.property(anyOrderId, anyOrderId, (one, other) => {
        fc.pre(one !== other);
        expect(encodeOrderId(one)).not.toBe(encodeOrderId(other));
        expect(`${encodeOrderId(one)}/`.startsWith(`${encodeOrderId(other)}/`)).toBe(false);
      }),
    );
  });

  test("property: keys hold nothing that tables, blob names, URLs or shells change", () => {
    fc.assert(
      fc.property(anyOrderId, (orderId) => {
        const key = encodeOrderId(orderId);
        expect(key).toMatch(KEY_ALPHABET);
        expect(key).not.toMatch(UNSAFE_FOR_STORAGE);
        expect(encodeURIComponent(key)).toBe(key);
        expect(key.length).toBeLessThanOrEqual(4 * orderId.length);
      }),
    );
  });

  test("the longest id has a key of 512 characters, the most a table key may have", () => {
    for (const unit of ["\u00E9", "\uFFFF", "\u65E5"]) {
      expect(encodeOrderId(parseOrderId(unit.repeat(MAX_ORDER_ID_LENGTH)))).toHaveLength(512);
    }
    expect(encodeOrderId(parseOrderId("\u{1F4E6}".repeat(MAX_ORDER_ID_LENGTH / 2)))).toHaveLength(512);
  });
});

describe("what can't be an OrderId (design §3)", () => {
  test.each<[string, unknown]>([
    ["nothing", ""],
    ["129 units", "a".repeat(129)],
    ["65 emoji, which are 130 units", "\u{1F4E6}".repeat(65)],
    ["a lone high surrogate", "a\uD83D"],
    ["a lone low surrogate", "\uDCE6a"],
    ["surrogates the wrong way round", "\uDCE6\uD83D"],
    ["a number", 100],
    ["a bigint", 100n],
    ["null", null],
    ["undefined", undefined],
    ["an object", { toString: () => "o-1" }],
    ["a String object", Object("o-1")],
    ["a list", ["o-1"]],
    ["a symbol", Symbol("o-1")],
  ])("%s is refused with invalid-order-id", (_name, value) => {
    const error = thrown(() => parseOrderId(value));
    expect(error).toBeInstanceOf(OutboxError);
    expect(error).toMatchObject({ code: "invalid-order-id" });
  });

  test("128 units are allowed", () => {
    expect(parseOrderId("a".repeat(128))).toHaveLength(128);
    expect(parseOrderId("\u{1F4E6}".repeat(64))).toHaveLength(128);
  });

  test("the message is bounded and holds no control characters", () => {
    const { message } = thrown(() => parseOrderId(`\u001B[2J\u202E${"x".repeat(100_000)}`)) as Error;
    expect(message.length).toBeLessThan(300);
    expect(message).not.toMatch(/[\u001B\u202E]/);
  });
});

describe("keys that no OrderId has", () => {
  test.each([
    ["nothing", ""],
    ["a dot", "a.b"],
    ["a slash", "a/b"],
    ["a percent sign", "a%20b"],
    ["an unfinished escape", "a~2"],
    ["a lone tilde", "~"],
    ["lower-case hexadecimal", "a~2e"],
    ["a letter that needs no escape", "~61"],
    ["a dash that needs no escape", "~2D"],
    ["an ASCII character in the long form", "~gBh"],
    ["half of a surrogate pair", "~tg9"],
    ["a tail of the long form that is no digit", "~g~~"],
    ["129 units", "a".repeat(129)],
    ["a line break at the end", "a\n"],
  ])("%s: %j", (_name, key) => {
    expect(decodeOrderKey(key)).toBeUndefined();
  });

  test("property: whatever decodes is the canonical key of its id", () => {
    const keyLike = fc.string({ unit: fc.constantFrom(...Array.from("aZ09_-~gv27EF.%/")), maxLength: 12 });
    fc.assert(
      fc.property(fc.oneof(keyLike, fc.string({ unit: "binary" })), (key) => {
        const orderId = decodeOrderKey(key);
        expect(orderId === undefined || encodeOrderId(orderId) === key).toBe(true);
      }),
      { numRuns: 1_000 },
    );
  });
});

test("property: texts with half surrogate pairs keep distinct keys too, so idempotency keys can't collide", () => {
  const anyUnits = fc.string({ unit: "binary", maxLength: 8 });
  fc.assert(
    fc.property(anyUnits, anyUnits, (one, other) => {
      expect(encodeKeyText(one) === encodeKeyText(other)).toBe(one === other);
    }),
  );
});

test("the brand is only a type: an OrderId is the text itself", () => {
  const orderId: OrderId = parseOrderId("o-1");
  expect(orderId).toBe("o-1");
});
