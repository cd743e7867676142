import { decodeTime } from "ulid";
import type { EventId } from "./event-id.ts";

/**
 * When the event was committed, by the producer's clock, in milliseconds since 1970. For people only: clocks lie, and an id may be ahead of
 * its time to stay greater than the one before it (C1).
 */
export function eventTimeMs(id: EventId): number {
  return decodeTime(id);
}

/** A producer whose clock has lost its date stands in 1970 or at the date of its firmware: its times tell nothing. */
const MAX_PLAUSIBLE_AGE_MS = 366 * 24 * 60 * 60 * 1000;

/**
 * How long a pending event has waited: since its commit by its id, unless that is implausibly long ago; at least since its blob last changed.
 * The blob alone would not do, because every failed attempt changes it.
 *
 * @param blobAgeMs time since the blob was written or changed, by the clock of the service
 */
export function pendingAgeMs(id: EventId, blobAgeMs: number, nowMs: number): number {
  const sinceCommitMs = nowMs - eventTimeMs(id);
  return sinceCommitMs > MAX_PLAUSIBLE_AGE_MS ? blobAgeMs : Math.max(blobAgeMs, sinceCommitMs);
}
