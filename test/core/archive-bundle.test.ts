/** The blob that holds several archived events: what goes in comes out, and what nobody made is no bundle. */
import * as fc from "fast-check";
import { describe, expect, test } from "vitest";
import { BundleDraft, decodeBundleIndex, encodeBundle, memberBytes, type BundleMember } from "../../src/core/archive-bundle.ts";
import type { EventId } from "../../src/core/event-id.ts";
import { parseBundleName } from "../../src/core/names.ts";
import { checkedMetadata } from "../../src/storage/blob-metadata.ts";

const PREFIX = "mail/o-1/";

function id(number: number): EventId {
  return `01JZ${String(number).padStart(22, "0")}` as EventId;
}

function member(number: number, changes: Partial<BundleMember> = {}): BundleMember {
  const bytes = new TextEncoder().encode(`{"n":${number}}`);
  return { id: id(number), sequence: number, previous: number - 1, attempts: 1, finishedAtMs: 1_767_225_600_000, bytes, ...changes };
}

/** Members as streams have them: growing ids, and bytes of any kind, line feeds among them. */
const membersArbitrary: fc.Arbitrary<readonly BundleMember[]> = fc
  .array(
    fc.record({
      step: fc.integer({ min: 1, max: 1_000 }),
      attempts: fc.nat(),
      finishedAtMs: fc.integer({ min: 0, max: 8_640_000_000_000_000 }),
      bytes: fc.oneof(fc.uint8Array({ minLength: 1, maxLength: 40 }), fc.constant(new Uint8Array([0x0a, 0x0a]))),
    }),
    { minLength: 2, maxLength: 60 },
  )
  .map((records) => {
    let last = 0;
    return records.map(({ step, ...rest }) => {
      const previous = last;
      last += step;
      return member(last, { ...rest, previous });
    });
  });

function draftOf(members: readonly BundleMember[]): BundleDraft {
  const draft = new BundleDraft();
  for (const each of members) if (!draft.add(each)) break;
  return draft;
}

describe("a bundle", () => {
  test("gives back each member as it was, whatever its bytes are", () => {
    fc.assert(
      fc.property(membersArbitrary, (members) => {
        const { name, bytes, metadata } = encodeBundle(PREFIX, members);
        expect(parseBundleName(name)).toEqual({ prefix: PREFIX, first: members[0]!.id, last: members.at(-1)!.id });
        const index = decodeBundleIndex(name, metadata)!;
        expect(index.bodyBytes).toBe(bytes.length);
        const back = index.members.map(({ start, length, ...record }) => {
          expect(length).toBe(memberBytes(bytes, index, { start, length, ...record })?.length);
          return { ...record, bytes: memberBytes(bytes, index, { start, length, ...record }) };
        });
        expect(back).toEqual(members);
      }),
    );
  });

  test("is readable as one JSON text a line", () => {
    const { name, bytes, metadata } = encodeBundle(PREFIX, [member(1), member(2, { attempts: 3 })]);
    expect(name).toBe(`mail/o-1/${id(1)}-${id(2)}.ndjson`);
    expect(new TextDecoder().decode(bytes)).toBe('{"n":1}\n{"n":2}\n');
    expect(metadata).toEqual({ bundle: "1", index: `${id(1)},1,0,1,mjuohs00,7;${id(2)},2,1,3,mjuohs00,7` });
  });

  test("sorts before its members, whatever they are", () => {
    const { name } = encodeBundle(PREFIX, [member(1), member(2)]);
    expect(name < `${PREFIX}${id(1)}.json`).toBe(true);
  });
});

