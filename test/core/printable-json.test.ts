/** C23: JSON for people and for programs at once. */
import * as fc from "fast-check";
import { expect, test } from "vitest";
import { printableJson } from "../../src/core/printable-json.ts";

test("C23: what can't be seen or acts on a terminal is escaped, lines are as asked for", () => {
  const value = { id: "o\u200b-\u{e0041}1\n", "\u202ekey": ["\ufeff", " "] };
  expect(printableJson(value)).toBe(String.raw`{"id":"o\u200b-\udb40\udc411\n","\u202ekey":["\ufeff"," "]}`);
  expect(printableJson({ a: "\u061c" }, 2)).toBe(String.raw`{
  "a": "\u061c"
}`);
});

test("property: it is the same value", () => {
  const indents = fc.constantFrom(undefined, 2);
  fc.assert(
    fc.property(
      fc.jsonValue(),
      indents,
      (value, indent) => JSON.stringify(JSON.parse(printableJson(value, indent))) === JSON.stringify(value),
    ),
  );
});
