/** The outbox is read beside the acquisition of the lease: one round trip less before the first event, and never a wrong view (W1 to W4). */
import { expect, test } from "vitest";
import { OutboxError } from "../../src/core/errors.ts";
import type { OrderLeases, OrdersTable, Storage } from "../../src/core/ports.ts";
import { findings } from "./operator-support.ts";
import { key, Scene } from "./round-support.ts";

/** The scene's storage, some of its calls made in another way. */
function storageWith(
  { storage }: Scene,
  {
    acquire = storage.leases.acquire.bind(storage.leases),
    readOutbox = storage.orders.readOutbox.bind(storage.orders),
  }: { readonly acquire?: OrderLeases["acquire"]; readonly readOutbox?: OrdersTable["readOutbox"] },
): Storage {
  const replace = <Port extends object>(port: Port, name: string, method: unknown): Port =>
    new Proxy(port, {
      get: (target, property): unknown => {
        const real: unknown = Reflect.get(target, property);
        if (property === name) return method;
        return typeof real === "function" ? real.bind(target) : real;
      },
    });
  return {
    orders: replace(storage.orders, "readOutbox", readOutbox),
    leases: replace(storage.leases, "acquire", acquire),
    blobs: storage.blobs,
    wakeUps: storage.wakeUps,
  };
}

test("§8: the outbox is asked for before the lease has answered", async () => {
  const scene = new Scene();
  await scene.commit("o-1", [1]);
  let reads = 0;
  const storage = storageWith(scene, {
    readOutbox: (...args) => {
      reads += 1;
      return scene.storage.orders.readOutbox(...args);
    },
    acquire: async (...args) => {
      await scene.clock.sleep(10);
      expect(reads).toBe(1);
      return scene.storage.leases.acquire(...args);
    },
  });
  await scene.until(scene.worker(undefined, { storage }).handle("o-1"));
  expect(scene.log).toEqual(["audit E1"]);
  // The other one is the look after the release.
  expect(reads).toBe(2);
});

test("a look that fails is made again under the lease", async () => {
  const scene = new Scene();
  await scene.commit("o-1", [1, 2]);
  let reads = 0;
  const storage = storageWith(scene, {
    readOutbox: (...args) => {
      reads += 1;
      if (reads === 1) return Promise.reject(new OutboxError("unavailable", "busy"));
      return scene.storage.orders.readOutbox(...args);
    },
  });
  expect(await scene.until(scene.worker(undefined, { storage }).handle("o-1"))).toMatchObject({ status: "done", handled: 2 });
  expect(scene.log).toEqual(["audit E1", "audit E2"]);
  expect(reads).toBe(3);
});

test("W6: a lease that was taken meanwhile is taken, whatever the look has seen or thrown", async () => {
  for (const fails of [false, true]) {
    const scene = new Scene();
    await scene.commit("o-1", [1]);
    const storage = storageWith(scene, {
      acquire: () => Promise.reject(new OutboxError("lease-taken", "somebody was faster")),
      readOutbox: (...args) => (fails ? Promise.reject(new OutboxError("timeout", "no answer")) : scene.storage.orders.readOutbox(...args)),
    });
    expect(await scene.until(scene.worker(undefined, { storage }).handle("o-1"))).toMatchObject({ status: "taken", handled: 0 });
    expect(scene.log).toEqual([]);
  }
});

test("W2: what another worker has handled between the look and the lease does not run again", async () => {
  const scene = new Scene();
  await scene.commit("o-1", [1, 2]);
  let isFirst = true;
  const storage = storageWith(scene, {
    acquire: async (...args) => {
      if (isFirst) {
        isFirst = false;
        // Long after the look, which has both entities in hand.
        await scene.clock.sleep(10);
        await scene.worker().handle("o-1");
      }
      return scene.storage.leases.acquire(...args);
    },
  });
  expect(await scene.until(scene.worker(undefined, { storage }).handle("o-1"))).toMatchObject({ status: "done", handled: 0 });
  expect(scene.log).toEqual(["audit E1", "audit E2"]);
  expect(await findings(scene)).toEqual([]);
});

test("W4: where a holder may have come and died before the lease was had, the outbox is asked again, and its start counts", async () => {
  const scene = new Scene();
  await scene.commit("o-1", [1]);
  await scene.worker().handle("o-1");
  await scene.commit("o-1", [2]);
  let isFirst = true;
  const storage = storageWith(scene, {
    acquire: async (...args) => {
      if (isFirst) {
        isFirst = false;
        // Long after the look, which has the entity in hand.
        await scene.clock.sleep(10);
        // Relays E2 and dies in its handler.
        scene.onHandle = () => new Promise(() => undefined);
        scene
          .worker()
          .handle("o-1")
          .catch(() => undefined);
        await scene.clock.sleep(1);
        scene.storage.breakLease(key("o-1"));
        await scene.clock.sleep(16_000);
        scene.onHandle = (_entry, { context }) => void attempts.push(context.attempt);
      }
      return scene.storage.leases.acquire(...args);
    },
  });
  const attempts: number[] = [];
  await scene.until(scene.worker(undefined, { storage }).handle("o-1"));
  expect(scene.log).toEqual(["audit E1", "audit E2", "audit E2"]);
  expect(attempts).toEqual([2]);
});
