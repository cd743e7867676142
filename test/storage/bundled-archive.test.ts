/** Bundles look like the events in them, to whoever lists or reads the archive. The contract suites show it on both storages. */
import { BlobServiceClient } from "@azure/storage-blob";
import * as fc from "fast-check";
import { describe, expect, inject, test } from "vitest";
import { encodeBundle } from "../../src/core/archive-bundle.ts";
import type { ListedBlob, Storage } from "../../src/core/ports.ts";
import { withBundles } from "../../src/storage/bundled-archive.ts";
import { eventId, failure } from "../contract/harness.ts";
import { connectTestStorage } from "../support/azurite-storage.ts";
import { bundleMember, listArchive, writeBundle } from "../support/bundles.ts";
import { faultyHttp } from "../support/faulty-http.ts";
import { ManualClock } from "../support/manual-clock.ts";
import { createMemoryStorage, type MemoryStorage } from "../support/memory-storage.ts";

const STREAM = "mail/o-1/";
const nameOf = (number: number, stream = STREAM): string => `${stream}${eventId(number)}.json`;
const bytesOf = (text: string): Uint8Array => new TextEncoder().encode(text);

function putSingle(storage: MemoryStorage, number: number, stream = STREAM): void {
  storage.putBlob("archive", nameOf(number, stream), bytesOf(`{"n":${number}}`), { sequence: String(number), outcome: "alone" });
}

function putBundle(storage: MemoryStorage, numbers: readonly number[], stream = STREAM): string {
  const bundle = encodeBundle(
    stream,
    numbers.map((number) => bundleMember(number)),
  );
  storage.putBlob("archive", bundle.name, bundle.bytes, bundle.metadata);
  return bundle.name;
}

