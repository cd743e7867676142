import type { BlobContent, Blobs, CallOptions } from "../core/ports.ts";

/** Of all bodies that are kept: sixteen of the biggest bundles, so that a few orders can be read side by side. */
const MAX_KEPT_BYTES = 16 * 1024 * 1024;
/** Counted for each on top of its body: its index, mostly. */
const EXTRA_BYTES = 8 * 1024;
/** How long a body is kept. */
const KEPT_MS = 10_000;

interface KeptBody {
  readonly reading: Promise<BlobContent | undefined>;
  readonly sinceMs: number;
  /** Undefined while it is being read. */
  bytes: number | undefined;
}

/**
 * Bundles as they were read a short while ago, so that the events of one that are read one after another, or at once, cost one download and
 * not one each. A bundle is never written again (W11), so what is kept is what is there, unless it was deleted meanwhile: then its events can
 * be read for some seconds more, which harms no reader. An answer that there is none is not kept.
 */
export class BundleBodies {
  readonly #blobs: Blobs;
  readonly #now: () => number;
  /** The one that was asked for last is the last. */
  readonly #kept = new Map<string, KeptBody>();
  #bytes = 0;

  constructor(blobs: Blobs, now: () => number) {
    this.#blobs = blobs;
    this.#now = now;
  }

  async read(name: string, options: CallOptions | undefined): Promise<BlobContent | undefined> {
    const kept = this.#kept.get(name);
    if (kept !== undefined && this.#now() - kept.sinceMs < KEPT_MS) {
      this.#kept.delete(name);
      this.#kept.set(name, kept);
      try {
        return await kept.reading;
      } catch {
        // Its signal was that of whoever asked first: no reason for this one to fail.
      }
    }
    return this.#read(name, options);
  }

  forget(name: string): void {
    this.#bytes -= this.#kept.get(name)?.bytes ?? 0;
    this.#kept.delete(name);
  }

  async #read(name: string, options: CallOptions | undefined): Promise<BlobContent | undefined> {
    this.forget(name);
    const reading = this.#blobs.read("archive", name, options);
    const own: KeptBody = { reading, sinceMs: this.#now(), bytes: undefined };
    this.#kept.set(name, own);
    let blob: BlobContent | undefined;
    try {
      blob = await reading;
    } finally {
      if (this.#kept.get(name) === own && blob === undefined) this.forget(name);
    }
    if (blob !== undefined && this.#kept.get(name) === own) {
      own.bytes = blob.bytes.length + EXTRA_BYTES;
      this.#bytes += own.bytes;
      this.#tidy();
    }
    return blob;
  }

  #tidy(): void {
    const old = this.#now() - KEPT_MS;
    for (const [name, { bytes, sinceMs }] of this.#kept) {
      if (bytes !== undefined && (sinceMs <= old || this.#bytes > MAX_KEPT_BYTES)) this.forget(name);
    }
  }
}
