import { beforeAll, describe, expect, it } from "vitest";
import { CONTAINERS, streamPrefix } from "../../src/core/names.ts";
import type { ListedBlob, Storage } from "../../src/core/ports.ts";
import { failure, newOrder, type Connect } from "./harness.ts";

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

    it("delete takes more than one batch holds", async () => {
      const prefix = streamPrefix("mail", newOrder());
      const all = Array.from({ length: 260 }, (_, index) => `${prefix}${String(index).padStart(4, "0")}`);
      await Promise.all(all.map((name) => storage.blobs.create("events", name, bytes(""), {})));
      await storage.blobs.delete("events", all);
      expect(await names(prefix)).toEqual([]);
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