describe("a listing", () => {
  test("has every event once and in order, whatever bundles and single blobs overlap; the single blob counts, as in reads", async () => {
    const streams = ["erp/o-1/", "mail/o-1/", "mail/o-10/"];
    const subset = fc.uniqueArray(fc.integer({ min: 1, max: 12 }), { minLength: 2, maxLength: 6 }).map((all) => all.sort((a, b) => a - b));
    const layout = fc.record({
      // Of two with one name there is only one.
      bundles: fc.uniqueArray(fc.tuple(fc.constantFrom(...streams), subset), {
        maxLength: 6,
        selector: ([stream, numbers]) => `${stream} ${numbers[0]} ${numbers.at(-1)}`,
      }),
      singles: fc.array(fc.tuple(fc.constantFrom(...streams), fc.integer({ min: 1, max: 12 })), { maxLength: 8 }),
      prefix: fc.constantFrom("", "mail/", "mail/o-1", ...streams),
    });
    await fc.assert(
      fc.asyncProperty(layout, async ({ bundles, singles, prefix }) => {
        const storage = createMemoryStorage();
        for (const [stream, numbers] of bundles) putBundle(storage, numbers, stream);
        for (const [stream, number] of singles) putSingle(storage, number, stream);
        const alone = new Set(singles.map(([stream, number]) => nameOf(number, stream)));
        const together = bundles.flatMap(([stream, numbers]) => numbers.map((number) => nameOf(number, stream)));
        const expected = [...new Set([...alone, ...together])].filter((name) => name.startsWith(prefix)).sort();
        const listed = await listArchive(storage.blobs, prefix);
        expect(listed.map(({ name }) => name)).toEqual(expected);
        for (const { name, metadata, bundle } of listed) {
          expect([metadata["outcome"], bundle === undefined]).toEqual(alone.has(name) ? ["alone", true] : ["handled", false]);
          expect((await storage.blobs.read("archive", name))?.metadata).toEqual(metadata);
        }
      }),
    );
  });

  test("tells of each event what a blob of its own would, and which blob holds it", async () => {
    const storage = createMemoryStorage();
    const name = putBundle(storage, [1, 2]);
    const bundle = { name, members: [nameOf(1), nameOf(2)], torn: false };
    const metadata = { previous: "1", sequence: "2", attempts: "1", outcome: "handled", finishedat: "2026-01-01T00:00:00.000Z" };
    const etag = storage.blobEntries("archive")[0]![1].etag;
    expect((await listArchive(storage.blobs, STREAM))[1]).toEqual({ name: nameOf(2), ageMs: 0, sizeBytes: 7, etag, metadata, bundle });
  });

  test("says of an event with a blob of its own that a bundle has it too", async () => {
    const storage = createMemoryStorage();
    const name = putBundle(storage, [1, 3]);
    for (const number of [1, 2]) putSingle(storage, number);
    expect((await listArchive(storage.blobs, STREAM)).map(({ alsoIn }) => alsoIn)).toEqual([name, undefined, undefined]);
  });

  test("W10: holds a bounded number of events back, whatever overlaps; a bundle beyond that is told as it is", async () => {
    const storage = createMemoryStorage();
    const count = 130;
    for (let number = 1; number <= count; number++) {
      putBundle(storage, [number, ...Array.from({ length: 99 }, (_, index) => 1_000 * (index + 1) + number)]);
    }
    const listed = await listArchive(storage.blobs, STREAM);
    const foreign = listed.filter(({ bundle }) => bundle === undefined);
    // Some are told already when the last ones come.
    expect([foreign.length, listed.length]).toEqual([28, 102 * 100 + 28]);
    expect(listed.map(({ name }) => name)).toEqual(listed.map(({ name }) => name).sort());
  });

  test("is one call, and holds no more than the bundles that it is in", async () => {
    const storage = createMemoryStorage();
    for (let start = 1; start < 100; start += 10) putBundle(storage, [start, start + 5]);
    for await (const { name } of storage.blobs.list("archive", STREAM)) if (name === nameOf(6)) break;
    expect(storage.callCounts()).toEqual({ "blobs.list": 1 });
  });

  test("has nothing beyond its prefix", async () => {
    const storage = createMemoryStorage();
    putBundle(storage, [1, 2]);
    expect((await listArchive(storage.blobs, `${STREAM}${eventId(1)}`)).map(({ name }) => name)).toEqual([nameOf(1)]);
  });

  test("keeps the events of a stream together, also where the service sorts streams by a rule of its own", async () => {
    const storage = createMemoryStorage();
    for (const stream of ["mail/o-1/", "mail/o-2/"]) putBundle(storage, [1, 3], stream);
    putSingle(storage, 2, "mail/o-2/");
    const sizes = storage.blobEntries("archive").map(([name, { bytes, etag, metadata }]): ListedBlob => {
      return { name, ageMs: 0, sizeBytes: bytes.length, etag, metadata };
    });
    const [first, ...second] = sizes;
    const sorted = withBundles({
      ...storage.blobs,
      async *list() {
        yield* [...second, first!];
      },
    });
    const expected = [1, 2, 3].map((number) => nameOf(number, "mail/o-2/"));
    const names = (await listArchive(sorted, "")).map(({ name }) => name);
    expect(names).toEqual([...expected, nameOf(1, "mail/o-1/"), nameOf(3, "mail/o-1/")]);
  });

  test.each([
    ["an index that is none", `${STREAM}${eventId(1)}-${eventId(2)}.ndjson`, { bundle: "1", index: "?" }],
    ["no metadata", `${STREAM}${eventId(1)}-${eventId(2)}.ndjson`, {}],
    ["a place that is no stream", `${eventId(1)}-${eventId(2)}.ndjson`, encodeBundle(STREAM, [bundleMember(1), bundleMember(2)]).metadata],
    [
      "the place of what nobody wanted",
      `_unrouted/o-1/${eventId(1)}-${eventId(2)}.ndjson`,
      encodeBundle(STREAM, [bundleMember(1), bundleMember(2)]).metadata,
    ],
  ])("W10: a blob with %s is told as it is, as a foreign one", async (_name, foreign, metadata) => {
    const storage = createMemoryStorage();
    storage.putBlob("archive", foreign, bytesOf('{"n":1}\n{"n":2}\n'), metadata);
    expect(await listArchive(storage.blobs, "")).toMatchObject([{ name: foreign, metadata }]);
    expect(await storage.blobs.read("archive", `${foreign.slice(0, foreign.lastIndexOf("/") + 1)}${eventId(1)}.json`)).toBeUndefined();
  });

  test("a bundle that is not as big as its index says is torn: its events are told, and none is read", async () => {
    const storage = createMemoryStorage();
    const name = putBundle(storage, [1, 2, 3]);
    const { metadata, bytes } = storage.blobEntries("archive")[0]![1];
    storage.putBlob("archive", name, bytes.slice(0, -1), metadata);
    expect((await listArchive(storage.blobs, STREAM)).map(({ bundle }) => bundle?.torn)).toEqual([true, true, true]);
    expect(await storage.blobs.read("archive", nameOf(1))).toBeUndefined();
  });
});

