/**
 * Where the index of dead letters and the events do not agree, because a request landed late (W11). A worker that gets no answer writes its entry
 * again and goes on; a copy of the first request may still land after the event was redriven and handled, when no worker looks at it any more:
 * then the entry is stale. A late delete, of a redrive, takes the entry of an event that is dead again: then it is unlisted.
 */
import { eventBlobName } from "../core/names.ts";
import { decodePendingState } from "../core/pending-event.ts";
import type { CallOptions, Metadata, Storage } from "../core/ports.ts";
import { inLanes } from "./lanes.ts";
import type { StreamHead } from "./stream-heads.ts";

const LANES = 16;
/** After these no event can die any more. A skipped one is `dead-lettered`: its entry is what is left for people to decide about. */
const ENDED: ReadonlySet<string | undefined> = new Set(["handled", "discarded"]);

/**
 * Entries that may be stale, by what the listings tell: usually none.
 *
 * @param blocking names of the entries that say their event blocks its stream: skipped ones are all finished, and stay for people
 */
export function suspectEntries(blocking: readonly string[], heads: readonly StreamHead[]): readonly string[] {
  const blocked = new Set(heads.filter(isBlocked).map(nameOf));
  return blocking.filter((name) => !blocked.has(name));
}

/**
 * Heads that block their stream and are not on the list: usually none. The worker that has such an order writes the entry again.
 *
 * @param listed names of all entries
 */
export function unlistedHeads(listed: ReadonlySet<string>, heads: readonly StreamHead[]): readonly StreamHead[] {
  return heads.filter((head) => isBlocked(head) && !listed.has(nameOf(head)));
}

function isBlocked({ state }: StreamHead): boolean {
  return state?.status === "blocked";
}

function nameOf({ subscription, order, id }: StreamHead): string {
  return eventBlobName(subscription, order, id);
}

/**
 * Costs up to four calls for each suspect. Needs no lease: nobody writes such an entry for an event that is archived; and one that waits is
 * blocked before it has an entry, so should it die right now, that is another entry, or one that the next sweep misses.
 */
export async function dropStaleEntries(
  { blobs }: Pick<Storage, "blobs">,
  suspects: readonly string[],
  options: CallOptions,
): Promise<readonly string[]> {
  const stale = await inLanes(suspects, LANES, async (name) => {
    const entry = await blobs.read("dead", name, options);
    const event = await blobs.read("events", name, options);
    const isStale =
      event === undefined ? ENDED.has((await blobs.read("archive", name, options))?.metadata["outcome"]) : isAlive(event.metadata);
    if (entry === undefined || !isStale) return [];
    await blobs.deleteUnchanged("dead", name, entry.etag, options);
    return [name];
  });
  return stale.flat();
}

function isAlive(metadata: Metadata): boolean {
  const state = decodePendingState(metadata);
  return state !== undefined && state.status !== "blocked";
}
