import * as fc from "fast-check";
import { describe, expect, test } from "vitest";
import { contradictionIn, firstUnaccounted, missingSequence, relayedSequence, splitGhosts, type Placed } from "../../src/core/stream.ts";
import { NEW_STREAM, type StreamProgress } from "../../src/core/progress.ts";
import { eventId } from "./support.ts";

interface Chained {
  readonly sequence: number;
  readonly previous: number;
}

/** The events of a stream as the relay chains them: `previous` names the one before. */
function chain(sequences: readonly number[], before = 0): readonly Chained[] {
  return sequences.map((sequence, index) => ({ sequence, previous: sequences[index - 1] ?? before }));
}

function finished(sequence: number, relayed = sequence): StreamProgress {
  return { sequence, id: sequence === 0 ? undefined : eventId(sequence), relayed };
}

function placed(sequence: number): Placed & Pick<Chained, "sequence"> {
  return { id: eventId(sequence), sequence };
}

/** Growing sequences with gaps, as a subscription with a filter sees them. */
const streams = fc
  .uniqueArray(fc.integer({ min: 1, max: 40 }), { minLength: 1, maxLength: 12 })
  .map((numbers) => numbers.toSorted((a, b) => a - b));

describe("ghosts (W2, C01)", () => {
  const events = [1, 2, 3].map(placed);

  test("events up to the last finished one are ghosts, the one after it is not", () => {
    expect(splitGhosts(events, finished(2))).toEqual({ ghosts: events.slice(0, 2), pending: events.slice(2) });
  });

  test.each([
    ["a new stream", NEW_STREAM],
    ["nothing finished yet", finished(0)],
  ])("with %s nothing is a ghost", (_name, progress) => {
    expect(splitGhosts(events, progress)).toEqual({ ghosts: [], pending: events });
  });

  test("property: every event is either a ghost or pending, in order, split at the progress", () => {
    fc.assert(
      fc.property(streams, fc.nat(45), (numbers, last) => {
        const all = numbers.map(placed);
        const { ghosts, pending } = splitGhosts(all, finished(last));
        expect([...ghosts, ...pending]).toEqual(all);
        expect(ghosts.every(({ sequence }) => sequence <= last)).toBe(true);
        expect(pending.every(({ sequence }) => sequence > last)).toBe(true);
      }),
    );
  });
});

describe("ids and sequences that do not agree (G6)", () => {
  test.each<[string, readonly Placed[], StreamProgress]>([
    ["its id is passed, its sequence is not", [placed(3)], { ...finished(2), id: eventId(9) }],
    ["its sequence is passed, its id is not", [placed(3)], { ...finished(5), id: eventId(2) }],
    ["its own sequence was changed to one that is passed", [{ id: eventId(3), sequence: 1 }, placed(4)], finished(2)],
  ])("no ghost, and no part of the stream either: %s", (_name, events, progress) => {
    expect(splitGhosts(events, progress)).toEqual({ ghosts: [], pending: events });
    expect(contradictionIn(events, progress, 9)).toBe(events[0]);
  });

  test("events that do not fit each other", () => {
    const events = [placed(3), { id: eventId(4), sequence: 3 }, placed(5)];
    expect(contradictionIn(events, finished(2), 9)).toBe(events[1]);
  });

  test("an event beyond the order, wherever it is in the stream", () => {
    const events = [placed(3), placed(4), placed(5)];
    expect(contradictionIn(events, finished(2), 5)).toBeUndefined();
    expect(contradictionIn(events, finished(2), 4)).toBe(events[2]);
    expect(contradictionIn(events, finished(2), 2)).toBe(events[0]);
  });

  test("an event without a sequence has its place by its id alone", () => {
    const unknown = { id: eventId(2), sequence: undefined };
    expect(splitGhosts([unknown], finished(2))).toEqual({ ghosts: [unknown], pending: [] });
    expect(contradictionIn([unknown, placed(3)], finished(2), 3)).toBeUndefined();
  });

  test("property: a stream as the relay makes it never contradicts its progress", () => {
    fc.assert(fc.property(streams, fc.nat(45), (numbers, last) => contradictionIn(numbers.map(placed), finished(last), 40) === undefined));
  });
});

describe("up to where a stream has got events (W3)", () => {
  test.each<[string, number, readonly number[], StreamProgress]>([
    ["nothing waits", 5, [], finished(2, 5)],
    ["nothing waits, and nothing was put on record", 2, [], finished(2, 0)],
    ["what waits is not on record", 4, [3, 4], finished(2, 2)],
    ["what waits is on record", 5, [3, 4], finished(2, 5)],
    ["the last one says that it is beyond the order", 3, [3, 9], finished(2, 2)],
    ["the only one says that it is beyond the order", 3, [9], finished(2, 2)],
    ["the only one says that it is beyond the order, and is on record", 5, [9], finished(2, 5)],
  ])("%s: %i", (_name, relayed, pending, progress) => {
    expect(relayedSequence(pending.map(placed), progress, 6)).toBe(relayed);
  });
});

