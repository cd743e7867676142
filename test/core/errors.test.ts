import * as fc from "fast-check";
import { describe, expect, test } from "vitest";
import { describeError, describeStack, isOutboxError, MAX_ERROR_TEXT_LENGTH, OutboxError, printable } from "../../src/core/errors.ts";

const FORGING = /[\u0000-\u001F\u007F-\u009F\u2028\u2029\u202A-\u202E\u2066-\u2069]/;
/** The one text that is printed so. */
function readBack(printed: string): string {
  return printed.replace(/\\u([0-9a-f]{4})/g, (_escape, digits: string) => String.fromCharCode(Number.parseInt(digits, 16)));
}

const cyclic: Record<string, unknown> = {};
cyclic["self"] = cyclic;

describe("errors", () => {
  test("the message starts with the code, details and cause are kept", () => {
    const cause = new Error("underneath");
    const error = new OutboxError("conflict", "others won", { cause, details: { status: 412 } });
    expect(error).toMatchObject({
      name: "OutboxError",
      code: "conflict",
      message: "conflict: others won",
      cause,
      details: { status: 412 },
    });
    expect(isOutboxError(error)).toBe(true);
    expect(isOutboxError(error, "timeout", "conflict")).toBe(true);
    expect(isOutboxError(error, "timeout")).toBe(false);
    expect(isOutboxError(cause)).toBe(false);
  });

  test.each<[string, unknown, string]>([
    ["an error", new TypeError("no"), "TypeError: no"],
    ["one of ours", new OutboxError("timeout", "late"), "timeout: late"],
    ["a text", "boom", "boom"],
    ["undefined", undefined, "undefined"],
    ["null", null, "null"],
    ["an object", { code: 5 }, '{"code":5}'],
    ["a cyclic object", cyclic, "[object Object]"],
    ["a bigint", 5n, "[object BigInt]"],
    ["a symbol", Symbol("s"), "Symbol(s)"],
    ["a text of several lines", "a\r\nFORGED 200 OK", String.raw`a\u000d\u000aFORGED 200 OK`],
    ["terminal escapes", "\u001B[2J", String.raw`\u001b[2J`],
    ["text that runs backwards", "\u202Eevil", String.raw`\u202eevil`],
  ])("%s thrown is described in one printable line", (_name, thrownValue, text) => {
    expect(describeError(thrownValue)).toBe(text);
  });

  test("property: whatever is thrown, the description is bounded, printable and well formed", () => {
    const thrownValues = fc.oneof(
      fc.anything(),
      fc.string({ unit: "binary" }).map((text) => new Error(text)),
      fc.string({ minLength: 1_000, maxLength: 5_000 }),
    );
    fc.assert(
      fc.property(thrownValues, (value) => {
        const text = describeError(value);
        expect(text.length).toBeLessThanOrEqual(MAX_ERROR_TEXT_LENGTH + 1);
        expect(text).not.toMatch(FORGING);
        expect(text.isWellFormed()).toBe(true);
      }),
    );
  });

  test.each([
    ["o\n1", String.raw`o\u000a1`],
    [String.raw`o\u000a1`, String.raw`o\u005cu000a1`],
    [String.raw`o\u005cu000a1`, String.raw`o\u005cu005cu000a1`],
    ["\\\n", String.raw`\\u000a`],
    [String.raw`C:\users`, String.raw`C:\users`],
    ["o-1\u061c", String.raw`o-1\u061c`],
    ["o\u200b-1", String.raw`o\u200b-1`],
    ["o-1\ufeff", String.raw`o-1\ufeff`],
    ["o-\u{e0041}1", String.raw`o-\udb40\udc411`],
    ["o\u00ad-1", String.raw`o\u00ad-1`],
    ["o\u2060-\u20641", String.raw`o\u2060-\u20641`],
    ["\u3164o-1\ufe0f", String.raw`\u3164o-1\ufe0f`],
    ["o\u00a01 2\u3000", String.raw`o\u00a01 2\u3000`],
    ["Größe 注 \u{1F4E6} e\u0301", "Größe 注 \u{1F4E6} e\u0301"],
  ])("C23: %j is printed as %s", (text, printed) => {
    expect(printable(text)).toBe(printed);
    expect(readBack(printed)).toBe(text);
  });

  test("property: what is printed tells which text it was", () => {
    const piece = fc.constantFrom("\\", "u", "\n", "0", "a", "00", "\\u000a", "\\u005c", "\u202e", "é", "\u200b", "\u{e0041}", "\u00a0");
    const texts = fc.oneof(
      fc.array(piece).map((pieces) => pieces.join("")),
      fc.string({ unit: "binary" }),
    );
    fc.assert(fc.property(texts, (text) => readBack(printable(text, Number.POSITIVE_INFINITY)) === text));
  });

  test("property: nothing that is printed is invisible", () => {
    const invisible = /[\p{Cc}\p{Cf}\p{Zl}\p{Zp}\p{Default_Ignorable_Code_Point}]|(?! )\p{Zs}/u;
    const hidden = fc.constantFrom("\u061c", "\u200b", "\u180e", "\u{e0041}", "\u034f", "\u2003");
    const texts = fc.array(fc.oneof(fc.string({ unit: "binary" }), hidden)).map((pieces) => pieces.join(""));
    fc.assert(fc.property(texts, (text) => !invisible.test(printable(text, Number.POSITIVE_INFINITY))));
  });

  test("an id that one of our errors quotes is escaped once, however often the error is told", () => {
    const error = new OutboxError("not-found", `there is no order ${printable("o\n1")}`);
    expect(describeError(error)).toBe(String.raw`not-found: there is no order o\u000a1`);
    expect(describeStack(error)).toContain(String.raw`no order o\u000a1`);
    expect(describeStack(error)).not.toMatch(FORGING);
    expect(describeError({ text: "\u0001\u202e" })).toBe(String.raw`{"text":"\u0001\u202e"}`);
  });

  test("a cut never leaves half of a surrogate pair", () => {
    expect(printable("\u{1F4E6}".repeat(10), 5).isWellFormed()).toBe(true);
  });
});