describe("a read", () => {
  test("of an event with a blob of its own, and of anything in other containers, is one call", async () => {
    const storage = createMemoryStorage();
    putSingle(storage, 1);
    await storage.blobs.read("archive", nameOf(1));
    await storage.blobs.read("events", nameOf(1));
    await storage.blobs.read("dead", nameOf(1));
    await storage.blobs.read("archive", `_unrouted/o-1/${eventId(1)}.json`);
    expect(storage.callCounts()).toEqual({ "blobs.read": 4 });
  });

  test("of all events of a bundle, at once or one after another, is one download of it", async () => {
    const storage = createMemoryStorage();
    const name = putBundle(storage, [1, 2, 3, 4]);
    const downloads = (): unknown[] => storage.calls.flatMap(({ method, args }) => (method === "read" ? [args[1]] : []));
    await listArchive(storage.blobs, STREAM);
    const read = async (number: number): Promise<unknown> => (await storage.blobs.read("archive", nameOf(number)))?.bytes;
    expect(await Promise.all([1, 2].map(read))).toEqual([bytesOf('{"n":1}'), bytesOf('{"n":2}')]);
    expect(await read(3)).toEqual(bytesOf('{"n":3}'));
    // The listing has told that they have no blobs of their own.
    expect(downloads()).toEqual([name]);
  });

  test("that is given up takes nothing from another one that waits for the same bundle", async () => {
    const storage = createMemoryStorage();
    putBundle(storage, [1, 2]);
    await listArchive(storage.blobs, STREAM);
    const first = new AbortController();
    const given = failure(storage.blobs.read("archive", nameOf(1), { signal: first.signal }), "aborted");
    const other = storage.blobs.read("archive", nameOf(2));
    first.abort();
    await given;
    expect((await other)?.bytes).toEqual(bytesOf('{"n":2}'));
  });

  test("finds a blob of its own that came after the listing: at once if it was written here, and within seconds if not", async () => {
    const clock = new ManualClock();
    const storage = createMemoryStorage(clock);
    putBundle(storage, [1, 2]);
    const outcomeOf = async (number: number): Promise<unknown> =>
      (await storage.blobs.read("archive", nameOf(number)))?.metadata["outcome"];
    await listArchive(storage.blobs, STREAM);
    await storage.blobs.create("archive", nameOf(1), bytesOf('{"n":1}'), { sequence: "1", outcome: "alone" });
    putSingle(storage, 2);
    expect([await outcomeOf(1), await outcomeOf(2)]).toEqual(["alone", "handled"]);
    await clock.advance(10_000);
    expect(await outcomeOf(2)).toBe("alone");
  });

  test("keeps no more of bundles than some megabytes, and the ones that are in use", async () => {
    const storage = createMemoryStorage();
    const size = 500_000;
    for (let number = 1; number <= 80; number += 2) {
      const members = [number, number + 1].map((each) => bundleMember(each, { bytes: new Uint8Array(size) }));
      const { name, bytes, metadata } = encodeBundle(STREAM, members);
      storage.putBlob("archive", name, bytes, metadata);
    }
    await listArchive(storage.blobs, STREAM);
    const downloaded = async (number: number): Promise<number> => {
      storage.forgetCalls();
      await storage.blobs.read("archive", nameOf(number));
      return storage.calls.length;
    };
    for (let number = 1; number <= 80; number += 2) {
      expect(await downloaded(number)).toBe(1);
      expect(await downloaded(1)).toBe(0);
    }
    expect([await downloaded(79), await downloaded(3)]).toEqual([0, 1]);
  });

  test("looks for the bundle with one listing, and knows it for the next event", async () => {
    const storage = createMemoryStorage();
    putBundle(storage, [1, 2, 3]);
    expect((await storage.blobs.read("archive", nameOf(1)))?.bytes).toEqual(bytesOf('{"n":1}'));
    expect(storage.callCounts()).toEqual({ "blobs.read": 2, "blobs.list": 1 });
    expect((await storage.blobs.read("archive", nameOf(3)))?.bytes).toEqual(bytesOf('{"n":3}'));
    // Nothing was told of a blob of its own.
    expect(storage.callCounts()).toEqual({ "blobs.read": 3, "blobs.list": 1 });
  });

  test("finds it in the other bundle when the one that is known is gone, or has only its range", async () => {
    const clock = new ManualClock();
    const storage = createMemoryStorage(clock);
    const first = putBundle(storage, [1, 2, 4]);
    expect(await listArchive(storage.blobs, STREAM)).toHaveLength(3);
    putBundle(storage, [1, 3, 5]);
    expect((await storage.blobs.read("archive", nameOf(3)))?.bytes).toEqual(bytesOf('{"n":3}'));
    storage.deleteBlob("archive", first);
    expect((await storage.blobs.read("archive", nameOf(1)))?.bytes).toEqual(bytesOf('{"n":1}'));
    // What was read a moment ago can be read for some seconds more.
    expect((await storage.blobs.read("archive", nameOf(2)))?.bytes).toEqual(bytesOf('{"n":2}'));
    await clock.advance(10_000);
    expect((await storage.blobs.read("archive", nameOf(1)))?.bytes).toEqual(bytesOf('{"n":1}'));
    expect(await storage.blobs.read("archive", nameOf(2))).toBeUndefined();
    expect(await storage.blobs.read("archive", nameOf(9))).toBeUndefined();
    expect(await storage.blobs.read("archive", nameOf(1, "mail/o-10/"))).toBeUndefined();
  });

  test("of an event of a bundle that was deleted here finds none", async () => {
    const storage = createMemoryStorage();
    const name = putBundle(storage, [1, 2]);
    await storage.blobs.read("archive", nameOf(1));
    await storage.blobs.delete("archive", [name]);
    expect(await storage.blobs.read("archive", nameOf(2))).toBeUndefined();
  });

  test("many bundles: what is remembered is bounded, and nothing is lost for it", async () => {
    const clock = new ManualClock();
    const storage = createMemoryStorage(clock);
    for (let number = 1; number <= 600; number += 2) putBundle(storage, [number, number + 1]);
    await listArchive(storage.blobs, STREAM);
    await clock.advance(10_000);
    storage.forgetCalls();
    await storage.blobs.read("archive", nameOf(600));
    expect(storage.callCounts()).toEqual({ "blobs.read": 2 });
    expect((await storage.blobs.read("archive", nameOf(1)))?.bytes).toEqual(bytesOf('{"n":1}'));
    expect(storage.callCounts()).toEqual({ "blobs.read": 4, "blobs.list": 1 });
  });
});