describe("missing events (W3)", () => {
  test.each<[string, number | undefined, readonly Chained[], StreamProgress]>([
    ["nothing is pending", undefined, [], NEW_STREAM],
    ["everything is there", undefined, chain([3, 4, 5], 2), finished(2, 5)],
    ["a filter leaves gaps in the sequences", undefined, chain([3, 7, 9], 2), finished(2, 9)],
    ["the stream is new and starts in the middle of the order", undefined, chain([7, 8], 0), NEW_STREAM],
    ["progress of a stream that had finished events was lost", 7, chain([8], 7), NEW_STREAM],
    ["the filter became narrower: the event before is older than the progress", undefined, [{ sequence: 7, previous: 2 }], finished(5)],
    ["the first is missing", 3, chain([3, 4, 5], 2).slice(1), finished(2, 5)],
    ["one in the middle is missing", 4, chain([3, 4, 5], 2).filter(({ sequence }) => sequence !== 4), finished(2, 5)],
    ["the last is missing", 5, chain([3, 4], 2), finished(2, 5)],
    ["the only one is missing", 3, [], finished(2, 3)],
    ["the first of a stream that finished nothing is missing", 1, [{ sequence: 2, previous: 1 }], finished(0, 2)],
    ["all of a stream that finished nothing are missing", 2, [], finished(0, 2)],
  ])("%s: %s", (_name, missing, pending, progress) => {
    expect(missingSequence(pending, progress)).toBe(missing);
  });

  test("property: a complete stream behind any progress misses nothing", () => {
    fc.assert(
      fc.property(streams, fc.nat(), (numbers, at) => {
        const done = at % (numbers.length + 1);
        const last = numbers[done - 1] ?? 0;
        expect(missingSequence(chain(numbers).slice(done), finished(last, numbers.at(-1)))).toBeUndefined();
      }),
    );
  });

  test("property: against a naive model, removing events shows the newest one before the first hole's end", () => {
    fc.assert(
      fc.property(streams, fc.nat(), fc.array(fc.nat(), { minLength: 1, maxLength: 4 }), (numbers, at, picks) => {
        const done = at % numbers.length;
        const expected = chain(numbers).slice(done);
        const lost = new Set(picks.map((pick) => expected[pick % expected.length]?.sequence));
        const pending = expected.filter(({ sequence }) => !lost.has(sequence));
        // Naively: walk to the first lost event, then to the end of that run of lost ones.
        const start = expected.findIndex(({ sequence }) => lost.has(sequence));
        const length = expected.slice(start).findIndex(({ sequence }) => !lost.has(sequence));
        const endOfRun = expected.at(length === -1 ? -1 : start + length - 1)?.sequence;
        expect(missingSequence(pending, finished(numbers[done - 1] ?? 0, numbers.at(-1)))).toBe(endOfRun);
      }),
    );
  });
});

describe("sequences without a trace (W3)", () => {
  test.each<[string, number, number, readonly (readonly number[])[], number | undefined]>([
    ["nothing to account for", 5, 5, [], undefined],
    ["a range that runs backwards", 5, 3, [], undefined],
    ["no evidence at all", 0, 2, [], 1],
    ["evidence in one set", 2, 4, [[3, 4]], undefined],
    ["evidence spread over sets", 0, 4, [[1, 3], [2], [4]], undefined],
    ["a hole", 0, 4, [[1, 2, 4]], 3],
    ["evidence before the range only", 2, 4, [[1, 2]], 3],
  ])("%s", (_name, from, to, evidence, expected) => {
    expect(firstUnaccounted(from, to, ...evidence.map((numbers) => new Set(numbers)))).toBe(expected);
  });

  test("property: it is the smallest number of the range that is in no set", () => {
    const small = fc.integer({ min: 0, max: 20 });
    fc.assert(
      fc.property(small, small, fc.array(fc.array(small), { maxLength: 3 }), (from, to, sets) => {
        const naive = Array.from({ length: 21 }, (_, number) => number).find(
          (number) => number > from && number <= to && !sets.flat().includes(number),
        );
        expect(firstUnaccounted(from, to, ...sets.map((numbers) => new Set(numbers)))).toBe(naive);
      }),
    );
  });
});
