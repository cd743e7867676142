/** Order leases in memory; they expire by the given clock's monotonic time. */
import type { Clock } from "../../src/core/clock.ts";
import { OutboxError } from "../../src/core/errors.ts";
import type { OrderKey } from "../../src/core/order-id.ts";
import type { LeaseBlob, Metadata, OrderLeases } from "../../src/core/ports.ts";
import { checkedMetadata } from "../../src/storage/blob-metadata.ts";
import { MAX_LEASE_MS, MIN_LEASE_MS } from "../../src/core/lease-time.ts";
import type { Etags } from "./memory-basics.ts";

/** A lease blob as tests see it, with the id of its lease if it is taken. */
export type InspectedLease = LeaseBlob & { readonly leaseId: string | undefined };

interface Lease {
  readonly id: string;
  readonly durationMs: number;
  readonly expiresAt: number;
  /** Refuses renewals; it ends at `expiresAt` all the same. */
  readonly breaking: boolean;
}

interface StoredLeaseBlob {
  readonly etag: string;
  readonly metadata: Metadata;
  /** Kept after it expired or was broken, until somebody else takes it or it is released. */
  readonly lease: Lease | undefined;
}

export class MemoryLeases {
  readonly #clock: Clock;
  readonly #etags: Etags;
  readonly #blobs = new Map<OrderKey, StoredLeaseBlob>();

  constructor(clock: Clock, etags: Etags) {
    this.#clock = clock;
    this.#etags = etags;
  }

  read(order: OrderKey): LeaseBlob | undefined {
    const blob = this.#blobs.get(order);
    if (blob === undefined) return undefined;
    const state = this.#stateOf(blob);
    const breaking = state === "taken" && blob.lease?.breaking === true ? { breaking: true as const } : {};
    return { etag: blob.etag, metadata: blob.metadata, state, ...breaking };
  }

  create(order: OrderKey): LeaseBlob {
    if (this.#blobs.has(order)) throw new OutboxError("already-exists", `lease blob of order ${order}`, { details: { status: 409 } });
    const blob: StoredLeaseBlob = { etag: this.#etags.next(), metadata: {}, lease: undefined };
    this.#blobs.set(order, blob);
    return { etag: blob.etag, metadata: {}, state: "free" };
  }

  acquire(order: OrderKey, { id, durationMs, etag }: Parameters<OrderLeases["acquire"]>[1]): void {
    if (!(durationMs >= MIN_LEASE_MS && durationMs <= MAX_LEASE_MS)) {
      throw new OutboxError("invalid-option", `durationMs of the lease is ${durationMs}: ${MIN_LEASE_MS} to ${MAX_LEASE_MS} is allowed`);
    }
    const blob = this.#blobs.get(order);
    if (blob === undefined) throw new OutboxError("not-found", `lease blob of order ${order}`, { details: { status: 404 } });
    if (blob.etag !== etag) throw new OutboxError("precondition-failed", `lease blob of order ${order}`, { details: { status: 412 } });
    if (this.#stateOf(blob) === "taken" && (blob.lease?.id !== id || blob.lease.breaking)) {
      throw new OutboxError("lease-taken", `lease of order ${order}`, { details: { status: 409 } });
    }
    const seconds = Math.ceil(durationMs / 1000);
    this.#blobs.set(order, {
      ...blob,
      lease: { id, durationMs: seconds * 1000, expiresAt: this.#clock.monotonic() + seconds * 1000, breaking: false },
    });
  }

  isHeldBy(order: OrderKey, leaseId: string): boolean {
    const blob = this.#blobs.get(order);
    return blob !== undefined && this.#stateOf(blob) === "taken" && blob.lease?.id === leaseId;
  }

  renew(order: OrderKey, leaseId: string): void {
    const blob = this.#blobs.get(order);
    // An expired lease can be renewed as long as nobody took the blob since.
    if (blob?.lease === undefined || blob.lease.id !== leaseId || blob.lease.breaking) throw this.#lost(order);
    const { lease } = blob;
    this.#blobs.set(order, { ...blob, lease: { ...lease, expiresAt: this.#clock.monotonic() + lease.durationMs } });
  }

  release(order: OrderKey, leaseId: string): void {
    const blob = this.#blobs.get(order);
    if (blob?.lease?.id === leaseId) this.#blobs.set(order, { ...blob, lease: undefined });
  }

  writeMetadata(order: OrderKey, metadata: Metadata, { leaseId, etag }: Parameters<OrderLeases["writeMetadata"]>[2]): string {
    const checked = checkedMetadata(metadata, `the lease blob of order ${order}`);
    const blob = this.#blobs.get(order);
    if (blob === undefined || this.#stateOf(blob) !== "taken" || blob.lease?.id !== leaseId) throw this.#lost(order);
    if (blob.etag !== etag) throw new OutboxError("precondition-failed", `progress of order ${order}`, { details: { status: 412 } });
    const next = { ...blob, etag: this.#etags.next(), metadata: checked };
    this.#blobs.set(order, next);
    return next.etag;
  }

  inspect(order: OrderKey): InspectedLease | undefined {
    const blob = this.read(order);
    return blob && { ...blob, leaseId: blob.state === "taken" ? this.#blobs.get(order)?.lease?.id : undefined };
  }

  /** Returns for how long the lease still lasts, in milliseconds. */
  break(order: OrderKey): number {
    const blob = this.#blobs.get(order);
    if (blob?.lease === undefined) return 0;
    this.#blobs.set(order, { ...blob, lease: { ...blob.lease, breaking: true } });
    return Math.max(0, blob.lease.expiresAt - this.#clock.monotonic());
  }

  /** As if its time were over, and no renewal came. */
  end(order: OrderKey): void {
    const blob = this.#blobs.get(order);
    if (blob?.lease === undefined) return;
    this.#blobs.set(order, { ...blob, lease: { ...blob.lease, breaking: true, expiresAt: this.#clock.monotonic() } });
  }

  deleteBlob(order: OrderKey): void {
    this.#blobs.delete(order);
  }

  #stateOf({ lease }: StoredLeaseBlob): LeaseBlob["state"] {
    if (lease === undefined) return "free";
    return lease.expiresAt <= this.#clock.monotonic() ? "abandoned" : "taken";
  }

  #lost(order: OrderKey): OutboxError {
    return new OutboxError("lease-lost", `lease of order ${order}`, { details: { status: 409 } });
  }
}
