import type { EventId } from "../core/event-id.ts";
import type { FinishedEvents } from "./finished-events.ts";
import type { GatheredOrder } from "./order-facts.ts";

/** Ids by sequence, from every place where an event of the order is: what one stream has lost, another may still have. */
export function eventIdsOf({
  found,
  streams,
  finished,
}: Pick<GatheredOrder<readonly FinishedEvents[]>, "found" | "streams" | "finished">): ReadonlyMap<number, EventId> {
  const ids = new Map<number, EventId>();
  for (const { sequence, id } of found.outbox) ids.set(sequence, id);
  for (const { events } of streams) for (const { id, state } of events) if (state !== undefined) ids.set(state.sequence, id);
  for (const { archived, dead } of finished) {
    for (const { sequence, id } of archived) ids.set(sequence, id);
    for (const [id, { sequence }] of dead) ids.set(sequence, id);
  }
  return ids;
}
