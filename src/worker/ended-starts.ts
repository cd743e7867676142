import type { Etag } from "../core/ports.ts";

interface EndedStart {
  readonly etag: Etag;
  readonly crashes: number;
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

  /** @param crashes how many starts have ended with their process, as is known by now */
  add(eventBlob: string, etag: Etag, crashes: number): void {
    this.#known.delete(eventBlob);
    this.#known.set(eventBlob, { etag, crashes });
    if (this.#known.size <= MAX_KNOWN) return;
    for (const oldest of this.#known.keys()) {
      this.#known.delete(oldest);
      return;
    }
  }

  /** Undefined if only the blob can tell. */
  crashesOf(eventBlob: string, etag: Etag): number | undefined {
    const known = this.#known.get(eventBlob);
    return known?.etag === etag ? known.crashes : undefined;
  }
}
