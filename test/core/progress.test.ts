import * as fc from "fast-check";
import { describe, expect, test } from "vitest";
import { MAX_SUBSCRIPTION_NAME_LENGTH } from "../../src/core/names.ts";
import { decodePendingState, encodePendingState, freshState, type PendingState } from "../../src/core/pending-event.ts";
import { encodeHolder } from "../../src/core/holder-mark.ts";
import { decodeProgress, encodeProgress, MAX_SUBSCRIPTIONS, NO_PROGRESS, type Progress } from "../../src/core/progress.ts";
import { eventId, thrown } from "./support.ts";

const MAX_METADATA_BYTES = 8 * 1024;
const METADATA_VALUE = /^[\x20-\x7E]*$/;

const bytesOf = (metadata: Readonly<Record<string, string>>): number =>
  Object.entries(metadata).reduce((sum, [name, value]) => sum + name.length + value.length, 0);

const sequences = fc.integer({ min: 0, max: Number.MAX_SAFE_INTEGER });
const anyProgress: fc.Arbitrary<Progress> = fc.record({
  clean: sequences,
  relayed: sequences,
  streams: fc.dictionary(
    fc.stringMatching(/^[a-z](?:-?[a-z0-9]+)*$/).filter((name) => name.length <= 50),
    fc
      .record({ sequence: sequences, relayed: sequences })
      .map(({ sequence, relayed }) => ({ sequence, id: sequence === 0 ? undefined : eventId(sequence), relayed })),
    { maxKeys: 10, noNullPrototype: true },
  ),
});

/** Values that other programs, or bugs, might leave in metadata. */
const hostileText = fc.oneof(
  fc.string(),
  fc.json(),
  fc.constantFrom("", "null", "[]", "{}", "0", "-1", "1e3", "NaN", '{"v":1}', '{"v":2,"clean":1,"relayed":1,"streams":{}}'),
);

describe("progress on the lease blob (design §3, W2)", () => {
  test("a blob without metadata is an order without progress", () => {
    expect(decodeProgress({})).toBe(NO_PROGRESS);
    expect(decodeProgress({ round: "r" })).toBe(NO_PROGRESS);
  });

  test("property: progress comes back as it was written", () => {
    fc.assert(
      fc.property(anyProgress, (progress) => {
        const metadata = encodeProgress(progress, "round-1");
        expect(decodeProgress(metadata)).toEqual(progress);
        expect(metadata["round"]).toBe("round-1");
        for (const value of Object.values(metadata)) expect(value).toMatch(METADATA_VALUE);
      }),
    );
  });

  test("the progress of as many subscriptions as are allowed fits the metadata of a blob", () => {
    const name = (index: number): string => `s${String(index).padStart(MAX_SUBSCRIPTION_NAME_LENGTH - 1, "0")}`;
    const stream = { sequence: Number.MAX_SAFE_INTEGER, id: eventId(1), relayed: Number.MAX_SAFE_INTEGER };
    const streams = Object.fromEntries(Array.from({ length: MAX_SUBSCRIPTIONS }, (_, index) => [name(index), stream]));
    const progress = { clean: Number.MAX_SAFE_INTEGER, relayed: Number.MAX_SAFE_INTEGER, streams };
    expect(bytesOf({ ...encodeProgress(progress, "0".repeat(26)), ...encodeHolder("0".repeat(36), "h".repeat(64)) })).toBeLessThanOrEqual(
      MAX_METADATA_BYTES,
    );
  });

  test.each([
    ["no JSON", "{"],
    ["null", "null"],
    ["a number", "1"],
    ["no version", '{"clean":0,"relayed":0,"streams":{}}'],
    ["another version", '{"v":2,"clean":0,"relayed":0,"streams":{}}'],
    ["no clean", '{"v":1,"relayed":0,"streams":{}}'],
    ["a negative sequence", '{"v":1,"clean":-1,"relayed":0,"streams":{}}'],
    ["a fraction", '{"v":1,"clean":0.5,"relayed":0,"streams":{}}'],
    ["a sequence that is a text", '{"v":1,"clean":"0","relayed":0,"streams":{}}'],
    ["a sequence beyond the safe integers", '{"v":1,"clean":9007199254740993,"relayed":0,"streams":{}}'],
    ["streams that are a list", '{"v":1,"clean":0,"relayed":0,"streams":[]}'],
    ["no streams", '{"v":1,"clean":0,"relayed":0}'],
    ["a stream that is null", '{"v":1,"clean":0,"relayed":0,"streams":{"mail":null}}'],
    ["a stream of two", '{"v":1,"clean":0,"relayed":0,"streams":{"mail":[0,""]}}'],
    ["a finished event without id", '{"v":1,"clean":0,"relayed":0,"streams":{"mail":[1,"",1]}}'],
    ["an id without finished event", '{"v":1,"clean":0,"relayed":0,"streams":{"mail":[0,"01JZ0000000000000000000001",1]}}'],
    ["an id that is no ULID", '{"v":1,"clean":0,"relayed":0,"streams":{"mail":[1,"x",1]}}'],
    ["an id in a list", '{"v":1,"clean":0,"relayed":0,"streams":{"mail":[1,["01JZ0000000000000000000001"],1]}}'],
  ])("%s is corrupt: a stream never starts over because its progress can't be read", (_name, progress) => {
    expect(thrown(() => decodeProgress({ progress }))).toMatchObject({ code: "corrupt" });
  });

  test("property: any metadata decodes or is corrupt, and nothing else", () => {
    fc.assert(
      fc.property(
        fc.oneof(
          fc.dictionary(fc.string(), hostileText),
          hostileText.map((progress) => ({ progress })),
        ),
        (metadata) => {
          try {
            decodeProgress(metadata);
          } catch (error) {
            expect(error).toMatchObject({ name: "OutboxError", code: "corrupt" });
          }
        },
      ),
      { numRuns: 500 },
    );
  });
});

