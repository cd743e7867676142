/** What only the service does, done by hand: see blind-spots.ts for the list. */
import { existsSync, readFileSync } from "node:fs";
import { assert, constantFrom, oneof, property, string } from "fast-check";
import { describe, expect, test } from "vitest";
import { eventBlobName, payloadBlobName, MAX_SUBSCRIPTION_NAME_LENGTH } from "../../src/core/names.ts";
import type { EventId } from "../../src/core/event-id.ts";
import { encodeOrderId, MAX_ORDER_ID_LENGTH, parseOrderId } from "../../src/core/order-id.ts";
import type { OrderLeases, Storage } from "../../src/core/ports.ts";
import { encodeWakeUp } from "../../src/core/wake-up.ts";
import { createOutbox } from "../../src/producer/outbox.ts";
import { startWorkerHost } from "../../src/worker/host.ts";
import { failure } from "../contract/harness.ts";
import { newScene } from "../storage/port-calls.ts";
import { connectTestStorage } from "../support/azurite-storage.ts";
import { faultyHttp, onOperation, type Fault } from "../support/faulty-http.ts";
import { settle } from "../support/manual-clock.ts";
import { key, Scene, workflow } from "../worker/round-support.ts";
import { BLIND_SPOTS } from "./blind-spots.ts";

const TEST_FOLDER = new URL("../", import.meta.url);

describe("each blind spot has its tests", () => {
  test.each(BLIND_SPOTS.flatMap(({ divergence, tests }) => tests.map(([file, name]) => ({ divergence, file, name }))))(
    "the service $divergence: $file has $name",
    ({ file, name }) => {
      const url = new URL(file, TEST_FOLDER);
      expect(existsSync(url)).toBe(true);
      expect(readFileSync(url, "utf8")).toContain(name);
    },
  );
});

describe("names", () => {
  const ID = "01JZZZZZZZZZZZZZZZZZZZZZZZ" as EventId;
  const subscription = "s".repeat(MAX_SUBSCRIPTION_NAME_LENGTH);

  test("the longest names of all containers are below 1,024 characters and 254 segments", () => {
    // The unit with the longest encoding.
    const order = encodeOrderId(parseOrderId("\uFFFD".repeat(MAX_ORDER_ID_LENGTH)));
    for (const name of [order, eventBlobName(subscription, order, ID), payloadBlobName(order, ID)]) {
      expect(name.length).toBeLessThanOrEqual(1_024);
      expect(name.split("/").length).toBeLessThan(254);
    }
  });

  test("names are visible ASCII, and no segment ends with a dot or is empty, whatever the order is called", () => {
    const maxLength = MAX_ORDER_ID_LENGTH / 2;
    const orderIds = oneof(
      string({ unit: "binary", minLength: 1, maxLength }),
      string({ unit: constantFrom(".", "/", "\\", "~", "a", "ä"), minLength: 1, maxLength: 5 }),
    );
    assert(
      property(orderIds, (text) => {
        const order = encodeOrderId(parseOrderId(text));
        for (const segment of eventBlobName(subscription, order, ID).split("/"))
          expect(segment).toMatch(/^[A-Za-z0-9_~.-]*[A-Za-z0-9_~-]$/);
      }),
    );
  });
});

describe("answers of the service", () => {
  const answer = (status: number, serviceCode: string): Fault => ({ status, serviceCode });

  test.each([
    ["400 PopReceiptMismatch", answer(400, "PopReceiptMismatch")],
    ["404 PopReceiptMismatch", answer(404, "PopReceiptMismatch")],
    ["404 MessageNotFound", answer(404, "MessageNotFound")],
  ])("C33: a stale receipt answered with %s means that somebody else has the message", async (_, fault) => {
    const http = faultyHttp();
    const storage = await connectTestStorage({ httpClient: http });
    const receipt = await storage.wakeUps.send(encodeWakeUp(parseOrderId("o-1")), 0);
    http.rule = ({ operation }) => (operation === "queue UpdateMessage" || operation === "queue DeleteMessage" ? fault : "pass");
    await failure(storage.wakeUps.hide(receipt, "x", 1_000), "not-found");
    expect(await storage.wakeUps.delete(receipt)).toBe(false);
  });

  test.each([
    [404, "BlobNotFound"],
    [409, "LeaseIdMismatchWithBlobOperation"],
    [409, "LeaseNotPresentWithBlobOperation"],
    [412, "LeaseIdMismatchWithBlobOperation"],
    [412, "LeaseLost"],
  ])("W2: a progress write is fenced by every refusal of the lease: %d %s", async (status, code) => {
    const http = faultyHttp();
    const storage = await connectTestStorage({ httpClient: http });
    const { order, leaseId, leaseEtag } = await newScene(storage);
    http.rule = onOperation("blob SetBlobMetadata", answer(status, code), Number.POSITIVE_INFINITY);
    await failure(storage.leases.writeMetadata(order, { round: "r" }, { leaseId, etag: leaseEtag }), "lease-lost");
  });
});

