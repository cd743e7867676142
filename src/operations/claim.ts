/**
 * Who may decide about an event that its stream has skipped: the first one to mark the archived blob, conditional on its etag. So of two
 * operators at once one decides, and a process that dies in between leaves behind what it was at.
 */
import { isOutboxError } from "../core/errors.ts";
import { decodeMetadataText, encodeMetadataText } from "../core/metadata-text.ts";
import type { Decision } from "../core/pending-event.ts";
import type { BlobContent, Blobs, Metadata } from "../core/ports.ts";

/** The actor and the reason share the metadata's 8 KiB with little else here; a longer text is cut, the audit log has all of it. */
const MAX_ENCODED = 2_000;
/** Bounds the race with others who write the same blob. */
const MAX_TRIES = 5;

/** The claim on an archived event, if it has one. */
export function claimOf({ decision, decidedby, decidedat, decisionreason }: Metadata): Decision | undefined {
  if (decidedby === undefined) return undefined;
  return {
    action: decision === "redrive" ? "redrive" : "discard",
    actor: decodeMetadataText(decidedby),
    reason: decodeMetadataText(decisionreason ?? ""),
    at: decidedat ?? "?",
  };
}

/**
 * Claims the archived event unless it is claimed already.
 *
 * @returns the claim that is there now, whoever made it; undefined if the blob is gone
 */
export async function claimArchived(blobs: Blobs, name: string, first: BlobContent, wanted: Decision): Promise<Decision | undefined> {
  let archived: BlobContent | undefined = first;
  for (let tries = 1; archived !== undefined; tries++) {
    const there = claimOf(archived.metadata);
    if (there !== undefined) return there;
    const mark = {
      decision: wanted.action,
      decidedby: encodeMetadataText(wanted.actor, MAX_ENCODED),
      decidedat: wanted.at,
      decisionreason: encodeMetadataText(wanted.reason, MAX_ENCODED),
    };
    try {
      await blobs.writeMetadata("archive", name, { ...archived.metadata, ...mark }, archived.etag);
      return wanted;
    } catch (error) {
      // Another's write, or an own one whose answer was lost: what is there now tells.
      if (!isOutboxError(error, "precondition-failed", "not-found") || tries === MAX_TRIES) throw error;
    }
    archived = await blobs.read("archive", name);
  }
  return undefined;
}
