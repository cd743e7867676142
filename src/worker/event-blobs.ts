/** What an outbox entity becomes: which streams get its event, and their event blobs. For W1, which needs them first, see relay-step.ts. */
import { isOutboxError, OutboxError } from "../core/errors.ts";
import { eventBytes, type StoredEvent } from "../core/event.ts";
import { MAX_INLINE_EVENT_UNITS } from "../core/limits.ts";
import { eventBlobName } from "../core/names.ts";
import type { OrderKey } from "../core/order-id.ts";
import { outboxEvent } from "../core/outbox-event.ts";
import { decodePendingState, encodePendingState, freshState, type PendingState } from "../core/pending-event.ts";
import type { Blobs, OutboxEntity } from "../core/ports.ts";
import type { QueuedEvent } from "../core/stream.ts";
import type { AbsentStream, AbsentStreams } from "./absent-stream.ts";
import type { HeldLease } from "./held-lease.ts";
import type { OrderStream } from "./order-stream.ts";

/** Where an event may go: a stream of this round, or one that is not deployed here. */
export type RelayStream = OrderStream | AbsentStream;

/** How many event blobs of an order are written at once. */
const MAX_PARALLEL_WRITES = 16;

export interface RoutedEvent {
  readonly event: StoredEvent;
  /** Streams that get the event. */
  readonly targets: readonly { readonly stream: RelayStream; readonly undecided: boolean }[];
  /** No subscription wants it, now or before. */
  readonly unwanted: boolean;
}

/** The event of an outbox entity. Throws `corrupt` if its text or payload is not the event it names. */
export async function readEntity(blobs: Blobs, entity: OutboxEntity): Promise<StoredEvent> {
  const { text, payloadBlob } = entity;
  const payload = text !== undefined || payloadBlob === undefined ? undefined : await blobs.read("payloads", payloadBlob);
  return outboxEvent(entity, payload?.bytes);
}

/**
 * Which streams get the event: those whose subscription wants it and that have not finished it (C01). A predicate that throws must hold up
 * nobody else (G4) and lose nothing: its stream gets the event, and is asked again before the handler runs.
 */
export function route(event: StoredEvent, streams: readonly OrderStream[], absent: AbsentStreams): RoutedEvent {
  const { replayFor } = event;
  if (replayFor !== undefined) {
    // A replay is for one subscription, whatever its filter says by now (F9), and whether it is deployed here or not (F10).
    const stream = streams.find(({ name }) => name === replayFor) ?? absent.stream(replayFor);
    return { event, targets: stream.hasFinished(event) ? [] : [{ stream, undecided: false }], unwanted: false };
  }
  const asked = streams.map((stream) => {
    try {
      return { stream, wants: stream.subscription.wants(event), undecided: false };
    } catch {
      return { stream, wants: true, undecided: true };
    }
  });
  const wanting = asked.filter(({ wants }) => wants);
  return { event, targets: wanting.filter(({ stream }) => !stream.hasFinished(event)), unwanted: wanting.length === 0 };
}

/** Writes the event blobs of all events and returns what to queue, per stream and in order. */
export async function writeEventBlobs(
  blobs: Blobs,
  order: OrderKey,
  routed: readonly RoutedEvent[],
  lease: HeldLease,
  movePlace: (subscription: string, queued: QueuedEvent, previous: number) => Promise<QueuedEvent>,
): Promise<ReadonlyMap<RelayStream, readonly QueuedEvent[]>> {
  const writes: { readonly stream: RelayStream; readonly event: StoredEvent; readonly state: PendingState; queued?: QueuedEvent }[] = [];
  const last = new Map<RelayStream, number>();
  for (const { event, targets } of routed) {
    for (const { stream, undecided } of targets) {
      const previous = last.get(stream) ?? stream.lastSequenceBefore(event);
      writes.push({ stream, event, state: freshState(event.sequence, previous, undecided) });
      last.set(stream, event.sequence);
    }
  }
  const iterator = writes.values();
  const lane = async (): Promise<void> => {
    for (const write of iterator) {
      // W5: a late blob of a dead holder would never run, but lie around.
      lease.assertHeld();
      write.queued = await createEventBlob(blobs, order, write.stream.name, write.event, write.state, (queued, previous) =>
        movePlace(write.stream.name, queued, previous),
      );
    }
  };
  const lanes = await Promise.allSettled(Array.from({ length: Math.min(MAX_PARALLEL_WRITES, writes.length) }, lane));
  const failed = lanes.find((result) => result.status === "rejected");
  if (failed !== undefined) throw failed.reason;
  const queues = new Map<RelayStream, QueuedEvent[]>();
  for (const { stream, queued } of writes) {
    const queue = queues.get(stream) ?? [];
    if (queued !== undefined) queue.push(queued);
    queues.set(stream, queue);
  }
  return queues;
}

async function createEventBlob(
  blobs: Blobs,
  order: OrderKey,
  subscription: string,
  event: StoredEvent,
  state: PendingState,
  movePlace: (queued: QueuedEvent, previous: number) => Promise<QueuedEvent>,
): Promise<QueuedEvent> {
  const name = eventBlobName(subscription, order, event.id);
  const bytes = eventBytes(event.text);
  // Big texts are read again when their turn comes rather than kept in memory.
  const text = event.text.length <= MAX_INLINE_EVENT_UNITS ? { text: event.text } : {};
  try {
    const etag = await blobs.create("events", name, bytes, encodePendingState(state));
    return { id: event.id, ...state, etag, suspect: false, ...text };
  } catch (error) {
    if (!isOutboxError(error, "already-exists")) throw error;
    const existing = await blobs.read("events", name);
    if (existing === undefined || Buffer.compare(existing.bytes, bytes) !== 0) {
      throw new OutboxError("corrupt", `events/${name} exists with other bytes than the outbox entity; neither is touched`, {
        cause: error,
      });
    }
    // Ours, from before a crash or a lost answer. Its attempts stay (C28), and its start is counted before the handler runs (W4).
    // Its place in the chain is what it is now: the filter may have changed since, or a blob before it never came to be.
    const known = decodePendingState(existing.metadata) ?? state;
    const queued: QueuedEvent = { id: event.id, ...known, sequence: event.sequence, etag: existing.etag, suspect: true, ...text };
    return known.previous === state.previous ? queued : movePlace(queued, state.previous);
  }
}
