import { isOutboxError, OutboxError } from "../core/errors.ts";
import type { EventId } from "../core/event-id.ts";
import { encodeHolder, isMarkedBy } from "../core/holder-mark.ts";
import type { OrderKey } from "../core/order-id.ts";
import type { Etag, Metadata, OrderLeases } from "../core/ports.ts";
import { encodeProgress, type Progress } from "../core/progress.ts";
import { PROCESS_NAME } from "../system/process-name.ts";
import type { HeldLease } from "./held-lease.ts";

/** How often a write without an answer is repeated while the lease is held. */
const MAX_UNANSWERED = 5;

/**
 * The one writer of an order's progress (W2). Streams that finish at the same time share a write; each write is conditional on the lease id
 * and on the etag of the write before, so that neither a former holder nor a late copy of an older write can turn progress back.
 */
export class ProgressWriter {
  readonly #leases: OrderLeases;
  readonly #order: OrderKey;
  readonly #lease: HeldLease;
  readonly #mark: EventId;
  #etag: Etag;
  #written: Progress;
  #wanted: Progress;
  /** Resolves when everything in `#wanted` so far is written; undefined while there is nothing to write. */
  #next: Promise<void> | undefined;
  #last: Promise<void> = Promise.resolve();
  /** Something of this round is on the blob already, or is not to come any more. */
  #isMarked = false;

  constructor(options: {
    readonly leases: OrderLeases;
    readonly order: OrderKey;
    readonly lease: HeldLease;
    /** Of this round. */
    readonly mark: EventId;
    readonly etag: Etag;
    readonly progress: Progress;
  }) {
    this.#leases = options.leases;
    this.#order = options.order;
    this.#lease = options.lease;
    this.#mark = options.mark;
    this.#etag = options.etag;
    this.#written = options.progress;
    this.#wanted = options.progress;
  }

  /** What is durable. */
  get written(): Progress {
    return this.#written;
  }

  /** Changes the progress. Resolves when the change is durable: the commit point. Throws `lease-lost` if it can't become so any more. */
  update(change: (progress: Progress) => Progress): Promise<void> {
    this.#wanted = change(this.#wanted);
    this.#next ??= this.#last.then(() => {
      this.#next = undefined;
      return (this.#last = this.#write(this.#wanted));
    });
    return this.#next;
  }

  /**
   * Puts the round's mark on the blob, unless a write has done so: who looks at it sees since when the lease is held. In line with the other
   * writes; one that fails is no harm, the next renewal tries again.
   */
  mark(): void {
    if (this.#isMarked || this.#next !== undefined) return;
    const before = this.#last;
    this.#last = before.then(() => (this.#isMarked ? undefined : this.#tryMark()));
    // Who waits for a write that failed hears of it there.
    this.#last.catch(() => undefined);
  }

  /** Ends the marks, and waits for one that is under way. */
  async close(): Promise<void> {
    this.#isMarked = true;
    await this.#last.catch(() => undefined);
  }

  async #tryMark(): Promise<void> {
    try {
      this.#lease.assertHeld();
      this.#etag = await this.#send(this.#metadataOf(this.#written));
      this.#isMarked = true;
    } catch (error) {
      if (isOutboxError(error, "lease-lost", "not-found")) this.#lease.markLost(error);
    }
  }

  #metadataOf(progress: Progress): Metadata {
    return { ...encodeProgress(progress, this.#mark), ...encodeHolder(this.#lease.id, PROCESS_NAME) };
  }

  #send(metadata: Metadata): Promise<Etag> {
    return this.#leases.writeMetadata(this.#order, metadata, { leaseId: this.#lease.id, etag: this.#etag });
  }

  async #write(progress: Progress): Promise<void> {
    const metadata = this.#metadataOf(progress);
    for (let unanswered = 0; ; unanswered++) {
      this.#lease.assertHeld();
      try {
        this.#etag = await this.#send(metadata);
        break;
      } catch (error) {
        if (isOutboxError(error, "lease-lost", "not-found")) throw this.#lost(error);
        if (!isOutboxError(error, "precondition-failed", "timeout", "unavailable", "aborted") || unanswered === MAX_UNANSWERED) throw error;
      }
      // No answer, or a conflict: was it mine? Nobody else writes under this lease.
      const blob = await this.#leases.read(this.#order);
      if (blob !== undefined && isMarkedBy(this.#lease.id, blob.metadata)) {
        this.#etag = blob.etag;
        if (blob.metadata["progress"] === metadata["progress"]) break;
        // An own write whose answer was lost, a mark: this one is still to come, and the late copies of that one are refused by now.
      } else if (blob?.etag !== this.#etag) throw this.#lost(new OutboxError("precondition-failed", "somebody else wrote the progress"));
    }
    this.#isMarked = true;
    this.#written = progress;
  }

  #lost(cause: unknown): unknown {
    this.#lease.markLost(cause);
    return this.#lease.lost.reason;
  }
}
