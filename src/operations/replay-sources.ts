/** Where the bytes of an order's events are: archived or pending, for whichever subscription. */
import { OutboxError, printable, isOutboxError } from "../core/errors.ts";
import { decodeEventBytes, type StoredEvent } from "../core/event.ts";
import type { EventId } from "../core/event-id.ts";
import { decodeWhole } from "../core/metadata-text.ts";
import { eventIdOfBlob, streamPrefix } from "../core/names.ts";
import type { OrderId, OrderKey } from "../core/order-id.ts";
import type { Blobs, Metadata } from "../core/ports.ts";

export type SourceContainer = "archive" | "events";

export interface SourceEvent {
  readonly id: EventId;
  readonly sequence: number;
  /** Copies with the same bytes. */
  readonly places: { readonly container: SourceContainer; readonly name: string }[];
}

export type Sources = Map<EventId, SourceEvent>;

/** Undefined for a blob without our metadata. */
export function sourceSequence(metadata: Metadata): number | undefined {
  const sequence = decodeWhole(metadata["sequence"]);
  return sequence === undefined || sequence < 1 ? undefined : sequence;
}

export function addSource(sources: Sources, id: EventId, sequence: number, container: SourceContainer, name: string): void {
  const source = sources.get(id) ?? { id, sequence, places: [] };
  sources.set(id, source);
  if (!source.places.some((place) => place.container === container && place.name === name)) source.places.push({ container, name });
}

/** Adds what the streams of one order hold at this moment, in the direction in which events move: one that moves is seen twice at most. */
export async function addStreams(blobs: Blobs, order: OrderKey, subscriptions: Iterable<string>, sources: Sources): Promise<void> {
  for (const subscription of subscriptions) {
    const prefix = streamPrefix(subscription, order);
    for (const container of ["events", "archive"] as const) {
      for await (const { name, metadata } of blobs.list(container, prefix)) {
        const id = eventIdOfBlob(name, prefix);
        const sequence = sourceSequence(metadata);
        if (id !== undefined && sequence !== undefined) addSource(sources, id, sequence, container, name);
      }
    }
  }
}

/** @throws `corrupt` if no copy of it is left that can be read */
export async function readSource(blobs: Blobs, orderId: OrderId, { id, sequence, places }: SourceEvent): Promise<StoredEvent> {
  let cause: unknown;
  for (const { container, name } of places) {
    // A pending one may have been archived meanwhile.
    const blob = (await blobs.read(container, name)) ?? (container === "events" ? await blobs.read("archive", name) : undefined);
    if (blob === undefined) continue;
    try {
      const event = decodeEventBytes(blob.bytes);
      if (event.id === id && event.sequence === sequence && event.orderId === orderId) return event;
      cause = new OutboxError("corrupt", `${container}/${name} holds another event`);
    } catch (error) {
      if (!isOutboxError(error, "corrupt")) throw error;
      cause = error;
    }
  }
  throw new OutboxError(
    "corrupt",
    `event ${sequence} (${id}) of order ${printable(orderId)} can't be read any more, nothing after it is replayed`,
    {
      cause,
    },
  );
}
