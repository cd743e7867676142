import { beforeAll, describe, expect, it } from "vitest";
import { encodeBundle } from "../../src/core/archive-bundle.ts";
import { CONTAINERS, streamPrefix } from "../../src/core/names.ts";
import type { ListedBlob, Storage } from "../../src/core/ports.ts";
import { bundleMember, listArchive, writeBundle } from "../support/bundles.ts";
import { eventId, failure, newOrder, type Connect } from "./harness.ts";

const bytes = (text: string): Uint8Array => new TextEncoder().encode(text);

export function describeBlobs(connect: Connect): void {
  describe("blobs", () => {
    let storage: Storage;
    beforeAll(async () => {
      ({ storage } = await connect());
    });

    const listed = async (prefix: string): Promise<readonly ListedBlob[]> => Array.fromAsync(storage.blobs.list("events", prefix));
    const names = async (prefix: string): Promise<readonly string[]> => (await listed(prefix)).map(({ name }) => name);

    it.each(CONTAINERS)("container %s gives back bytes, metadata and etag as they were", async (container) => {
      const name = `mail/${newOrder()}/1.json`;
      const content = new Uint8Array([...bytes('{"n":"é"}'), 0, 255, 13, 10]);
      const etag = await storage.blobs.create(container, name, content, { attempts: "2", note: "a%20b" });
      expect(await storage.blobs.read(container, name)).toEqual({ bytes: content, etag, metadata: { attempts: "2", note: "a%20b" } });
    });

    it("an empty blob without metadata is fine", async () => {
      const name = `mail/${newOrder()}/1.json`;
      const etag = await storage.blobs.create("events", name, new Uint8Array(), {});
      expect(await storage.blobs.read("events", name)).toEqual({ bytes: new Uint8Array(), etag, metadata: {} });
    });

    it("a blob that is not there reads as undefined", async () => {
      expect(await storage.blobs.read("events", `mail/${newOrder()}/1.json`)).toBeUndefined();
    });

    it("W11, C28: create is create-only: already-exists, and neither bytes nor metadata change", async () => {
      const name = `mail/${newOrder()}/1.json`;
      await storage.blobs.create("events", name, bytes("1"), { attempts: "2" });
      await failure(storage.blobs.create("events", name, bytes("2"), {}), "already-exists");
      expect(await storage.blobs.read("events", name)).toMatchObject({ bytes: bytes("1"), metadata: { attempts: "2" } });
    });

    it("W11: of eight creators exactly one wins", async () => {
      const name = `mail/${newOrder()}/1.json`;
      const outcomes = await Promise.allSettled(
        Array.from({ length: 8 }, (_, index) => storage.blobs.create("events", name, bytes(String(index)), {})),
      );
      expect(outcomes.filter(({ status }) => status === "fulfilled")).toHaveLength(1);
    });

    it("W10: a listing in small pages goes on to its end", async () => {
      const prefix = `mail/${newOrder()}/`;
      for (const n of [1, 2, 3]) await storage.blobs.create("events", `${prefix}${n}.json`, bytes("1"), { n: String(n) });
      const small = await Array.fromAsync(storage.blobs.list("events", prefix, { pageSize: 1 }));
      expect(small.map(({ name, metadata }) => [name, metadata])).toEqual([1, 2, 3].map((n) => [`${prefix}${n}.json`, { n: String(n) }]));
    });

    it("W11: writeMetadata replaces the metadata at its etag and keeps the bytes", async () => {
      const name = `mail/${newOrder()}/1.json`;
      const first = await storage.blobs.create("events", name, bytes("1"), { a: "1", b: "1" });
      const second = await storage.blobs.writeMetadata("events", name, { a: "2" }, first);
      expect(await storage.blobs.read("events", name)).toEqual({ bytes: bytes("1"), etag: second, metadata: { a: "2" } });
      await failure(storage.blobs.writeMetadata("events", name, { a: "3" }, first), "precondition-failed");
      expect((await storage.blobs.read("events", name))?.metadata).toEqual({ a: "2" });
    });

    it("writeMetadata throws not-found for a blob that is not there, or precondition-failed as no blob is at that etag", async () => {
      const name = `mail/${newOrder()}/1.json`;
      await failure(storage.blobs.writeMetadata("events", name, {}, '"0x1"'), "not-found", "precondition-failed");
      expect(await storage.blobs.read("events", name)).toBeUndefined();
    });

    it("an etag from a listing is as good as one from a write or read", async () => {
      const prefix = streamPrefix("mail", newOrder());
      const etag = await storage.blobs.create("events", `${prefix}1.json`, bytes("1"), {});
      const [blob] = await listed(prefix);
      expect(blob?.etag).toBe(etag);
      await storage.blobs.writeMetadata("events", `${prefix}1.json`, { a: "1" }, blob?.etag ?? "");
    });

    it("F7: a listing tells the age of each blob, at least 0 and counted from its last change", async () => {
      const prefix = streamPrefix("mail", newOrder());
      const etag = await storage.blobs.create("events", `${prefix}1.json`, bytes("1"), {});
      await storage.blobs.writeMetadata("events", `${prefix}1.json`, { a: "1" }, etag);
      const [blob] = await listed(prefix);
      expect(blob?.ageMs).toBeGreaterThanOrEqual(0);
      expect(blob?.ageMs).toBeLessThan(60_000);
    });

    it("an empty metadata value is the same as none, in listings and reads", async () => {
      const prefix = streamPrefix("mail", newOrder());
      await storage.blobs.create("events", `${prefix}1.json`, bytes("1"), { a: "1", b: "" });
      expect((await storage.blobs.read("events", `${prefix}1.json`))?.metadata).toEqual({ a: "1" });
      expect((await listed(prefix))[0]?.metadata).toEqual({ a: "1" });
    });

    it("metadata that a header can't carry is refused, and no blob is made", async () => {
      const name = `mail/${newOrder()}/1.json`;
      await failure(storage.blobs.create("events", name, bytes("1"), { a: "é" }), "bug");
      await failure(storage.blobs.create("events", name, bytes("1"), { a: "x".repeat(9_000) }), "too-large");
      expect(await storage.blobs.read("events", name)).toBeUndefined();
    });

    it("W10: a listing has metadata and code unit order, and nothing beyond its prefix", async () => {
      const order = newOrder();
      const prefix = streamPrefix("mail", order);
      for (const name of ["b.json", "Z.json", "a.json", "_.json", "0.json", "~.json", "B.json"]) {
        await storage.blobs.create("events", `${prefix}${name}`, bytes(name), { name: name.charCodeAt(0).toString() });
      }
      await storage.blobs.create("events", `mail/${order}0/1.json`, bytes(""), {});
      await storage.blobs.create("archive", `${prefix}1.json`, bytes(""), {});
      const expected = ["0", "B", "Z", "_", "a", "b", "~"];
      expect(await names(prefix)).toEqual(expected.map((name) => `${prefix}${name}.json`));
      expect((await listed(prefix)).map(({ metadata }) => metadata)).toEqual(
        expected.map((name) => ({ name: name.charCodeAt(0).toString() })),
      );
    });

    it("a listing of nothing is empty", async () => {
      expect(await names(streamPrefix("mail", newOrder()))).toEqual([]);
    });

    it("delete takes one, many and none, and those already gone are fine", async () => {
      const prefix = streamPrefix("mail", newOrder());
      for (const name of ["1", "2", "3", "4"]) await storage.blobs.create("events", `${prefix}${name}`, bytes(name), {});
      await storage.blobs.delete("events", []);
      await storage.blobs.delete("events", [`${prefix}1`]);
      await storage.blobs.delete("events", [`${prefix}1`]);
      await storage.blobs.delete("events", [`${prefix}1`, `${prefix}2`, `${prefix}3`, `${prefix}3`, `${prefix}9`]);
      expect(await names(prefix)).toEqual([`${prefix}4`]);
      await storage.blobs.delete("events", [`${prefix}1`, `${prefix}2`]);
    });

    it("W11: deleteUnchanged takes this very blob; one that has changed, was made anew or is gone is left as it is", async () => {
      const name = `${streamPrefix("mail", newOrder())}1`;
      const first = await storage.blobs.create("dead", name, bytes("1"), {});
      const second = await storage.blobs.writeMetadata("dead", name, { n: "2" }, first);
      await storage.blobs.deleteUnchanged("dead", name, first);
      expect((await storage.blobs.read("dead", name))?.etag).toBe(second);
      await storage.blobs.deleteUnchanged("dead", name, second);
      expect(await storage.blobs.read("dead", name)).toBeUndefined();
      await storage.blobs.deleteUnchanged("dead", name, second);
      const third = await storage.blobs.create("dead", name, bytes("1"), {});
      await storage.blobs.deleteUnchanged("dead", name, second);
      expect((await storage.blobs.read("dead", name))?.etag).toBe(third);
      await storage.blobs.delete("dead", [name]);
    });

    it("delete takes more than one batch holds", async () => {
      const prefix = streamPrefix("mail", newOrder());
      const all = Array.from({ length: 260 }, (_, index) => `${prefix}${String(index).padStart(4, "0")}`);
      await Promise.all(all.map((name) => storage.blobs.create("events", name, bytes(""), {})));
      await storage.blobs.delete("events", all);
      expect(await names(prefix)).toEqual([]);
    });

    describe("bundles in the archive", () => {
      it("their events are listed and read as if each had a blob of its own, among those that have one", async () => {
        const prefix = streamPrefix("mail", newOrder());
        const name = await writeBundle(storage.blobs, prefix, [1, 2, 4]);
        const single = await storage.blobs.create("archive", `${prefix}${eventId(3)}.json`, bytes('{"n":3}'), { sequence: "3" });
        const all = await listArchive(storage.blobs, prefix);
        expect(all.map((blob) => blob.name)).toEqual([1, 2, 3, 4].map((number) => `${prefix}${eventId(number)}.json`));
        expect(all.map(({ metadata }) => metadata["sequence"])).toEqual(["1", "2", "3", "4"]);
        expect(all.map(({ sizeBytes }) => sizeBytes)).toEqual([7, 7, 7, 7]);
        expect(all.map(({ bundle }) => bundle?.name)).toEqual([name, name, undefined, name]);
        expect(all.every(({ ageMs }) => ageMs >= 0 && ageMs < 60_000)).toBe(true);
        for (const { name: member, etag, metadata } of all) {
          const read = await storage.blobs.read("archive", member);
          expect(read).toEqual({ bytes: bytes(`{"n":${metadata["sequence"]}}`), etag, metadata });
        }
        expect(all[2]?.etag).toBe(single);
        expect(await storage.blobs.read("archive", `${prefix}${eventId(5)}.json`)).toBeUndefined();
      });

      it("W11: a bundle is create-only too, and reads as it is under its own name", async () => {
        const prefix = streamPrefix("mail", newOrder());
        const name = await writeBundle(storage.blobs, prefix, [1, 2]);
        await failure(writeBundle(storage.blobs, prefix, [1, 2]), "already-exists");
        expect((await storage.blobs.read("archive", name))?.bytes).toEqual(bytes('{"n":1}\n{"n":2}\n'));
      });

      it("a full one: 100 members of any bytes", async () => {
        const prefix = streamPrefix("mail", newOrder());
        const numbers = Array.from({ length: 100 }, (_, index) => index + 1);
        const bundle = encodeBundle(
          prefix,
          numbers.map((number) => bundleMember(number, { bytes: new Uint8Array(10_000).fill(number % 13) })),
        );
        await storage.blobs.create("archive", bundle.name, bundle.bytes, bundle.metadata);
        expect(await listArchive(storage.blobs, prefix)).toHaveLength(100);
        const last = await storage.blobs.read("archive", `${prefix}${eventId(100)}.json`);
        expect(last?.bytes).toEqual(new Uint8Array(10_000).fill(100 % 13));
      });

      it("an event in one can't be changed; it goes with its bundle", async () => {
        const prefix = streamPrefix("mail", newOrder());
        const name = await writeBundle(storage.blobs, prefix, [1, 2]);
        const [first] = await listArchive(storage.blobs, prefix);
        await failure(storage.blobs.writeMetadata("archive", first!.name, { a: "1" }, first!.etag), "bug");
        await storage.blobs.delete("archive", [first!.name]);
        expect(await listArchive(storage.blobs, prefix)).toHaveLength(2);
        await storage.blobs.delete("archive", [name]);
        expect(await listArchive(storage.blobs, prefix)).toEqual([]);
        expect(await storage.blobs.read("archive", first!.name)).toBeUndefined();
      });
    });

    it("an aborted signal ends calls before anything is done", async () => {
      const name = `mail/${newOrder()}/1.json`;
      const signal = AbortSignal.abort();
      await failure(storage.blobs.create("events", name, bytes("1"), {}, { signal }), "aborted");
      await failure(Array.fromAsync(storage.blobs.list("events", name, { signal })), "aborted");
      expect(await storage.blobs.read("events", name)).toBeUndefined();
    });
  });
}
