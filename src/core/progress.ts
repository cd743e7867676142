/**
 * The progress of an order: what the lease blob's metadata says (design §3). Writing it is the commit point of an event (W2).
 *
 * `clean` is the order sequence up to which every subscription is done, `relayed` the one up to which outbox entities became event blobs.
 * Per subscription, `sequence` and `id` name the last finished event and `relayed` the newest event that was handed to it, so that a
 * missing blob shows even behind a filter.
 */
import { OutboxError } from "./errors.ts";
import { isEventId, type EventId } from "./event-id.ts";

export interface StreamProgress {
  /** Sequence of the last finished event; 0 before the first. */
  readonly sequence: number;
  /** Id of the last finished event; undefined before the first. */
  readonly id: EventId | undefined;
  /** Sequence of the newest event relayed to this subscription, as far as the last progress write knew. */
  readonly relayed: number;
}

export interface Progress {
  readonly clean: number;
  readonly relayed: number;
  /**
   * Streams that a round of this order has known. One that is not in here may still have event blobs: a round that relayed to it died before
   * it wrote any progress. It is listed once, and starts at the first event relayed to it (W2).
   */
  readonly streams: Readonly<Record<string, StreamProgress>>;
}

/** A stream of which nothing is finished yet. */
export const NEW_STREAM: StreamProgress = { sequence: 0, id: undefined, relayed: 0 };

export const NO_PROGRESS: Progress = { clean: 0, relayed: 0, streams: {} };

/** Room for names of 50 characters; the service allows 8 KiB of metadata a blob. */
export const MAX_SUBSCRIPTIONS = 60;

const VERSION = 1;

/** What the progress says of a stream; undefined if no round has known it. */
export function knownStream({ streams }: Progress, subscription: string): StreamProgress | undefined {
  return Object.hasOwn(streams, subscription) ? streams[subscription] : undefined;
}

/** What the progress says of a stream. One that has finished nothing yet need not be in it. */
export function streamProgress(progress: Progress, subscription: string): StreamProgress {
  return knownStream(progress, subscription) ?? NEW_STREAM;
}

/**
 * @param mark of the writing round, a ULID made when it began: since when its lease is held, see holder-mark.ts
 */
export function encodeProgress(progress: Progress, mark: string): Record<string, string> {
  const streams = Object.fromEntries(
    Object.entries(progress.streams).map(([name, stream]) => [name, [stream.sequence, stream.id ?? "", stream.relayed]]),
  );
  return { progress: JSON.stringify({ v: VERSION, clean: progress.clean, relayed: progress.relayed, streams }), round: mark };
}

/** Throws `corrupt` for metadata that {@link encodeProgress} did not write. A blob without metadata is an order without progress. */
export function decodeProgress(metadata: Readonly<Record<string, string>>): Progress {
  const text = metadata["progress"];
  if (text === undefined) return NO_PROGRESS;
  try {
    const { v, clean, relayed, streams } = JSON.parse(text) as Record<string, unknown>;
    if (v !== VERSION) throw new Error(`version ${String(v)} is not ${VERSION}`);
    if (streams === null || typeof streams !== "object" || Array.isArray(streams)) throw new Error("no streams");
    return {
      clean: count(clean),
      relayed: count(relayed),
      streams: Object.fromEntries(Object.entries(streams).map(([name, stream]) => [name, decodeStream(stream)])),
    };
  } catch (cause) {
    throw new OutboxError("corrupt", "the progress on the lease blob can't be read: its metadata was changed by something else", { cause });
  }
}

/** Of an order as its lease blob was read; without one no worker has ever had it. Throws `corrupt`. */
export function progressOfLease(lease: { readonly metadata: Readonly<Record<string, string>> } | undefined): Progress {
  return lease === undefined ? NO_PROGRESS : decodeProgress(lease.metadata);
}

function decodeStream(value: unknown): StreamProgress {
  if (!Array.isArray(value) || value.length !== 3) throw new Error("a stream is not a triple");
  const [sequence, id, relayed] = value as unknown[];
  const finished = count(sequence);
  if (finished === 0 ? id !== "" : !(typeof id === "string" && isEventId(id))) throw new Error("sequence and id disagree");
  return { sequence: finished, id: finished === 0 ? undefined : (id as EventId), relayed: count(relayed) };
}

function count(value: unknown): number {
  if (typeof value !== "number" || !Number.isSafeInteger(value) || value < 0) throw new Error("not a sequence");
  return value;
}
