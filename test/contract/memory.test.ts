import { randomUUID } from "node:crypto";
import { describe, expect, it } from "vitest";
import { OutboxError } from "../../src/core/errors.ts";
import { ManualClock } from "../support/manual-clock.ts";
import { createMemoryStorage, type MemoryStorage } from "../support/memory-storage.ts";
import { failure, newOrder, transaction, type Harness } from "./harness.ts";
import { describeStorage } from "./suites.ts";

function connectMemory(): Harness {
  const storage = createMemoryStorage(new ManualClock());
  return {
    storage,
    putForeignRow: async (order, rowKey, properties) => storage.putRow(order, rowKey, properties),
    breakLease: async (order) => storage.breakLease(order),
    deleteLeaseBlob: async (order) => storage.deleteLeaseBlob(order),
  };
}

const acquired = async (storage: MemoryStorage) => {
  const order = newOrder();
  const { etag } = await storage.leases.create(order);
  const id = randomUUID();
  await storage.leases.acquire(order, { id, durationMs: 30_000, etag });
  return { order, id, etag };
};

describe("memory", () => {
  describeStorage(connectMemory);

  describe("time", () => {
    it("an expired lease reads as abandoned, refuses writes, and can be taken by another", async () => {
      const clock = new ManualClock();
      const storage = createMemoryStorage(clock);
      const { order, id, etag } = await acquired(storage);
      await clock.advance(29_999);
      expect((await storage.leases.read(order))?.state).toBe("taken");
      await clock.advance(1);
      expect((await storage.leases.read(order))?.state).toBe("abandoned");
      await failure(storage.leases.writeMetadata(order, { a: "1" }, { leaseId: id, etag }), "lease-lost");
      await storage.leases.acquire(order, { id: randomUUID(), durationMs: 30_000, etag });
      await failure(storage.leases.renew(order, id), "lease-lost");
    });

    it("a renewal starts the duration anew, even late, as long as nobody took the lease", async () => {
      const clock = new ManualClock();
      const storage = createMemoryStorage(clock);
      const { order, id } = await acquired(storage);
      await clock.advance(20_000);
      await storage.leases.renew(order, id);
      await clock.advance(20_000);
      expect((await storage.leases.read(order))?.state).toBe("taken");
      await clock.advance(20_000);
      await storage.leases.renew(order, id);
      expect((await storage.leases.read(order))?.state).toBe("taken");
    });

    it("hidden messages come back when their time is over, counted", async () => {
      const clock = new ManualClock();
      const storage = createMemoryStorage(clock);
      await storage.wakeUps.send('"o-1"', 1_500);
      await clock.advance(1_999);
      expect(await storage.wakeUps.receive(1, 30_000)).toEqual([]);
      await clock.advance(1);
      expect(await storage.wakeUps.receive(1, 30_000)).toMatchObject([{ dequeueCount: 1 }]);
      await clock.advance(30_000);
      expect(await storage.wakeUps.receive(1, 30_000)).toMatchObject([{ dequeueCount: 2 }]);
    });
  });

  describe("disturbances", () => {
    it("a hook that throws fails the call before it is applied", async () => {
      const storage = createMemoryStorage();
      const order = newOrder();
      storage.onCall = ({ port, method, index }) => {
        if (port === "orders" && method === "commit" && index === 0) throw new OutboxError("timeout", "no answer");
      };
      await failure(storage.orders.commit(transaction(order)), "timeout");
      expect(await storage.orders.readOrder(order)).toBeUndefined();
      await storage.orders.commit(transaction(order));
      expect(storage.callCounts()).toEqual({ "orders.commit": 2, "orders.readOrder": 1 });
    });

    it("a lost response fails the call after it is applied", async () => {
      const storage = createMemoryStorage();
      const order = newOrder();
      storage.onCall = ({ method }) => (method === "commit" ? "lose-response" : undefined);
      await failure(storage.orders.commit(transaction(order)), "unavailable");
      expect(await storage.orders.readOrder(order)).toBeDefined();
    });

    it("a hook's promise delays the call, before or after it is applied", async () => {
      const storage = createMemoryStorage();
      const order = newOrder();
      const before = Promise.withResolvers<void>();
      const after = Promise.withResolvers<void>();
      storage.onCall = async () => {
        await before.promise;
        return { after: () => after.promise };
      };
      let settled = false;
      const commit = storage.orders.commit(transaction(order)).finally(() => (settled = true));
      await new Promise(setImmediate);
      expect(storage.rows(order)).toHaveLength(0);
      before.resolve();
      await new Promise(setImmediate);
      expect(storage.rows(order)).toHaveLength(2);
      expect(settled).toBe(false);
      after.resolve();
      await commit;
    });
  });
});
