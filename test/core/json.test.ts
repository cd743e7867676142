import { runInNewContext } from "node:vm";
import * as fc from "fast-check";
import { describe, expect, test } from "vitest";
import { MAX_JSON_DEPTH, parseStoredJson, RawJson, rawJson, serializeJson } from "../../src/core/json.ts";
import { thrown } from "./support.ts";

const serialize = (value: unknown): string => serializeJson(value, "data", "invalid-event");
const nested = (levels: number): unknown => (levels === 0 ? 1 : [nested(levels - 1)]);
const cyclic: Record<string, unknown> = {};
cyclic["self"] = cyclic;

class Money {
  amount = 1;
}

describe("values that JSON or the table would drop or change (C6, C25)", () => {
  test.each<[string, unknown, RegExp]>([
    ["NaN", { price: Number.NaN }, /data\.price is NaN/],
    ["Infinity", { price: Infinity }, /data\.price is Infinity/],
    ["-Infinity", [-Infinity], /data\[0\] is -Infinity/],
    ["-0", { price: -0 }, /data\.price is -0/],
    ["undefined", undefined, /data is undefined/],
    ["an undefined property", { lines: [{ sku: undefined }] }, /data\.lines\[0\]\.sku is undefined/],
    ["a hole", Array.from({ length: 1 }).concat([1]), /data\[0\] is undefined/],
    // eslint-disable-next-line no-sparse-arrays -- the very thing under test
    ["a real hole", [1, , 3], /data\[1\] is undefined/],
    ["a list with a property of its own", Object.assign([1], { total: 5 }), /data is an array with properties/],
    ["a bigint", { id: 9007199254740993n }, /data\.id is a bigint/],
    ["a function", { f: () => 1 }, /data\.f is a function/],
    ["a symbol", { s: Symbol("s") }, /data\.s is a symbol/],
    ["a symbol as a key", { [Symbol("s")]: 1 }, /data has a symbol as a key/],
    ["a date", { at: new Date(0) }, /data\.at is a Date/],
    ["an invalid date", { at: new Date(Number.NaN) }, /data\.at is a Date/],
    ["a map", new Map([["a", 1]]), /data is a Map/],
    ["a set", new Set([1]), /data is a Set/],
    ["a buffer", Buffer.from("abc"), /data is a Buffer/],
    ["bytes", new Uint8Array(2), /data is a Uint8Array/],
    ["an instance of a class", new Money(), /data is a Money/],
    ["a boxed number", Object(5), /data is a Number/],
    ["an error", new Error("x"), /data is a Error/],
    ["a regular expression", /x/, /data is a RegExp/],
    ["an object with toJSON", { toJSON: () => 5 }, /toJSON/],
    ["a list with toJSON", Object.assign([1], { toJSON: () => 5 }), /toJSON/],
    ["a hidden toJSON", Object.defineProperty({ a: 1 }, "toJSON", { value: () => 5 }), /toJSON/],
    ["half of a surrogate pair", { note: "a\uD83D" }, /data\.note contains half/],
    ["half of a surrogate pair in a key", { "a\uD83D": 1 }, /data has a key with half/],
    ["a cycle", cyclic, /data\.self contains itself/],
    ["101 levels", nested(MAX_JSON_DEPTH + 1), /nested deeper than 100 levels/],
    ["raw JSON inside another value", { inner: rawJson("1") }, /data\.inner is raw JSON/],
  ])("%s is refused with its path", (_name, value, message) => {
    const error = thrown(() => serialize(value));
    expect(error).toMatchObject({ name: "OutboxError", code: "invalid-event" });
    expect((error as Error).message).toMatch(message);
  });

  test.each<[string, unknown, string]>([
    ["null", { a: null }, '{"a":null}'],
    ["an empty text", { a: "" }, '{"a":""}'],
    ["an empty object", { a: {} }, '{"a":{}}'],
    ["an empty list", { a: [] }, '{"a":[]}'],
    ["a list", [1], "[1]"],
    ["an object like the SDK's typed values", { type: "Int64", value: "5" }, '{"type":"Int64","value":"5"}'],
    ["an object like a card", { type: "card", value: "x" }, '{"type":"card","value":"x"}'],
    ["an object without prototype", Object.assign(Object.create(null) as object, { a: 1 }), '{"a":1}'],
    ["100 levels", nested(MAX_JSON_DEPTH), `${"[".repeat(100)}1${"]".repeat(100)}`],
    ["the same object twice", ((shared) => [shared, shared])({ a: 1 }), '[{"a":1},{"a":1}]'],
    ["a property called toJSON that is no function", { toJSON: 1 }, '{"toJSON":1}'],
    ["the smallest number", 5e-324, "5e-324"],
    ["emoji", "\u{1F4E6}", '"\u{1F4E6}"'],
    ["a member called __proto__", JSON.parse('{"__proto__":1}'), '{"__proto__":1}'],
  ])("%s is carried", (_name, value, text) => {
    expect(serialize(value)).toBe(text);
  });

  test("an object of another realm is refused rather than half understood, a list is carried", () => {
    expect(serialize(runInNewContext("[1, [2]]"))).toBe("[1,[2]]");
    expect(thrown(() => serialize(runInNewContext("({ a: 1 })")))).toMatchObject({ code: "invalid-event" });
  });

  test("property: any value is refused with our error, or JSON.parse gives an equal one back", () => {
    const anything = fc.anything({
      withBigInt: true,
      withDate: true,
      withMap: true,
      withSet: true,
      withNullPrototype: true,
      withSparseArray: true,
      withTypedArray: true,
      withBoxedValues: true,
    });
    fc.assert(
      fc.property(fc.oneof(anything, fc.jsonValue()), (value) => {
        let text: string;
        try {
          text = serialize(value);
        } catch (error) {
          expect(error).toMatchObject({ name: "OutboxError", code: "invalid-event" });
          return;
        }
        // Not toStrictEqual: an object without prototype comes back with one.
        expect(JSON.parse(text)).toEqual(value);
        expect(JSON.stringify(value)).toBe(text);
      }),
      { numRuns: 1_000 },
    );
  });

  test("property: every JSON value without -0 is carried", () => {
    fc.assert(
      fc.property(fc.jsonValue(), (value) => {
        fc.pre(!JSON.stringify(value, (_key, inner: unknown) => (Object.is(inner, -0) ? "minus zero" : inner)).includes("minus zero"));
        expect(JSON.parse(serialize(value))).toEqual(value);
      }),
    );
  });
});

