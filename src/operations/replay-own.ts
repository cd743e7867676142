/** A subscription's own stream of an order, as far as storage still has it. */
import { OutboxError, printable } from "../core/errors.ts";
import type { EventId } from "../core/event-id.ts";
import { decodeWhole } from "../core/metadata-text.ts";
import { eventIdOfBlob, streamPrefix } from "../core/names.ts";
import type { OrderKey } from "../core/order-id.ts";
import type { Blobs } from "../core/ports.ts";
import type { OwnEvent } from "./replay-had.ts";
import { sourceSequence } from "./replay-sources.ts";

/**
 * Pending ones are listed first: one that is finished meanwhile is in the archive by then.
 *
 * @returns in order
 * @throws `corrupt` for a blob without our metadata: what can't be placed may be any event
 */
export async function readOwnEvents(blobs: Blobs, subscription: string, order: OrderKey): Promise<readonly OwnEvent[]> {
  const prefix = streamPrefix(subscription, order);
  const own = new Map<EventId, OwnEvent>();
  for (const container of ["events", "archive"] as const) {
    for await (const { name, metadata } of blobs.list(container, prefix)) {
      const id = eventIdOfBlob(name, prefix);
      // Nobody's event has such a name (W10); `verify` tells of it.
      if (id === undefined) continue;
      const sequence = sourceSequence(metadata);
      if (sequence === undefined) throw new OutboxError("corrupt", `${container}/${printable(name)} has no metadata of ours`);
      const outcome = container === "events" ? undefined : (metadata["outcome"] ?? "handled");
      own.set(id, { id, sequence, previous: decodeWhole(metadata["previous"]) ?? sequence - 1, outcome });
    }
  }
  return [...own.values()].sort((a, b) => a.sequence - b.sequence);
}