const anyText = fc.string({ unit: "binary", minLength: 1, maxLength: 150 }).filter((text) => text.isWellFormed());
const anyTime = fc.date({ noInvalidDate: true, min: new Date(0), max: new Date(4e12) }).map((date) => date.toISOString());

const anyState: fc.Arbitrary<PendingState> = fc
  .record({
    sequence: fc.integer({ min: 1, max: 999_999_999_999_999 }),
    previous: fc.nat(),
    attempts: fc.nat(),
    crashes: fc.nat(100),
    status: fc.constantFrom("pending", "parked", "blocked"),
    nextAttemptMs: fc.nat(),
    waitMs: fc.nat(),
    undecided: fc.boolean(),
    ending: fc.option(fc.constantFrom("dead-lettered" as const, "unwanted" as const), { nil: undefined }),
    lastError: fc.option(anyText, { nil: undefined }),
    history: fc.array(fc.record({ at: anyTime, starts: fc.nat(100), error: fc.string({ maxLength: 40 }) }), { maxLength: 5 }),
    decision: fc.option(
      fc.record({
        action: fc.constantFrom("redrive", "discard"),
        actor: fc.string({ maxLength: 20 }),
        reason: fc.string({ maxLength: 50 }),
        at: anyTime,
      }),
      { nil: undefined },
    ),
  })
  .filter(({ sequence, previous }) => previous < sequence)
  .map(({ ending, lastError, decision, ...state }) => ({
    ...state,
    ...(ending === undefined ? {} : { ending }),
    ...(lastError === undefined ? {} : { lastError }),
    ...(decision === undefined ? {} : { decision }),
  }));

describe("state of a pending event in its metadata (design §3, W3, W4)", () => {
  test("property: the state comes back as it was written, through ASCII", () => {
    fc.assert(
      fc.property(anyState, (state) => {
        const metadata = encodePendingState(state);
        expect(decodePendingState(metadata)).toEqual(state);
        for (const value of Object.values(metadata)) expect(value).toMatch(METADATA_VALUE);
      }),
    );
  });

  test.each([
    ["Japanese", "\u6CE8\u6587".repeat(500)],
    ["emoji", "\u{1F4E6}".repeat(500)],
    ["percent signs", "%".repeat(1_000)],
    ["half surrogate pairs", "\uD83D".repeat(1_000)],
    ["much Latin", "x".repeat(100_000)],
  ])("an error of %s is cut to what the metadata has room for, not thrown", (_name, lastError) => {
    const metadata = encodePendingState({ ...freshState(2, 1), attempts: 3, lastError });
    expect(bytesOf(metadata)).toBeLessThanOrEqual(MAX_METADATA_BYTES);
    const decoded = decodePendingState(metadata);
    expect(decoded).toMatchObject({ sequence: 2, previous: 1, attempts: 3 });
    expect(decoded?.lastError?.length).toBeGreaterThan(200);
    // A pair that the cut splits may end in a replacement character.
    expect(lastError.toWellFormed().startsWith(decoded?.lastError?.replace(/\uFFFD$/, "") ?? "missing")).toBe(true);
  });

  test("an ordinary error of 1,000 Latin letters is kept whole, an empty one is none", () => {
    const lastError = "Error: ".padEnd(1_000, "x");
    expect(decodePendingState(encodePendingState({ ...freshState(1, 0), attempts: 1, lastError }))?.lastError).toBe(lastError);
    expect(encodePendingState({ ...freshState(1, 0), attempts: 1, lastError: "" })).toEqual({
      sequence: "1",
      previous: "0",
      attempts: "1",
    });
  });

  test.each<[string, Record<string, string>]>([
    ["nothing", {}],
    ["no sequence", { previous: "0", attempts: "0" }],
    ["sequence 0", { sequence: "0", previous: "0" }],
    ["a previous that is not before", { sequence: "1", previous: "1" }],
    ["a padded number", { sequence: "01", previous: "0" }],
    ["a fraction", { sequence: "1.5", previous: "0" }],
    ["a number too long to be exact", { sequence: "9007199254740993", previous: "0" }],
    ["no previous", { sequence: "1" }],
  ])("%s: the blob itself has to be asked", (_name, metadata) => {
    expect(decodePendingState(metadata)).toBeUndefined();
  });

  test("property: hostile metadata decodes to whole numbers or to undefined, and never throws", () => {
    const names = fc.constantFrom("sequence", "previous", "attempts", "lasterror", "x");
    const values = fc.oneof(hostileText, fc.nat().map(String), fc.constantFrom("%", "%E0%A4%A", "%zz"));
    fc.assert(
      fc.property(fc.dictionary(names, values), (metadata) => {
        const state = decodePendingState(metadata);
        if (state === undefined) return;
        for (const number of [state.sequence, state.previous, state.attempts]) expect(Number.isSafeInteger(number)).toBe(true);
        expect(state.previous).toBeLessThan(state.sequence);
      }),
      { numRuns: 500 },
    );
  });
});