const MINUTE_MS = 60_000;
const LEASE_MS = 30_000;

/** As the service may do: a lease that ran out is still taken for a minute, unless its holder releases it. */
function holdingForAMinute(storage: Storage, now: () => number): Storage {
  let endsAt = 0;
  const { leases } = storage;
  const held = (): boolean => now() < endsAt + MINUTE_MS;
  const slow: OrderLeases = {
    read: async (order, options) => {
      const blob = await leases.read(order, options);
      return blob?.state === "abandoned" && held() ? { ...blob, state: "taken" } : blob;
    },
    create: leases.create.bind(leases),
    acquire: async (order, lease, options) => {
      const blob = await leases.read(order);
      // Taken anew under the same etag: then the first one stands in for the refusal.
      if (blob?.state === "abandoned" && held()) await leases.acquire(order, { ...lease, etag: "refused" }, options);
      await leases.acquire(order, lease, options);
      endsAt = now() + lease.durationMs;
    },
    isHeldBy: leases.isHeldBy.bind(leases),
    renew: async (order, id, options) => {
      await leases.renew(order, id, options);
      endsAt = now() + LEASE_MS;
    },
    break: leases.break.bind(leases),
    release: leases.release.bind(leases),
    writeMetadata: leases.writeMetadata.bind(leases),
  };
  return { ...storage, leases: slow };
}

test("G5: a lease that the service holds for a minute after its end delays the order of a dead worker within the bound", async () => {
  const scene = new Scene();
  const { clock } = scene;
  const storage = holdingForAMinute(scene.storage, () => clock.monotonic());
  await scene.commit("o-1", [1]);
  scene.onHandle = () => new Promise(() => undefined);
  // It dies in the handler: nothing of it renews. Its wake-up is the one of the commit.
  const [wakeUp] = await storage.wakeUps.receive(1, LEASE_MS);
  expect(wakeUp).toBeDefined();
  const dying = scene.worker(undefined, {
    storage: { ...storage, leases: { ...storage.leases, renew: () => new Promise(() => undefined) } },
  });
  dying.handle("o-1").catch(() => undefined);
  await settle();
  expect(scene.log).toEqual(["audit E1"]);
  scene.onHandle = () => undefined;
  const host = startWorkerHost({ worker: scene.worker(undefined, { storage }), wakeUps: storage.wakeUps, clock, random: () => 0.5 });
  const diedAt = clock.monotonic();
  // Not before the service gives the lease away, and not after the published bound.
  await clock.advance(LEASE_MS + MINUTE_MS - 1_000);
  expect(scene.log).toEqual(["audit E1"]);
  await clock.advance(LEASE_MS + 2 * MINUTE_MS - (clock.monotonic() - diedAt));
  expect(scene.log).toEqual(["audit E1", "audit E1"]);
  expect(scene.progress()).toMatchObject({ clean: 1 });
  await scene.until(host.stop());
});

test("C33: a wake-up that reappears at another host before its time starts nothing twice", async () => {
  const scene = new Scene();
  const { clock, storage } = scene;
  const outbox = createOutbox({ workflow, storage, clock });
  await outbox.commit("o-1", () => ({ state: { committed: 2 }, events: [1, 2].map((n) => ({ type: "step", data: { n } })) }));
  const gate = Promise.withResolvers<void>();
  scene.onHandle = () => gate.promise;
  const hosts = [0, 1].map(() => startWorkerHost({ worker: scene.worker(), wakeUps: storage.wakeUps, clock, random: () => 0.5 }));
  await clock.advance(1_000);
  expect(scene.log).toEqual(["audit E1"]);
  // The same text again, while the first host still has it.
  await storage.wakeUps.send(encodeWakeUp(parseOrderId("o-1")), 0);
  await storage.wakeUps.send(encodeWakeUp(parseOrderId("o-1")), 0);
  await clock.advance(20_000);
  expect(scene.log).toEqual(["audit E1"]);
  gate.resolve();
  await clock.advance(120_000);
  expect(scene.log).toEqual(["audit E1", "audit E2"]);
  expect(storage.messages()).toEqual([]);
  expect(storage.leaseOf(key("o-1"))?.state).toBe("free");
  await scene.until(Promise.all(hosts.map((host) => host.stop())));
});