describe("bounds", () => {
  test("at most 100 members", () => {
    expect(draftOf(Array.from({ length: 120 }, (_, index) => member(index + 1))).members).toHaveLength(100);
  });

  test("at most 1 MiB, line feeds included", () => {
    const half = new Uint8Array(512 * 1024 - 1).fill(65);
    expect(draftOf([member(1, { bytes: half }), member(2, { bytes: half }), member(3)]).members).toHaveLength(2);
    expect(draftOf([member(1, { bytes: half }), member(2), member(3, { bytes: half })]).members).toHaveLength(2);
    expect(draftOf([member(1, { bytes: new Uint8Array(1024 * 1024) })]).members).toEqual([]);
  });

  test("the index has room in a blob's metadata, whatever the numbers are", () => {
    const big = { attempts: 999_999_999_999_999, finishedAtMs: 8_640_000_000_000_000 };
    const members = Array.from({ length: 100 }, (_, index) => {
      const sequence = 999_999_999_999_000 + index;
      return member(index + 1, { ...big, sequence, previous: sequence - 1, bytes: new Uint8Array(10_000).fill(65) });
    });
    const fitting = draftOf(members).members;
    expect(fitting.length).toBeGreaterThan(60);
    expect(fitting.length).toBeLessThan(100);
    const { name, metadata } = encodeBundle(PREFIX, fitting);
    expect(metadata["index"]!.length).toBeLessThanOrEqual(7 * 1024);
    expect(checkedMetadata(metadata, name)).toEqual(metadata);
  });

  test.each<[string, Partial<BundleMember>]>([
    ["a sequence beyond what metadata tells", { sequence: 10 ** 15 }],
    ["no sequence", { sequence: 0 }],
    ["a predecessor that is none", { previous: 2 }],
    ["a broken number", { attempts: 0.5 }],
    ["a time before 1970", { finishedAtMs: -1 }],
    ["a time that no date tells", { finishedAtMs: 8_640_000_000_000_001 }],
    ["no bytes", { bytes: new Uint8Array() }],
    ["an id that is none", { id: "01JZ,0000000000000000000002" as EventId }],
    ["an id that is not after the one before", { id: id(1) }],
  ])("no draft takes %s, and no bundle is made of it", (_name, changes) => {
    const members = [member(1), member(2, changes)];
    expect(draftOf(members).members).toHaveLength(1);
    expect(() => encodeBundle(PREFIX, members)).toThrow(expect.objectContaining({ code: "bug" }));
  });

  test("no bundle of one, or of none", () => {
    expect(() => encodeBundle(PREFIX, [member(1)])).toThrow(expect.objectContaining({ code: "bug" }));
    expect(() => encodeBundle(PREFIX, [])).toThrow(expect.objectContaining({ code: "bug" }));
  });
});

