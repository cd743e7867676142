/**
 * Who may decide about an event that its stream has skipped: the first one to mark the archived blob, conditional on its etag. So of two
 * operators at once one decides, and a process that dies in between leaves behind what it was at.
 */
import { isOutboxError } from "../core/errors.ts";
import { decodeDecision, encodeDecision, type Decision } from "../core/pending-event.ts";
import type { BlobContent, Blobs } from "../core/ports.ts";

/** Bounds the race with others who write the same blob. */
const MAX_TRIES = 5;

/**
 * Claims the archived event unless it is claimed already.
 *
 * @param options `over`: a claim to this end counts for nothing any more
 * @returns the claim that is there now, whoever made it; undefined if the blob is gone
 */
export async function claimArchived(
  blobs: Blobs,
  name: string,
  first: BlobContent,
  wanted: Decision,
  { over }: { readonly over?: Decision["action"] } = {},
): Promise<Decision | undefined> {
  let archived: BlobContent | undefined = first;
  for (let tries = 1; archived !== undefined; tries++) {
    const there = decodeDecision(archived.metadata);
    if (there !== undefined && there.action !== over) return there;
    try {
      await blobs.writeMetadata("archive", name, { ...archived.metadata, ...encodeDecision(wanted) }, archived.etag);
      return wanted;
    } catch (error) {
      // Another's write, or an own one whose answer was lost: what is there now tells.
      if (!isOutboxError(error, "precondition-failed", "not-found") || tries === MAX_TRIES) throw error;
    }
    archived = await blobs.read("archive", name);
  }
  return undefined;
}
