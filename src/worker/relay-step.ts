/** The outbox of an order under its lease: read it, and turn what is in it into pending events of the streams (W1). */
import { describeError, isOutboxError, printable } from "../core/errors.ts";
import type { StoredEvent } from "../core/event.ts";
import type { OrderAndOutbox, OutboxEntity } from "../core/ports.ts";
import { knownStream, streamProgress } from "../core/progress.ts";
import { firstUnaccounted, newestSequence, type QueuedEvent } from "../core/stream.ts";
import { AbsentStreams } from "./absent-stream.ts";
import { readEntity, route, writeEventBlobs, type RelayStream, type RoutedEvent } from "./event-blobs.ts";
import { mendChain, writePrevious } from "./mend-chain.ts";
import type { RoundState } from "./round-state.ts";

/** @param known the answer, if it was asked already */
export async function readOutbox(round: RoundState, known?: OrderAndOutbox): Promise<OrderAndOutbox> {
  round.input.lease.assertHeld();
  const found = known ?? (await round.options.storage.orders.readOutbox(round.order));
  round.orderIsAt(topSequence(found));
  for (const rowKey of found.unreadable) round.problem(`row ${printable(rowKey)} of the order is not one of ours; it is left alone`);
  return found;
}

export function topSequence({ order, outbox }: OrderAndOutbox): number {
  return newestSequence(order?.sequence, outbox);
}

/**
 * W1. Entities that were relayed before, whose delete was interrupted, are relayed again: their blobs are there.
 *
 * @param listed sequences that have an event blob already
 */
export async function relayFound(round: RoundState, found: OrderAndOutbox, listed: ReadonlySet<number>): Promise<void> {
  const sequence = topSequence(found);
  const readable = await readEntities(round, found.outbox);
  const gapAt = firstUnaccounted(round.seen, sequence, new Set(readable.map((event) => event.sequence)), listed);
  if (gapAt !== undefined) {
    round.stopAt(gapAt);
    round.gap(`event ${gapAt} is missing or unreadable: outbox, pending events and progress do not have it. Nothing after it runs.`);
  }
  const events = readable.filter((event) => round.passes(event.sequence));
  const last = events.at(-1)?.sequence ?? 0;
  if (last > 0) await relayEvents(round, events, found.outbox);
  round.relayedUpTo(round.stopped === undefined ? sequence : last);
  for (const stream of round.streams) round.reportBroken(stream);
}

async function relayEvents(round: RoundState, events: readonly StoredEvent[], entities: readonly OutboxEntity[]): Promise<void> {
  const { order } = round;
  const { storage } = round.options;
  const { input } = round;
  const { lease } = input;
  const last = events.at(-1)!.sequence;
  const absent = new AbsentStreams((name) => round.elsewhere(name));
  const routed = events.map((event) => route(event, round.streams, absent));
  await recordNames(round, routed);
  const known = { pokes: input.wakeable.pokes, atMs: round.options.clock.monotonic() };
  // W3: a place before it that no entity tells of any more is one of an event that was lost: it stays missing. One that grows, as the stream wants
  // more than it did, tells that what is before it was there (G6).
  const inHand = new Set(events.map(({ sequence }) => sequence));
  const queues = await writeEventBlobs(storage.blobs, order, routed, lease, (name, queued, previous) =>
    previous > queued.previous || inHand.has(queued.previous) ? writePrevious(round, name, queued, previous) : Promise.resolve(queued),
  );
  for (const { event, unwanted } of routed) if (unwanted) await round.archiver.archiveUnwanted(event);
  for (const [name, progress] of absent.enqueue(queues)) round.keepElsewhere(name, progress);
  await recordRelayed(round, routed, queues, last);
  await mendChains(round, inHand, queues);
  lease.assertHeld();
  await storage.orders.deleteOutbox(
    order,
    events.map(({ id }) => id),
  );
  await dropPayloads(
    round,
    entities.filter((entity) => entity.sequence <= last),
  );
  for (const stream of round.streams) stream.enqueue((queues.get(stream) ?? []).map((queued) => ({ ...queued, known })));
}

/** A stream that the progress does not know is put on record before it has blobs, or a relay that ends here hides them for good. */
async function recordNames(round: RoundState, routed: readonly RoutedEvent[]): Promise<void> {
  const names = new Set(routed.flatMap(({ targets }) => targets.map(({ stream }) => stream.name)));
  const fresh = [...names].filter((name) => knownStream(round.writer.written, name) === undefined);
  if (fresh.length > 0) await round.recordNames(fresh);
}

async function mendChains(
  round: RoundState,
  relayed: ReadonlySet<number>,
  queues: ReadonlyMap<RelayStream, readonly QueuedEvent[]>,
): Promise<void> {
  const targeted = new Map([...queues].map(([{ name }, queued]) => [name, new Set(queued.map(({ sequence }) => sequence))]));
  const none: ReadonlySet<number> = new Set();
  for (const stream of round.streams) {
    const { name, queue, recorded } = stream;
    const own = targeted.get(name) ?? none;
    // What is relayed once more has its place from the relay.
    const waiting = queue.filter(({ sequence }) => !own.has(sequence));
    stream.enqueue(await mendChain(round, name, waiting, recorded, relayed, own));
  }
  for (const [name, waiting] of round.waitingElsewhere) {
    const recorded = streamProgress(round.writer.written, name);
    const { sequence } = round.elsewhere(name);
    const progress = { ...recorded, sequence: Math.max(recorded.sequence, sequence) };
    await mendChain(round, name, waiting, progress, relayed, targeted.get(name) ?? none);
  }
}

/** Before an entity goes, the progress has to tell of its event where no other deployment would find it. */
async function recordRelayed(
  round: RoundState,
  routed: readonly RoutedEvent[],
  queues: ReadonlyMap<RelayStream, readonly QueuedEvent[]>,
  last: number,
): Promise<void> {
  if (routed.every(({ targets }) => targets.length > 0)) return;
  await round.recordRelayed(new Map([...queues].map(([{ name }, queued]) => [name, queued.at(-1)?.sequence ?? 0])), last);
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