describe("W10: what nobody made is no bundle", () => {
  const { name, bytes, metadata } = encodeBundle(PREFIX, [member(1), member(2), member(3)]);
  const index = metadata["index"]!;
  const [first, second, third] = index.split(";") as [string, string, string];

  test.each([
    ["no metadata", {}],
    ["no version", { index }],
    ["another version", { ...metadata, bundle: "2" }],
    ["no index", { bundle: "1" }],
    ["a member left out at the end", { ...metadata, index: `${first};${second}` }],
    ["a member left out at the beginning", { ...metadata, index: `${second};${third}` }],
    ["a member twice", { ...metadata, index: `${first};${second};${second};${third}` }],
    ["another order of members", { ...metadata, index: `${second};${first};${third}` }],
    ["an empty record", { ...metadata, index: `${index};` }],
    ["a field more", { ...metadata, index: index.replace(";", ",1;") }],
    ["a leading zero", { ...metadata, index: index.replace(",1,0,1,", ",01,0,1,") }],
    ["an upper-case time", { ...metadata, index: index.replace("mjuohs00", "MJUOHS00") }],
    ["a time that no date tells", { ...metadata, index: index.replace("mjuohs00", "zzzzzzzzzzz") }],
    ["a predecessor that is none", { ...metadata, index: index.replace(",1,0,1,", ",1,1,1,") }],
    ["a length of nothing", { ...metadata, index: index.replace(/7$/, "0") }],
    ["lengths beyond any body", { ...metadata, index: index.replace(/7$/, "9999999") }],
    ["a negative length", { ...metadata, index: index.replace(/7$/, "-7") }],
  ])("%s", (_name, hostile) => {
    expect(decodeBundleIndex(name, hostile)).toBeUndefined();
  });

  test("more members than a bundle has", () => {
    const records = Array.from({ length: 101 }, (_, at) => `${id(at + 1)},${at + 1},${at},1,0,1`);
    const crowded = (count: number): unknown =>
      decodeBundleIndex(`${PREFIX}${id(1)}-${id(count)}.ndjson`, { bundle: "1", index: records.slice(0, count).join(";") });
    expect(crowded(100)).toBeDefined();
    expect(crowded(101)).toBeUndefined();
  });

  test("hostile metadata never throws, and what is taken is within bounds", () => {
    const texts = fc.oneof(
      fc.string({ unit: "binary", maxLength: 300 }),
      // One of ours, with something put in somewhere.
      fc
        .tuple(
          fc.nat(index.length),
          fc.nat(8),
          fc.string({ unit: fc.constantFrom("0", "1", "2", "9", "a", "J", "Z", ",", ";", "-", ".", " ", "\u0000", "é"), maxLength: 8 }),
        )
        .map(([at, gone, text]) => index.slice(0, at) + text + index.slice(at + gone)),
    );
    fc.assert(
      fc.property(texts, fc.constantFrom("1", "2", ""), (text, bundle) => {
        const found = decodeBundleIndex(name, { bundle, index: text });
        if (found === undefined) return;
        expect([found.members[0]!.id, found.members.at(-1)!.id]).toEqual([id(1), id(3)]);
        for (const each of found.members) {
          expect(each.start + each.length).toBeLessThan(found.bodyBytes);
          expect(each.previous).toBeLessThan(each.sequence);
          expect(() => new Date(each.finishedAtMs).toISOString()).not.toThrow();
        }
      }),
      { numRuns: 2_000 },
    );
  });

  test.each([
    `${PREFIX}${id(1)}.json`,
    `${PREFIX}${id(1)}.ndjson`,
    `${PREFIX}${id(1)}-${id(1)}.ndjson`,
    `${PREFIX}${id(2)}-${id(1)}.ndjson`,
    `${PREFIX}${id(1)}_${id(2)}.ndjson`,
    `${PREFIX}${id(1)}-${id(2)}.json`,
    `${PREFIX}${id(1).toLowerCase()}-${id(2)}.ndjson`,
    `${PREFIX}${id(1)}-${id(2)}x.ndjson`,
    `${PREFIX}x${id(1)}-${id(2)}.ndjson`,
    `${id(1)}-${id(2)}.ndjson`,
    `mail/${id(1)}-${id(2)}.ndjson`,
    `${PREFIX}x/${id(1)}-${id(2)}.ndjson`,
    `_unrouted/o-1/${id(1)}-${id(2)}.ndjson`,
    "notes.ndjson",
    "",
  ])("%j is no bundle's name", (foreign) => {
    expect(parseBundleName(foreign)).toBeUndefined();
  });

  test("names of any kind never throw", () => {
    fc.assert(fc.property(fc.string({ unit: "binary" }), (text) => parseBundleName(`${text}.ndjson`) === undefined));
  });

  test("a body of another size gives no member, nor one whose lines end elsewhere", () => {
    const found = decodeBundleIndex(name, metadata)!;
    const at = (body: Uint8Array, number: number): Uint8Array | undefined => memberBytes(body, found, found.members[number]!);
    expect(at(bytes, 1)).toEqual(member(2).bytes);
    expect(at(bytes.slice(0, -1), 0)).toBeUndefined();
    expect(at(new Uint8Array([...bytes, 0x0a]), 0)).toBeUndefined();
    const shifted = new Uint8Array(bytes);
    shifted[7] = 65;
    expect([0, 1, 2].map((number) => at(shifted, number) === undefined)).toEqual([true, true, false]);
  });
});
