/**
 * Entries in the index of dead letters whose event is finished. A worker that gets no answer writes its entry again and goes on; a copy of the
 * first request may still land after the event was redriven and handled, when no worker looks at it any more (W11).
 */
import type { CallOptions, Storage } from "../core/ports.ts";
import { eventBlobName } from "../core/names.ts";
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
  const blocked = new Set(
    heads.flatMap(({ subscription, order, id, state }) => (state?.status === "blocked" ? [eventBlobName(subscription, order, id)] : [])),
  );
  return blocking.filter((name) => !blocked.has(name));
}

/** Costs a read of the archive for each suspect. Needs no lease: nobody writes such an entry for an event that is archived. */
export async function dropStaleEntries(
  { blobs }: Pick<Storage, "blobs">,
  suspects: readonly string[],
  options: CallOptions,
): Promise<readonly string[]> {
  const stale = await inLanes(suspects, LANES, async (name) =>
    ENDED.has((await blobs.read("archive", name, options))?.metadata["outcome"]) ? [name] : [],
  );
  const names = stale.flat();
  if (names.length > 0) await blobs.delete("dead", names, options);
  return names;
}
