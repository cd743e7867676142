/** The outbox of an order under its lease: read it, and turn what is in it into pending events of the streams (W1). */
import { describeError, isOutboxError, printable } from "../core/errors.ts";
import type { StoredEvent } from "../core/event.ts";
import type { OrderAndOutbox, OutboxEntity } from "../core/ports.ts";
import { knownStream, type Progress } from "../core/progress.ts";
import { firstUnaccounted, type QueuedEvent } from "../core/stream.ts";
import type { OrderStream } from "./order-stream.ts";
import { readEntity, route, writeEventBlobs, type RoutedEvent } from "./relay.ts";
import type { RoundState } from "./round-state.ts";

export async function readOutbox(round: RoundState): Promise<OrderAndOutbox> {
  round.input.lease.assertHeld();
  const found = await round.options.storage.orders.readOutbox(round.order);
  for (const rowKey of found.unreadable) round.problem(`row ${printable(rowKey)} of the order is not one of ours; it is left alone`);
  return found;
}

/** A commit between two pages of the query shows its entities, but not its order entity. */
export function topSequence({ order, outbox }: OrderAndOutbox): number {
  return Math.max(order?.sequence ?? 0, outbox.at(-1)?.sequence ?? 0);
}

/**
 * W1. Entities that were relayed before, whose delete was interrupted, are relayed again: their blobs are there.
 *
 * @param listed sequences that have an event blob already
 */
export async function relayFound(round: RoundState, found: OrderAndOutbox, listed: ReadonlySet<number>): Promise<void> {
  const sequence = topSequence(found);
  const readable = await readEntities(round, found.outbox);
  round.gapAt ??= firstUnaccounted(round.seen, sequence, new Set(readable.map((event) => event.sequence)), listed);
  const events = readable.filter((event) => round.gapAt === undefined || event.sequence < round.gapAt);
  const last = events.at(-1)?.sequence ?? 0;
  if (last > 0) await relayEvents(round, events, found.outbox);
  if (round.gapAt === undefined) round.seen = Math.max(round.seen, sequence);
  else {
    round.seen = Math.max(round.seen, last);
    round.problem(
      `event ${round.gapAt} is missing or unreadable: outbox, pending events and progress do not have it. Nothing after it runs.`,
    );
  }
  for (const stream of round.streams) {
    const missing = stream.missing();
    if (missing !== undefined)
      round.problem(`event ${missing} of ${stream.name} is missing from its pending events. Nothing after it runs.`);
  }
}

async function relayEvents(round: RoundState, events: readonly StoredEvent[], entities: readonly OutboxEntity[]): Promise<void> {
  const { storage } = round.options;
  const { order, lease } = round.input;
  const last = events.at(-1)!.sequence;
  const routed = events.map((event) => route(event, round.streams));
  const queues = await writeEventBlobs(storage.blobs, order, routed, lease);
  for (const { event, unwanted } of routed) if (unwanted) await round.archiver.archiveUnwanted(event);
  await recordRelayed(round, routed, queues, last);
  lease.assertHeld();
  await storage.orders.deleteOutbox(
    order,
    events.map(({ id }) => id),
  );
  await dropPayloads(
    round,
    entities.filter((entity) => entity.sequence <= last),
  );
  for (const [stream, queued] of queues) stream.enqueue(queued);
}

/**
 * Before an entity goes, the progress has to tell of its event if no event blob does, or only those of a subscription that no other
 * deployment may know of.
 */
async function recordRelayed(
  round: RoundState,
  routed: readonly RoutedEvent[],
  queues: ReadonlyMap<OrderStream, readonly QueuedEvent[]>,
  last: number,
): Promise<void> {
  const fresh = [...queues].filter(([stream]) => knownStream(round.writer.written, stream.name) === undefined);
  if (fresh.length === 0 && routed.every(({ targets }) => targets.length > 0)) return;
  const streams = fresh.map(([stream, queued]) => [stream.name, { ...stream.progress, relayed: queued.at(-1)?.sequence ?? 0 }]);
  await round.writer.update((progress) => ({
    ...progress,
    relayed: Math.max(progress.relayed, last),
    streams: { ...progress.streams, ...(Object.fromEntries(streams) as Progress["streams"]) },
  }));
}

/** An entity that can't be read counts as missing: what is older goes on, nothing newer passes. */
async function readEntities(round: RoundState, entities: readonly OutboxEntity[]): Promise<StoredEvent[]> {
  const events: StoredEvent[] = [];
  for (const entity of entities) {
    try {
      events.push(await readEntity(round.options.storage.blobs, entity));
    } catch (error) {
      if (!isOutboxError(error, "corrupt", "invalid-order-id")) throw error;
      round.problem(describeError(error));
    }
  }
  return events;
}

/** The bytes live on in the event blobs. What stays behind after a crash is found by cleanup. */
async function dropPayloads(round: RoundState, entities: readonly OutboxEntity[]): Promise<void> {
  const names = entities.flatMap(({ payloadBlob }) => payloadBlob ?? []);
  if (names.length === 0) return;
  const { storage, logger } = round.options;
  await storage.blobs.delete("payloads", names).catch((error: unknown) => {
    logger.warn("a relayed payload could not be deleted", { orderId: round.input.orderId, error: describeError(error) });
  });
}
