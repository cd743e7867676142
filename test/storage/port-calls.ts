/** Every port call that makes one kind of request, and something to call it on. */
import { randomUUID } from "node:crypto";
import type { OrderKey } from "../../src/core/order-id.ts";
import type { CallOptions, Etag, Storage } from "../../src/core/ports.ts";
import { eventId, newOrder, outboxEntity, transaction } from "../contract/harness.ts";

export const DURATION_MS = 15_000;

/** An order with one event, a held lease and a blob. */
export interface Scene {
  readonly order: OrderKey;
  readonly orderEtag: Etag;
  readonly leaseId: string;
  readonly leaseEtag: Etag;
  readonly blob: string;
  readonly blobEtag: Etag;
}

/** Every port call: its request, and how to make it. */
export const CALLS: ReadonlyArray<
  readonly [operation: string, name: string, call: (storage: Storage, scene: Scene, options?: CallOptions) => Promise<unknown>]
> = [
  ["table ReadEntity", "orders.readOrder", (storage, { order }, options) => storage.orders.readOrder(order, options)],
  [
    "table ReadEntity",
    "orders.readIdempotency",
    (storage, { order }, options) => storage.orders.readIdempotency(order, "idempotency:k", options),
  ],
  ["table ReadEntity", "orders.readEntity", (storage, { order }, options) => storage.orders.readEntity(order, "line", options)],
  ["table QueryEntities", "orders.readOutbox", (storage, { order }, options) => storage.orders.readOutbox(order, options)],
  [
    "table QueryEntities",
    "orders.listEntities",
    (storage, { order }, options) => storage.orders.listEntities(order, { from: "a", to: "b" }, options),
  ],
  ["table QueryEntities", "orders.scanOutbox", (storage, _scene, options) => storage.orders.scanOutbox(undefined, 1, options)],
  ["table QueryEntities", "orders.scanOrders", (storage, _scene, options) => storage.orders.scanOrders(undefined, 1, options)],
  ["table QueryEntities", "orders.scanIdempotency", (storage, _scene, options) => storage.orders.scanIdempotency(undefined, 1, options)],
  ["table PutEntity", "orders.putEntity", (storage, { order }, options) => storage.orders.putEntity(order, "line", { n: 1 }, options)],
  [
    "table InsertEntity",
    "orders.insertIdempotency",
    (storage, { order }, options) => storage.orders.insertIdempotency(order, "idempotency:new", "{}", options),
  ],
  [
    "table InsertEntity",
    "orders.insertEntity",
    (storage, { order }, options) => storage.orders.insertEntity(order, "row", { n: 1 }, options),
  ],
  ["table DeleteEntity", "orders.deleteEntity", (storage, { order }, options) => storage.orders.deleteEntity(order, "line", options)],
  [
    "table DeleteEntity",
    "orders.deleteIdempotency of one",
    (storage, { order }, options) => storage.orders.deleteIdempotency(order, ["idempotency:k"], options),
  ],
  ["table Transaction", "orders.commit", (storage, _scene, options) => storage.orders.commit(transaction(newOrder()), options)],
  [
    "table Transaction",
    "orders.deleteOutbox of many",
    (storage, { order }, options) => storage.orders.deleteOutbox(order, [eventId(1), eventId(2)], options),
  ],
  [
    "table DeleteEntity",
    "orders.deleteOutbox of one",
    (storage, { order }, options) => storage.orders.deleteOutbox(order, [eventId(1)], options),
  ],
  ["queue SendMessage", "wakeUps.send", (storage, _scene, options) => storage.wakeUps.send('"o-1"', 0, options)],
  ["queue ReceiveMessages", "wakeUps.receive", (storage, _scene, options) => storage.wakeUps.receive(1, 30_000, options)],
  [
    "queue UpdateMessage",
    "wakeUps.hide",
    (storage, _scene, options) => storage.wakeUps.hide({ messageId: "m", popReceipt: "r" }, '"o-1"', 0, options),
  ],
  [
    "queue DeleteMessage",
    "wakeUps.delete",
    (storage, _scene, options) => storage.wakeUps.delete({ messageId: "m", popReceipt: "r" }, options),
  ],
  ["blob GetBlobProperties", "leases.read", (storage, { order }, options) => storage.leases.read(order, options)],
  ["blob GetBlobProperties", "leases.isHeldBy", (storage, { order, leaseId }, options) => storage.leases.isHeldBy(order, leaseId, options)],
  ["blob PutBlob", "leases.create", (storage, _scene, options) => storage.leases.create(newOrder(), options)],
  [
    "blob LeaseAcquire",
    "leases.acquire",
    (storage, { order, leaseId, leaseEtag }, options) =>
      storage.leases.acquire(order, { id: leaseId, durationMs: DURATION_MS, etag: leaseEtag }, options),
  ],
  ["blob LeaseRenew", "leases.renew", (storage, { order, leaseId }, options) => storage.leases.renew(order, leaseId, options)],
  ["blob LeaseBreak", "leases.break", (storage, { order }, options) => storage.leases.break(order, options)],
  ["blob LeaseRelease", "leases.release", (storage, { order, leaseId }, options) => storage.leases.release(order, leaseId, options)],
  [
    "blob SetBlobMetadata",
    "leases.writeMetadata",
    (storage, { order, leaseId, leaseEtag }, options) =>
      storage.leases.writeMetadata(order, { a: "1" }, { leaseId, etag: leaseEtag }, options),
  ],
  [
    "blob PutBlob",
    "blobs.create",
    (storage, _scene, options) => storage.blobs.create("events", randomUUID(), new Uint8Array(1), {}, options),
  ],
  ["blob GetBlob", "blobs.read", (storage, { blob }, options) => storage.blobs.read("events", blob, options)],
  ["blob ListBlobs", "blobs.list", (storage, { blob }, options) => Array.fromAsync(storage.blobs.list("events", blob, options))],
  [
    "blob SetBlobMetadata",
    "blobs.writeMetadata",
    (storage, { blob, blobEtag }, options) => storage.blobs.writeMetadata("events", blob, { a: "1" }, blobEtag, options),
  ],
  ["blob BlobBatch", "blobs.delete of many", (storage, { blob }, options) => storage.blobs.delete("events", [blob, "x"], options)],
  ["blob DeleteBlob", "blobs.delete of one", (storage, { blob }, options) => storage.blobs.delete("events", [blob], options)],
];

export async function newScene(storage: Storage): Promise<Scene> {
  const order = newOrder();
  const entity = { sequence: 2, lastEventId: eventId(2), state: "{}", commitTokens: [] };
  await storage.orders.commit(transaction(order, { entity, outbox: [outboxEntity(1), outboxEntity(2)] }));
  const orderEtag = (await storage.orders.readOrder(order))?.etag ?? "";
  const { etag: leaseEtag } = await storage.leases.create(order);
  const leaseId = randomUUID();
  await storage.leases.acquire(order, { id: leaseId, durationMs: DURATION_MS, etag: leaseEtag });
  const blob = `mail/${order}/1.json`;
  const blobEtag = await storage.blobs.create("events", blob, new Uint8Array(1), {});
  return { order, orderEtag, leaseId, leaseEtag, blob, blobEtag };
}
