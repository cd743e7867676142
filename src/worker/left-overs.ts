/** What became of events that the progress has passed and whose pending blobs are still there (W2, G6). */
import type { EventId } from "../core/event-id.ts";
import { decodeWhole } from "../core/metadata-text.ts";
import { eventIdOfBlob } from "../core/names.ts";
import type { Blobs } from "../core/ports.ts";
import type { FinishedEvent } from "./archiver.ts";

/** An event of a stream, and the one before it when it was relayed. */
export type Neighbour = Pick<FinishedEvent, "id" | "previous">;

export interface LeftOvers<E extends FinishedEvent> {
  /** How each of them ended. */
  readonly ends: ReadonlyMap<EventId, E>;
  /** Those that their holder has archived together with others. */
  readonly bundled: ReadonlySet<EventId>;
}

/**
 * Costs a listing of their stream's archive.
 *
 * @param prefix of the stream
 * @param events at least one, oldest first
 * @param next what is pending behind them
 */
export async function judgeLeftOvers<E extends FinishedEvent>(
  blobs: Blobs,
  prefix: string,
  events: readonly E[],
  next: Neighbour | undefined,
): Promise<LeftOvers<E>> {
  const archived: Neighbour[] = [];
  const bundled = new Set<EventId>();
  for await (const { name, metadata, bundle } of blobs.list("archive", prefix)) {
    const id = eventIdOfBlob(name, prefix);
    const previous = decodeWhole(metadata["previous"]);
    if (id === undefined || id < events[0]!.id || previous === undefined) continue;
    archived.push({ id, previous });
    if (bundle !== undefined) bundled.add(id);
  }
  const ends = new Map<EventId, E>();
  // The newest first: one that was never in the stream hands on what is behind it.
  let behind = next;
  for (const event of events.toReversed()) {
    const other = archived.find(({ id }) => id > event.id);
    const end = endOf(event, older(behind, other));
    ends.set(event.id, end);
    behind = end;
  }
  return { ends, bundled };
}

/**
 * One behind which the chain goes on without it was never in the stream: a dead holder's relay wrote it late, when another deployment had relayed
 * it to others alone, or when what is behind it was discarded without it. It did not run, so it was not handled. One with a counted start did:
 * only the first start of what a round has relayed itself is not counted (W4), and what is relayed then or later names it.
 */
function endOf<E extends FinishedEvent>(event: E, behind: Neighbour | undefined): E {
  if (event.outcome !== "handled") return event;
  if (event.attempts > 0 || behind === undefined || behind.previous >= event.sequence) {
    // The last start of a handled event is counted nowhere else.
    return { ...event, attempts: Math.max(1, event.attempts) };
  }
  return { ...event, outcome: "unwanted", previous: Math.min(event.previous, behind.previous) };
}

function older(one: Neighbour | undefined, other: Neighbour | undefined): Neighbour | undefined {
  if (one === undefined || other === undefined) return one ?? other;
  return one.id < other.id ? one : other;
}
