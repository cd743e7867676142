/** A subscription's own stream of an order, as far as storage still has it. */
import { decodeDeadLetterSummary } from "../core/dead-letter.ts";
import { OutboxError, printable } from "../core/errors.ts";
import type { EventId } from "../core/event-id.ts";
import { decodeWhole } from "../core/metadata-text.ts";
import { eventIdOfBlob, streamPrefix } from "../core/names.ts";
import type { OrderKey } from "../core/order-id.ts";
import type { Blobs } from "../core/ports.ts";
import type { OwnEvent } from "./replay-had.ts";
import { sourceSequence, type SourceContainer } from "./replay-sources.ts";

/** One of them, and where it is. */
export interface OwnBlob extends OwnEvent {
  readonly container: SourceContainer;
}

/**
 * Pending ones are listed first: one that is archived meanwhile is found there.
 *
 * @returns in order
 * @throws `corrupt` for a blob without our metadata: what can't be placed may be any event
 */
export async function readOwnEvents(blobs: Blobs, subscription: string, order: OrderKey): Promise<readonly OwnBlob[]> {
  const prefix = streamPrefix(subscription, order);
  const own = new Map<EventId, OwnBlob>();
  for (const container of ["events", "archive"] as const) {
    for await (const { name, metadata } of blobs.list(container, prefix)) {
      const id = eventIdOfBlob(name, prefix);
      // Nobody's event has such a name (W10); `verify` tells of it.
      if (id === undefined) continue;
      const sequence = sourceSequence(metadata);
      if (sequence === undefined) throw new OutboxError("corrupt", `${container}/${printable(name)} has no metadata of ours`);
      const outcome = container === "events" ? undefined : (metadata["outcome"] ?? "handled");
      own.set(id, { id, sequence, previous: decodeWhole(metadata["previous"]) ?? sequence - 1, outcome, container });
    }
  }
  return [...own.values()].sort((a, b) => a.sequence - b.sequence);
}

/**
 * With what their stream has passed as finished, although it is not archived yet: it waits for others to be archived with, or its worker died.
 *
 * @param last the last finished one, by a progress that was read after them
 */
export async function withPassed(
  blobs: Blobs,
  subscription: string,
  order: OrderKey,
  own: readonly OwnBlob[],
  last: EventId | undefined,
): Promise<readonly OwnBlob[]> {
  const isPassed = ({ id, outcome }: OwnBlob): boolean => outcome === undefined && last !== undefined && id <= last;
  if (!own.some(isPassed)) return own;
  const prefix = streamPrefix(subscription, order);
  const skipped = new Set<EventId | undefined>();
  for await (const { name, metadata } of blobs.list("dead", prefix)) {
    if (decodeDeadLetterSummary(metadata)?.policy === "skip") skipped.add(eventIdOfBlob(name, prefix));
  }
  return own.map((event) => (isPassed(event) ? { ...event, outcome: skipped.has(event.id) ? "dead-lettered" : "handled" } : event));
}
