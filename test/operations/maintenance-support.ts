/** Scenes for sweep, reconcile and cleanup: blobs, rows and leases as workers, producers and operators leave them. */
import { randomUUID } from "node:crypto";
import { encodeEvent } from "../../src/core/event.ts";
import { eventBlobName } from "../../src/core/names.ts";
import { encodeOrderId, parseOrderId, type OrderKey } from "../../src/core/order-id.ts";
import { encodePendingState, freshState, type PendingState } from "../../src/core/pending-event.ts";
import type { Metadata, Storage } from "../../src/core/ports.ts";
import { encodeProgress, type Progress } from "../../src/core/progress.ts";
import { eventId } from "../contract/harness.ts";
import type { MemoryStorage } from "../support/memory-storage.ts";

export const MINUTE_MS = 60_000;
export const DAY_MS: number = 24 * 60 * MINUTE_MS;

export function keyOf(orderId: string): OrderKey {
  return encodeOrderId(parseOrderId(orderId));
}

/** Name in `events`, `archive` and `dead`. */
export function blobName(orderId: string, number: number = 1, subscription: string = "mail"): string {
  return eventBlobName(subscription, keyOf(orderId), eventId(number));
}

interface PendingScene {
  /** Default `mail`. */
  readonly subscription?: string;
  /** Number of the event in its order; default 1. */
  readonly number?: number;
  readonly state?: Partial<PendingState>;
}

/** A pending event, as a relay left it. */
export async function putPending(storage: Storage, orderId: string, scene: PendingScene = {}): Promise<void> {
  const { subscription = "mail", number = 1, state = {} } = scene;
  const time = "2026-01-01T00:00:00.000Z";
  const head = { id: eventId(number), orderId: parseOrderId(orderId), sequence: number, type: "instructed", source: "/shipment", time };
  const bytes = new TextEncoder().encode(encodeEvent(head, "{}"));
  const metadata = encodePendingState({ ...freshState(number, number - 1), ...state });
  await storage.blobs.create("events", blobName(orderId, number, subscription), bytes, metadata);
}

/** The progress of an order whose first `number` events are finished for a subscription. */
export function finished(number: number, subscription: string = "mail"): Progress {
  return { clean: number, relayed: number, streams: { [subscription]: { sequence: number, id: eventId(number), relayed: number } } };
}

/** A free lease blob with the metadata of `progress`. */
export async function putProgress(storage: Storage, orderId: string, progress: Progress | Metadata): Promise<void> {
  const order = keyOf(orderId);
  const metadata: Metadata = "streams" in progress ? encodeProgress(progress as Progress, "round") : progress;
  const { etag } = await storage.leases.create(order);
  const id = randomUUID();
  await storage.leases.acquire(order, { id, durationMs: 15_000, etag });
  await storage.leases.writeMetadata(order, metadata, { leaseId: id, etag });
  await storage.leases.release(order, id);
}

/** A worker holds the order. */
export async function holdLease(storage: Storage, orderId: string, durationMs: number = 30_000): Promise<void> {
  const order = keyOf(orderId);
  const { etag } = (await storage.leases.read(order)) ?? (await storage.leases.create(order));
  await storage.leases.acquire(order, { id: randomUUID(), durationMs, etag });
}

/** Orders in the queue and how long their wake-ups are hidden. */
export function wakeUps(storage: MemoryStorage): ReadonlyArray<readonly [orderId: string, hiddenForMs: number]> {
  return storage.messages().map(({ text, hiddenForMs }) => [JSON.parse(text) as string, hiddenForMs]);
}

/** Loses every visible wake-up for good. */
export async function emptyQueue(storage: MemoryStorage): Promise<void> {
  for (;;) {
    const received = await storage.wakeUps.receive(32, 1_000);
    if (received.length === 0) return;
    for (const { receipt } of received) await storage.wakeUps.delete(receipt);
  }
}
