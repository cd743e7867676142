/** Pending events as one listing of `events/` shows them: O(pending), no blob is read. */
import { pendingAgeMs } from "../core/event-time.ts";
import type { EventId } from "../core/event-id.ts";
import type { OrderId, OrderKey } from "../core/order-id.ts";
import { decodePendingState, type PendingState } from "../core/pending-event.ts";
import type { Etag } from "../core/ports.ts";
import { systemClock } from "../system/clock.ts";
import { parseEventBlobName } from "./blob-name.ts";
import type { OperationsContext } from "./context.ts";

export interface PendingEvent {
  readonly id: EventId;
  /** As {@link pendingAgeMs} tells it. */
  readonly ageMs: number;
  readonly etag: Etag;
  /** Both undefined if the blob's metadata is not ours: only its bytes tell its sequence then. */
  readonly sequence: number | undefined;
  readonly state: PendingState | undefined;
}

/** The pending events of one order for one subscription. */
export interface PendingStream {
  readonly subscription: string;
  readonly orderId: OrderId;
  readonly order: OrderKey;
  /** At least one, oldest first. The first is the head: nothing else of the stream can run. */
  readonly events: readonly [PendingEvent, ...PendingEvent[]];
}

export interface PendingListing {
  /** In order of subscription and order key. */
  readonly streams: readonly PendingStream[];
  /** Names that are none of ours (W10). */
  readonly foreign: readonly string[];
}

/**
 * @param filter `subscription`: only that one. `order`: only that order; listing all of `events/` is needed even so, unless the subscription
 *   is named too, because blob names begin with the subscription.
 */
export async function listPendingStreams(
  { storage, clock = systemClock }: OperationsContext,
  filter: { readonly subscription?: string | undefined; readonly order?: OrderKey | undefined } = {},
): Promise<PendingListing> {
  const { subscription, order } = filter;
  const prefix = subscription === undefined ? "" : `${subscription}/${order === undefined ? "" : `${order}/`}`;
  const streams = new Map<string, Omit<PendingStream, "events"> & { readonly events: PendingEvent[] }>();
  const foreign: string[] = [];
  for await (const blob of storage.blobs.list("events", prefix)) {
    const name = parseEventBlobName(blob.name);
    if (name === undefined) {
      if (order === undefined || blob.name.split("/")[1] === order) foreign.push(blob.name);
      continue;
    }
    if (order !== undefined && name.order !== order) continue;
    const key = `${name.subscription}/${name.order}`;
    const stream = streams.get(key) ?? { subscription: name.subscription, orderId: name.orderId, order: name.order, events: [] };
    streams.set(key, stream);
    const ageMs = pendingAgeMs(name.id, blob.ageMs, clock.now());
    const state = decodePendingState(blob.metadata);
    stream.events.push({ id: name.id, ageMs, etag: blob.etag, sequence: state?.sequence, state });
  }
  for (const { events } of streams.values()) events.sort((a, b) => (a.id < b.id ? -1 : 1));
  return { streams: [...streams.values()] as unknown as readonly PendingStream[], foreign };
}
