import { isOutboxError, OutboxError } from "../core/errors.ts";
import type { OrderKey } from "../core/order-id.ts";
import type { Etag, OrderLeases } from "../core/ports.ts";
import { encodeProgress, type Progress } from "../core/progress.ts";
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
  readonly #round: string;
  #etag: Etag;
  #written: Progress;
  #wanted: Progress;
  /** Resolves when everything in `#wanted` so far is written; undefined while there is nothing to write. */
  #next: Promise<void> | undefined;
  #last: Promise<void> = Promise.resolve();

  /** @param round unique mark of this round, to recognise an own write whose answer was lost */
  constructor(options: {
    readonly leases: OrderLeases;
    readonly order: OrderKey;
    readonly lease: HeldLease;
    readonly round: string;
    readonly etag: Etag;
    readonly progress: Progress;
  }) {
    this.#leases = options.leases;
    this.#order = options.order;
    this.#lease = options.lease;
    this.#round = options.round;
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

  async #write(progress: Progress): Promise<void> {
    const metadata = encodeProgress(progress, this.#round);
    for (let unanswered = 0; ; unanswered++) {
      this.#lease.assertHeld();
      try {
        this.#etag = await this.#leases.writeMetadata(this.#order, metadata, { leaseId: this.#lease.id, etag: this.#etag });
        break;
      } catch (error) {
        if (isOutboxError(error, "lease-lost", "not-found")) throw this.#lost(error);
        if (!isOutboxError(error, "precondition-failed", "timeout", "unavailable", "aborted") || unanswered === MAX_UNANSWERED) throw error;
      }
      // No answer, or a conflict: was it mine? Only this round writes its mark.
      const blob = await this.#leases.read(this.#order);
      if (blob !== undefined && blob.metadata["round"] === metadata["round"] && blob.metadata["progress"] === metadata["progress"]) {
        this.#etag = blob.etag;
        break;
      }
      if (blob?.etag !== this.#etag) throw this.#lost(new OutboxError("precondition-failed", "somebody else wrote the progress"));
    }
    this.#written = progress;
  }

  #lost(cause: unknown): unknown {
    this.#lease.markLost(cause);
    return this.#lease.lost.reason;
  }
}
