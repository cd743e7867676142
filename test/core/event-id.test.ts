import * as fc from "fast-check";
import { decodeTime } from "ulid";
import { describe, expect, test } from "vitest";
import { isEventId, nextEventId, type EventId } from "../../src/core/event-id.ts";
import { thrown } from "./support.ts";

const NOW = Date.UTC(2026, 0, 1);
const MINUTE = 60_000;
const END_OF_TIME = 281_474_976_710_655;
const half = (): number => 0.5;
const zero = (): number => 0;
const almostOne = (): number => 1 - Number.EPSILON / 2;

const LAST_OF_ITS_MILLISECOND = nextEventId(undefined, NOW, almostOne);

describe("event ids (C1, design §4.3)", () => {
  test.each([
    ["the clock stands still", NOW],
    ["the clock steps back a second", NOW - 1_000],
    ["the clock belongs to a machine 5 minutes behind", NOW - 5 * MINUTE],
    ["the clock belongs to a machine 5 minutes ahead", NOW + 5 * MINUTE],
    ["the clock stands at 1970", 0],
    ["the clock gives fractions", NOW + 0.9],
  ])("C1: the next id is greater when %s", (_name, now) => {
    for (const random of [zero, half, almostOne]) {
      const last = nextEventId(undefined, NOW, half);
      expect(nextEventId(last, now, random) > last).toBe(true);
    }
  });

  test("C1: the next id is greater when the random part of the last is all Z", () => {
    expect(LAST_OF_ITS_MILLISECOND.slice(10)).toBe("Z".repeat(16));
    for (const random of [zero, half, almostOne]) {
      const next = nextEventId(LAST_OF_ITS_MILLISECOND, NOW, random);
      expect(next > LAST_OF_ITS_MILLISECOND).toBe(true);
      expect(decodeTime(next)).toBe(NOW + 1);
    }
  });

  test("an equal random part in the same millisecond is not taken for greater", () => {
    const last = nextEventId(undefined, NOW, half);
    expect(nextEventId(last, NOW, half) > last).toBe(true);
  });

  test("two writers that continue from the same id get different ids, even when they borrow from the next millisecond", () => {
    const one = nextEventId(LAST_OF_ITS_MILLISECOND, NOW, () => 0.25);
    const other = nextEventId(LAST_OF_ITS_MILLISECOND, NOW, () => 0.75);
    expect(one).not.toBe(other);
  });

  test("a ULID's time starts at the given clock, never at the machine's own", () => {
    expect(decodeTime(nextEventId(undefined, NOW, half))).toBe(NOW);
    expect(decodeTime(nextEventId(undefined, 0, half))).toBe(0);
    expect(nextEventId(undefined, NOW, zero)).toBe(`${LAST_OF_ITS_MILLISECOND.slice(0, 10)}${"0".repeat(16)}`);
  });

  test("at the end of ULID time the event is refused rather than given a smaller id", () => {
    const last = nextEventId(undefined, END_OF_TIME - 1, almostOne);
    const next = nextEventId(last, NOW, half);
    expect(decodeTime(next)).toBe(END_OF_TIME);
    expect(thrown(() => nextEventId(next, NOW, half))).toMatchObject({ code: "invalid-event" });
    expect(thrown(() => nextEventId("7ZZZZZZZZZZZZZZZZZZZZZZZZZ" as EventId, NOW, half))).toMatchObject({ code: "invalid-event" });
  });

  test.each([Number.NaN, Number.POSITIVE_INFINITY, END_OF_TIME, Number.MAX_VALUE])("a clock at %s is refused", (now) => {
    expect(thrown(() => nextEventId(undefined, now, half))).toMatchObject({ code: "invalid-event" });
  });

  test("property: any walk of clocks and random numbers gives growing, valid ids", () => {
    const step = fc.record({
      now: fc.integer({ min: NOW - 10 * MINUTE, max: NOW + 10 * MINUTE }),
      random: fc.double({ min: 0, max: 1, noNaN: true, maxExcluded: true }),
    });
    fc.assert(
      fc.property(fc.array(step, { minLength: 2, maxLength: 50 }), (steps) => {
        let last: EventId | undefined;
        for (const { now, random } of steps) {
          const next = nextEventId(last, now, () => random);
          expect(isEventId(next)).toBe(true);
          expect(last === undefined || next > last).toBe(true);
          last = next;
        }
      }),
    );
  });
});

test.each([
  "",
  "01JZ000000000000000000000",
  "01JZ00000000000000000000011",
  "01jz0000000000000000000001",
  "81JZ0000000000000000000001",
  "01JZ000000000000000000000I",
  "01JZ000000000000000000000L",
  "01JZ000000000000000000000O",
  "01JZ000000000000000000000U",
  "01JZ0000000000000000000001\n",
  " 01JZ000000000000000000001",
])("W10: %j is no event id", (text) => {
  expect(isEventId(text)).toBe(false);
});
