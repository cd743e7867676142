import type { Etag } from "../core/ports.ts";

/** What is known of an event's starts. */
export interface KnownStarts {
  /** How many of them have ended with their process. */
  readonly crashes: number;
  /** How many there were. */
  readonly attempts: number;
}

interface EndedStart extends KnownStarts {
  readonly etag: Etag;
}

/** Whether others come to have the orders, or these end, is not known here: so there is a bound. */
const MAX_KNOWN = 10_000;

/**
 * Counted starts whose end this process has lived to see, and perhaps could not write down, as its lease was lost or storage failed (W4). One is
 * known by the etag that its count has left on the event blob: whatever is written to the blob later, another process's count above all, makes
 * this knowledge void by itself.
 */
export class EndedStarts {
  readonly #known = new Map<string, EndedStart>();

  add(eventBlob: string, etag: Etag, starts: KnownStarts): void {
    this.#known.delete(eventBlob);
    this.#known.set(eventBlob, { etag, ...starts });
    if (this.#known.size <= MAX_KNOWN) return;
    for (const oldest of this.#known.keys()) {
      this.#known.delete(oldest);
      return;
    }
  }

  /** Undefined if only the blob can tell. */
  of(eventBlob: string, etag: Etag): KnownStarts | undefined {
    const known = this.#known.get(eventBlob);
    return known?.etag === etag ? known : undefined;
  }
}
