/**
 * On the lease blob, beside the progress: the id of the lease under which it was written last. With the mark of the round (a ULID made when
 * the round began) it tells since when a lease is held, if that lease still is the one. A
 * holder that has nothing to write leaves its mark at a renewal; the lease that a sweep takes to mark leftovers never has one.
 */
import { isEventId } from "./event-id.ts";
import { eventTimeMs } from "./event-time.ts";

export interface HolderMark {
  readonly leaseId: string;
  /** When the round began, by the clock of its worker. */
  readonly sinceMs: number;
  /** Host and process id, for people; undefined if it can't be told. */
  readonly process: string | undefined;
}

const LEASE_ID = /^[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}$/;

/** @param process which process holds the lease: up to 64 ASCII characters */
export function encodeHolder(leaseId: string, process: string): Record<string, string> {
  return { holder: leaseId, holderprocess: process };
}

/** Was the metadata written under this lease? */
export function isMarkedBy(leaseId: string, metadata: Readonly<Record<string, string>>): boolean {
  return metadata["holder"] === leaseId;
}

const PROCESS = /^[\w.:-]{1,64}$/;

const SWEPT = "swept";

/**
 * On the lease blob, as it was, under a lease that nobody gives back: a sweep took it, so that the next round lists what is left over. No handler
 * ran under it (W4). The next write of the progress takes the mark away.
 */
export function encodeSwept(metadata: Readonly<Record<string, string>>): Record<string, string> {
  return { ...metadata, [SWEPT]: "1" };
}

export function isSwept(metadata: Readonly<Record<string, string>>): boolean {
  return metadata[SWEPT] !== undefined;
}

/** Undefined if nobody has left a mark that can be read. */
export function decodeHolderMark(metadata: Readonly<Record<string, string>>): HolderMark | undefined {
  const { round = "", holder = "", holderprocess = "" } = metadata;
  if (!isEventId(round) || !LEASE_ID.test(holder)) return undefined;
  return { leaseId: holder, sinceMs: eventTimeMs(round), process: PROCESS.test(holderprocess) ? holderprocess : undefined };
}
