import * as fc from "fast-check";
import { expect, test } from "vitest";
import { chunkText, MAX_ENTITY_BYTES, MAX_INLINE_EVENT_UNITS, MAX_PROPERTY_UNITS } from "../../src/core/limits.ts";

const EMOJI = "\u{1F4E6}";

test("C26: chunks count UTF-16 units and stay below the service's 32,768 a property", () => {
  expect(MAX_PROPERTY_UNITS).toBeLessThan(32_768);
  expect(chunkText("a".repeat(MAX_PROPERTY_UNITS), MAX_PROPERTY_UNITS)).toHaveLength(1);
  expect(chunkText("\u00E9".repeat(20_000), MAX_PROPERTY_UNITS)).toHaveLength(1);
  expect(chunkText("a".repeat(MAX_PROPERTY_UNITS + 1), MAX_PROPERTY_UNITS).map(({ length }) => length)).toEqual([MAX_PROPERTY_UNITS, 1]);
  expect(MAX_INLINE_EVENT_UNITS * 2).toBeLessThan(MAX_ENTITY_BYTES);
});

test("C26: a cut that would fall inside a surrogate pair moves before it", () => {
  expect(chunkText(`a${EMOJI}b`, 2)).toEqual(["a", EMOJI, "b"]);
  expect(chunkText(`${"a".repeat(MAX_PROPERTY_UNITS - 1)}${EMOJI}`, MAX_PROPERTY_UNITS).map(({ length }) => length)).toEqual([
    MAX_PROPERTY_UNITS - 1,
    2,
  ]);
  expect(chunkText(EMOJI, 2)).toEqual([EMOJI]);
});

test("an empty text has no chunks", () => {
  expect(chunkText("", 10)).toEqual([]);
});

test("property: chunks join to the text, none is empty or too long, and none ends inside a pair", () => {
  const text = fc.string({ unit: fc.constantFrom("a", "\u00E9", EMOJI, "\u{1F468}\u200D\u{1F469}"), maxLength: 60 });
  fc.assert(
    fc.property(fc.oneof(text, fc.string({ unit: "binary" })), fc.integer({ min: 2, max: 12 }), (whole, size) => {
      const chunks = chunkText(whole, size);
      expect(chunks.join("")).toBe(whole);
      for (const chunk of chunks) {
        expect(chunk.length).toBeGreaterThan(0);
        expect(chunk.length).toBeLessThanOrEqual(size);
        expect(chunk.isWellFormed()).toBe(whole.isWellFormed());
      }
    }),
  );
});
