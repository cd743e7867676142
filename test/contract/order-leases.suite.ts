import { randomUUID } from "node:crypto";
import { beforeAll, describe, expect, it } from "vitest";
import type { OrderKey } from "../../src/core/order-id.ts";
import type { Etag, Storage } from "../../src/core/ports.ts";
import { failure, newOrder, type Connect, type Harness } from "./harness.ts";

const DURATION_MS = 30_000;

export function describeOrderLeases(connect: Connect): void {
  describe("order leases", () => {
    let harness: Harness;
    let storage: Storage;
    beforeAll(async () => {
      harness = await connect();
      storage = harness.storage;
    });

    interface Held {
      readonly order: OrderKey;
      readonly id: string;
      readonly etag: Etag;
    }
    const acquired = async (order: OrderKey = newOrder()): Promise<Held> => {
      const blob = (await storage.leases.read(order)) ?? (await storage.leases.create(order));
      const id = randomUUID();
      await storage.leases.acquire(order, { id, durationMs: DURATION_MS, etag: blob.etag });
      return { order, id, etag: blob.etag };
    };

    it("an order without lease blob reads as undefined", async () => {
      expect(await storage.leases.read(newOrder())).toBeUndefined();
    });

    it("create makes a free blob without progress", async () => {
      const order = newOrder();
      const created = await storage.leases.create(order);
      expect(created).toMatchObject({ metadata: {}, state: "free" });
      expect(await storage.leases.read(order)).toEqual(created);
    });

    it("C34: create is create-only, also while the lease is taken", async () => {
      const { order, id, etag } = await acquired();
      await failure(storage.leases.create(order), "already-exists");
      await storage.leases.writeMetadata(order, { a: "1" }, { leaseId: id, etag });
      await failure(storage.leases.create(order), "already-exists");
      expect((await storage.leases.read(order))?.metadata).toEqual({ a: "1" });
    });

    it("C34: acquiring without a blob throws not-found, or precondition-failed as no blob is at that etag", async () => {
      const order = newOrder();
      const lease = { id: randomUUID(), durationMs: DURATION_MS, etag: '"0x1"' };
      await failure(storage.leases.acquire(order, lease), "not-found", "precondition-failed");
      expect(await storage.leases.read(order)).toBeUndefined();
    });

    it("acquire keeps the etag and shows as taken", async () => {
      const { order, etag } = await acquired();
      expect(await storage.leases.read(order)).toEqual({ etag, metadata: {}, state: "taken" });
    });

    it("W5, W6: a second holder gets lease-taken", async () => {
      const { order, etag } = await acquired();
      await failure(storage.leases.acquire(order, { id: randomUUID(), durationMs: DURATION_MS, etag }), "lease-taken");
    });

    it("acquiring again under the same id succeeds: a repeat after a lost answer", async () => {
      const { order, id, etag } = await acquired();
      await storage.leases.acquire(order, { id, durationMs: DURATION_MS, etag });
      await storage.leases.renew(order, id);
    });

    it("W2: acquiring at a stale etag throws precondition-failed: progress was written meanwhile", async () => {
      const { order, id, etag } = await acquired();
      await storage.leases.writeMetadata(order, { a: "1" }, { leaseId: id, etag });
      await storage.leases.release(order, id);
      await failure(storage.leases.acquire(order, { id: randomUUID(), durationMs: DURATION_MS, etag }), "precondition-failed");
    });

    it.each([14_999, 60_001, Number.NaN, -1])("refuses a duration of %d ms with invalid-option", async (durationMs) => {
      const order = newOrder();
      const { etag } = await storage.leases.create(order);
      await failure(storage.leases.acquire(order, { id: randomUUID(), durationMs, etag }), "invalid-option");
      expect((await storage.leases.read(order))?.state).toBe("free");
    });

    it.each([15_000, 15_001, 60_000])("takes a duration of %d ms", async (durationMs) => {
      const order = newOrder();
      const { etag } = await storage.leases.create(order);
      await storage.leases.acquire(order, { id: randomUUID(), durationMs, etag });
    });

    it("C34: of eight workers exactly one gets the lease", async () => {
      const order = newOrder();
      const { etag } = await storage.leases.create(order);
      const outcomes = await Promise.allSettled(
        Array.from({ length: 8 }, () => storage.leases.acquire(order, { id: randomUUID(), durationMs: DURATION_MS, etag })),
      );
      expect(outcomes.filter(({ status }) => status === "fulfilled")).toHaveLength(1);
    });

    it("renew keeps lease and etag", async () => {
      const { order, id, etag } = await acquired();
      await storage.leases.renew(order, id);
      expect(await storage.leases.read(order)).toEqual({ etag, metadata: {}, state: "taken" });
    });

    it("isHeldBy tells the present holder from everybody else, and changes nothing", async () => {
      const { order, id, etag } = await acquired();
      expect(await storage.leases.isHeldBy(order, id)).toBe(true);
      expect(await storage.leases.isHeldBy(order, randomUUID())).toBe(false);
      expect(await storage.leases.read(order)).toEqual({ etag, metadata: {}, state: "taken" });
      await storage.leases.release(order, id);
      expect(await storage.leases.isHeldBy(order, id)).toBe(false);
      const second = await acquired(order);
      expect(await storage.leases.isHeldBy(order, id)).toBe(false);
      await harness.breakLease(order);
      expect(await storage.leases.isHeldBy(order, second.id)).toBe(false);
      expect(await storage.leases.isHeldBy(newOrder(), id)).toBe(false);
    });

    it("release frees the order at once", async () => {
      const { order, id } = await acquired();
      await storage.leases.release(order, id);
      expect((await storage.leases.read(order))?.state).toBe("free");
      await acquired(order);
    });

    it("C18: release is quiet when done twice, by somebody else, or without a blob", async () => {
      const { order, id } = await acquired();
      await storage.leases.release(order, id);
      await storage.leases.release(order, id);
      const second = await acquired(order);
      await storage.leases.release(order, id);
      await storage.leases.renew(order, second.id);
      await storage.leases.release(newOrder(), id);
    });

    it("W2: writeMetadata replaces the metadata as a whole and moves the etag", async () => {
      const { order, id, etag } = await acquired();
      const second = await storage.leases.writeMetadata(order, { a: "1", b: "2" }, { leaseId: id, etag });
      const third = await storage.leases.writeMetadata(order, { b: "3" }, { leaseId: id, etag: second });
      expect(new Set([etag, second, third]).size).toBe(3);
      expect(await storage.leases.read(order)).toEqual({ etag: third, metadata: { b: "3" }, state: "taken" });
    });

    it("W2: a delayed write at an older etag throws precondition-failed and turns nothing back", async () => {
      const { order, id, etag } = await acquired();
      await storage.leases.writeMetadata(order, { a: "2" }, { leaseId: id, etag });
      await failure(storage.leases.writeMetadata(order, { a: "1" }, { leaseId: id, etag }), "precondition-failed");
      expect((await storage.leases.read(order))?.metadata).toEqual({ a: "2" });
    });

    it("metadata that a header can't carry is refused before any request", async () => {
      const { order, id, etag } = await acquired();
      const fence = { leaseId: id, etag };
      for (const metadata of [{ Big: "1" }, { "a-b": "1" }, { a: "é" }, { a: " 1" }, { a: "1\n2" }]) {
        await failure(storage.leases.writeMetadata(order, metadata, fence), "bug");
      }
      await failure(storage.leases.writeMetadata(order, { a: "x".repeat(8 * 1024) }, fence), "too-large");
      expect(await storage.leases.read(order)).toMatchObject({ etag, metadata: {} });
    });

    // Every way to lose a lease, against every call that needs it.
    const losses: ReadonlyArray<readonly [name: string, lose: (held: Held) => Promise<unknown>]> = [
      ["released", ({ order, id }) => storage.leases.release(order, id)],
      ["broken", ({ order }) => harness.breakLease(order)],
      ["broken and taken by another", async ({ order }) => (await harness.breakLease(order), acquired(order))],
      ["released and taken by another", async ({ order, id }) => (await storage.leases.release(order, id), acquired(order))],
      ["gone with its blob", ({ order }) => harness.deleteLeaseBlob(order)],
      ["gone with its blob, which is there anew", async ({ order }) => (await harness.deleteLeaseBlob(order), acquired(order))],
    ];
    it.each(losses)("C05, C17: a lease that was %s makes renew throw lease-lost", async (_name, lose) => {
      const held = await acquired();
      await lose(held);
      await failure(storage.leases.renew(held.order, held.id), "lease-lost");
    });
    it.each(losses)("C05, W2: a lease that was %s makes writeMetadata throw lease-lost and write nothing", async (name, lose) => {
      const held = await acquired();
      await lose(held);
      // Without the blob its etag is gone too, and the service may look at that first; either refusal stops the holder.
      const codes = name.startsWith("gone") ? (["lease-lost", "precondition-failed"] as const) : (["lease-lost"] as const);
      await failure(storage.leases.writeMetadata(held.order, { a: "1" }, { leaseId: held.id, etag: held.etag }), ...codes);
      expect((await storage.leases.read(held.order))?.metadata ?? {}).toEqual({});
    });
    it.each(losses)("C18: a lease that was %s makes release return quietly, and nobody else loses theirs", async (name, lose) => {
      const held = await acquired();
      await lose(held);
      const before = await storage.leases.read(held.order);
      await storage.leases.release(held.order, held.id);
      const after = await storage.leases.read(held.order);
      expect(after?.state).toBe(name === "broken" ? "free" : before?.state);
    });

    it("a broken lease reads as abandoned and can be taken", async () => {
      const { order } = await acquired();
      await harness.breakLease(order);
      expect((await storage.leases.read(order))?.state).toBe("abandoned");
      await acquired(order);
    });

    it("G2: break lets a lease run out: no renewal and no other holder, but its holder's writes count for as long as it lasts", async () => {
      const { order, id, etag } = await acquired();
      const next = await storage.leases.writeMetadata(order, { a: "1" }, { leaseId: id, etag });
      const endsInMs = await storage.leases.break(order);
      expect(endsInMs).toBeGreaterThan(0);
      expect(endsInMs).toBeLessThanOrEqual(DURATION_MS);
      expect(await storage.leases.read(order)).toEqual({ etag: next, metadata: { a: "1" }, state: "taken", breaking: true });
      await failure(storage.leases.renew(order, id), "lease-lost");
      for (const other of [randomUUID(), id]) {
        await failure(storage.leases.acquire(order, { id: other, durationMs: DURATION_MS, etag: next }), "lease-taken");
      }
      expect(await storage.leases.isHeldBy(order, id)).toBe(true);
      const last = await storage.leases.writeMetadata(order, { a: "2" }, { leaseId: id, etag: next });
      await storage.leases.release(order, id);
      expect(await storage.leases.read(order)).toEqual({ etag: last, metadata: { a: "2" }, state: "free" });
      await acquired(order);
    });

    it("C18: break is quiet when there is no lease, one that breaks already, or no blob", async () => {
      const { order, id } = await acquired();
      const first = await storage.leases.break(order);
      expect(await storage.leases.break(order)).toBeLessThanOrEqual(first);
      const free = await acquired();
      await storage.leases.release(free.order, free.id);
      expect(await storage.leases.break(free.order)).toBe(0);
      expect((await storage.leases.read(free.order))?.state).toBe("free");
      expect(await storage.leases.break(newOrder())).toBe(0);
      await failure(storage.leases.renew(order, id), "lease-lost");
      const ended = await acquired();
      await harness.breakLease(ended.order);
      expect(await storage.leases.break(ended.order)).toBe(0);
      expect((await storage.leases.read(ended.order))?.state).toBe("abandoned");
    });

    it("an aborted signal takes nothing", async () => {
      const order = newOrder();
      const { etag } = await storage.leases.create(order);
      const signal = AbortSignal.abort();
      await failure(storage.leases.acquire(order, { id: randomUUID(), durationMs: DURATION_MS, etag }, { signal }), "aborted");
      expect((await storage.leases.read(order))?.state).toBe("free");
    });
  });
}