test("an event in a bundle can't be marked: that is refused loudly, and changes nothing", async () => {
  const storage = createMemoryStorage();
  await writeBundle(storage.blobs, STREAM, [1, 2]);
  putSingle(storage, 2);
  putSingle(storage, 3);
  const before = storage.blobEntries("archive");
  const { etag } = (await storage.blobs.read("archive", nameOf(1)))!;
  await failure(storage.blobs.writeMetadata("archive", nameOf(1), { decision: "discard" }, etag), "bug");
  for (const alone of [2, 3]) await failure(storage.blobs.writeMetadata("archive", nameOf(alone), {}, '"0x1"'), "precondition-failed");
  await failure(storage.blobs.writeMetadata("archive", nameOf(4), {}, etag), "not-found");
  expect(storage.blobEntries("archive")).toEqual(before);
});

test("in the account a bundle says what it is: lines of JSON", async () => {
  const storage = await connectTestStorage();
  const bundle = await writeBundle(storage.blobs, STREAM, [1, 2]);
  await storage.blobs.create("archive", nameOf(3), bytesOf('{"n":3}'), {});
  const container = BlobServiceClient.fromConnectionString(inject("azurite")).getContainerClient(`${storage.prefix}-archive`);
  const typeOf = async (name: string): Promise<string | undefined> => (await container.getBlobClient(name).getProperties()).contentType;
  expect([await typeOf(bundle), await typeOf(nameOf(3))]).toEqual(["application/x-ndjson", "application/cloudevents+json; charset=utf-8"]);
  await storage.blobs.create("dead", bundle, bytesOf("{}"), {});
  const dead = BlobServiceClient.fromConnectionString(inject("azurite")).getContainerClient(`${storage.prefix}-dead`);
  expect((await dead.getBlobClient(bundle).getProperties()).contentType).toBe("application/cloudevents+json; charset=utf-8");
});

describe("W10: pages of a listing", () => {
  /** How many names each request asks for, when the first answer says that there are more. */
  async function asked(container: "archive" | "events", fill: (storage: Storage) => Promise<unknown>): Promise<number[]> {
    const http = faultyHttp();
    const storage = await connectTestStorage({ httpClient: http });
    await fill(storage);
    const sizes: number[] = [];
    http.rule = ({ operation, nth, request }) => {
      if (operation !== "blob ListBlobs") return "pass";
      sizes.push(Number(new URL(request.url).searchParams.get("maxresults")));
      if (nth > 1) return "pass";
      return {
        rewrite: (response) => ({
          ...response,
          bodyAsText: response.bodyAsText!.replace(/<NextMarker *\/>/, "<NextMarker>on</NextMarker>"),
        }),
      };
    };
    await Array.fromAsync(storage.blobs.list(container, ""));
    return sizes;
  }

  test("of the archive may all be bundles, whatever the page before was: so many are four million characters or less", async () => {
    const [first, second] = await asked("archive", ({ blobs }) => blobs.create("archive", nameOf(1), bytesOf("{}"), { sequence: "1" }));
    // The longest index, and some hundred characters for name and properties.
    expect([first, second! * (7 * 1024 + 1_000) <= 4 * 1024 * 1024]).toEqual([second, true]);
    expect(await asked("events", ({ blobs }) => blobs.create("events", nameOf(1), bytesOf("{}"), {}))).toEqual([5_000, 5_000]);
  });
});