describe("raw JSON is carried byte for byte (C6, C19)", () => {
  test.each(["9007199254740993", " 1.0 ", '{"a":1,"a":2}', '"\\u00e9"', '"\u2028"', "[\n]"])("%j", (text) => {
    expect(serialize(rawJson(text))).toBe(text);
    expect(serialize(rawJson(new TextEncoder().encode(text)))).toBe(text);
  });

  test.each<[string, string | Uint8Array]>([
    ["no JSON", "{a:1}"],
    ["nothing", ""],
    ["a trailing comma", "[1,]"],
    ["half of a surrogate pair", '"\uD83D"'],
    ["a byte order mark", "\uFEFF1"],
    ["bytes that are no UTF-8", Uint8Array.of(0x22, 0xff, 0x22)],
    ["bytes with a byte order mark", Uint8Array.of(0xef, 0xbb, 0xbf, 0x31)],
  ])("%s is refused with invalid-event", (_name, json) => {
    expect(thrown(() => rawJson(json))).toMatchObject({ code: "invalid-event" });
  });

  test("the schema gets the parsed value", () => {
    const raw = rawJson('{"a":1.0}');
    expect(raw).toBeInstanceOf(RawJson);
    expect(raw.value).toEqual({ a: 1 });
  });
});

test("stored text that is not JSON is corrupt", () => {
  expect(parseStoredJson('{"a":1}', "the state")).toEqual({ a: 1 });
  expect(thrown(() => parseStoredJson("{", "the state"))).toMatchObject({ code: "corrupt" });
});
