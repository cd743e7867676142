/**
 * On the lease blob, beside the progress: the id of the lease under which it was written last. With the mark of the round (a ULID made when
 * the round began) it tells since when a lease is held, if that lease still is the one.
 */
import { isEventId } from "./event-id.ts";
import { eventTimeMs } from "./event-time.ts";

export interface HolderMark {
  readonly leaseId: string;
  /** When the round began, by the clock of its worker. */
  readonly sinceMs: number;
}

/** A holder that has nothing to write leaves its mark at its first renewal: a third of the lease time, of 60 s at most, after it began. */
export const MAX_UNMARKED_MS = 20_000;

const LEASE_ID = /^[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}$/;

export function encodeHolder(leaseId: string): Record<string, string> {
  return { holder: leaseId };
}

/** Was the metadata written under this lease? */
export function isMarkedBy(leaseId: string, metadata: Readonly<Record<string, string>>): boolean {
  return metadata["holder"] === leaseId;
}

/** Undefined if nobody has left a mark that can be read. */
export function decodeHolderMark(metadata: Readonly<Record<string, string>>): HolderMark | undefined {
  const { round = "", holder = "" } = metadata;
  return isEventId(round) && LEASE_ID.test(holder) ? { leaseId: holder, sinceMs: eventTimeMs(round) } : undefined;
}
