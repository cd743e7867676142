/**
 * The lease blob of an order: who may work on it, and in its metadata how far its events are.
 *
 * Its clients have no SDK retries: the SDK would repeat a renewal for longer than the lease lasts, and a caller must know how old an answer
 * is. What is safe to repeat is repeated here, within the call's deadline.
 */
import type { ContainerClient } from "@azure/storage-blob";
import { OutboxError, isOutboxError } from "../core/errors.ts";
import type { OrderKey } from "../core/order-id.ts";
import { MAX_LEASE_MS, MIN_LEASE_MS } from "../core/lease-time.ts";
import type { CallOptions, Etag, LeaseBlob, Metadata, OrderLeases } from "../core/ports.ts";
import { checkedMetadata, toEtag, toMetadata } from "./blob-metadata.ts";
import { callStorage, repeatUnavailable } from "./call.ts";
import { isRefusedUnapplied, readExistingBlob, type AnswerReader } from "./storage-error.ts";

/** A renewal that takes longer is given up, so that the next one can still be in time (W5). */
const RENEW_TIMEOUT_MS = 5_000;
/** The longest there is: the service ends a lease of ours when its time is over, if that is sooner. */
const BREAK_SECONDS = 60;

export class AzureOrderLeases implements OrderLeases {
  readonly #container: ContainerClient;
  readonly #timeoutMs: number;

  /**
   * @param container of a service client whose SDK retries are off
   * @param timeoutMs deadline of each call, repeats included; renewals have {@link RENEW_TIMEOUT_MS} at most
   */
  constructor(container: ContainerClient, timeoutMs: number) {
    this.#container = container;
    this.#timeoutMs = timeoutMs;
  }

  async read(order: OrderKey, options?: CallOptions): Promise<LeaseBlob | undefined> {
    const what = `read lease of order ${order}`;
    const call = { what, timeoutMs: this.#timeoutMs, options };
    try {
      const { etag, metadata, leaseState } = await callStorage(call, (signal) =>
        repeatUnavailable(signal, () => this.#container.getBlobClient(order).getProperties({ abortSignal: signal })),
      );
      return {
        etag: toEtag(etag, what),
        metadata: toMetadata(metadata),
        state: stateOf(leaseState),
        ...(leaseState === "breaking" ? { breaking: true } : {}),
      };
    } catch (error) {
      // A missing container is a fault of the deployment, not an order without a lease blob.
      if (isOutboxError(error, "not-found") && error.details.serviceCode !== "ContainerNotFound") return undefined;
      throw error;
    }
  }

  async create(order: OrderKey, options?: CallOptions): Promise<LeaseBlob> {
    const what = `create lease blob of order ${order}`;
    const { etag } = await callStorage({ what, timeoutMs: this.#timeoutMs, options, read: readExistingBlob }, (signal) =>
      repeatUnavailable(signal, () =>
        this.#container.getBlockBlobClient(order).upload("", 0, { abortSignal: signal, conditions: { ifNoneMatch: "*" } }),
      ),
    );
    return { etag: toEtag(etag, what), metadata: {}, state: "free" };
  }

  async acquire(
    order: OrderKey,
    lease: { readonly id: string; readonly durationMs: number; readonly etag: Etag },
    options?: CallOptions,
  ): Promise<void> {
    const seconds = leaseSeconds(lease.durationMs);
    const client = this.#container.getBlobClient(order).getBlobLeaseClient(lease.id);
    // Repeating is safe: a lease that the lost answer gave us is given again under the same id.
    await callStorage({ what: `acquire lease of order ${order}`, timeoutMs: this.#timeoutMs, options, read: readTaken }, (signal) =>
      repeatUnavailable(signal, () => client.acquireLease(seconds, { abortSignal: signal, conditions: { ifMatch: lease.etag } })),
    );
  }

  async isHeldBy(order: OrderKey, leaseId: string, options?: CallOptions): Promise<boolean> {
    const call = { what: `ask for the holder of order ${order}`, timeoutMs: this.#timeoutMs, options, read: readLost };
    try {
      await callStorage(call, (signal) =>
        repeatUnavailable(signal, () =>
          this.#container.getBlobClient(order).getProperties({ abortSignal: signal, conditions: { leaseId } }),
        ),
      );
      return true;
    } catch (error) {
      // Another's lease, none, or no blob. A missing container is a fault of the deployment.
      if (!isOutboxError(error, "lease-lost") || error.details.serviceCode === "ContainerNotFound") throw error;
      return false;
    }
  }

  async renew(order: OrderKey, leaseId: string, options?: CallOptions): Promise<void> {
    const client = this.#container.getBlobClient(order).getBlobLeaseClient(leaseId);
    const timeoutMs = Math.min(this.#timeoutMs, RENEW_TIMEOUT_MS);
    await callStorage({ what: `renew lease of order ${order}`, timeoutMs, options, read: readLost }, (abortSignal) =>
      client.renewLease({ abortSignal }),
    );
  }

  async break(order: OrderKey, options?: CallOptions): Promise<number> {
    const client = this.#container.getBlobClient(order).getBlobLeaseClient();
    try {
      // Repeating is safe: a lease that is breaking never lasts longer for being broken again.
      const { leaseTime = 0 } = await callStorage(
        { what: `break lease of order ${order}`, timeoutMs: this.#timeoutMs, options, read: readLost },
        (signal) => repeatUnavailable(signal, () => client.breakLease(BREAK_SECONDS, { abortSignal: signal })),
      );
      return leaseTime * 1000;
    } catch (error) {
      // No lease, or no blob. A missing container is a fault of the deployment.
      if (!isOutboxError(error, "lease-lost") || error.details.serviceCode === "ContainerNotFound") throw error;
      return 0;
    }
  }

  async release(order: OrderKey, leaseId: string, options?: CallOptions): Promise<void> {
    const client = this.#container.getBlobClient(order).getBlobLeaseClient(leaseId);
    try {
      await callStorage({ what: `release lease of order ${order}`, timeoutMs: this.#timeoutMs, options, read: readLost }, (signal) =>
        repeatUnavailable(signal, () => client.releaseLease({ abortSignal: signal })),
      );
    } catch (error) {
      if (!isOutboxError(error, "lease-lost")) throw error;
    }
  }

  async writeMetadata(
    order: OrderKey,
    metadata: Metadata,
    fence: { readonly leaseId: string; readonly etag: Etag },
    options?: CallOptions,
  ): Promise<Etag> {
    const what = `write progress of order ${order}`;
    const checked = checkedMetadata(metadata, `the lease blob of order ${order}`);
    const conditions = { leaseId: fence.leaseId, ifMatch: fence.etag };
    const client = this.#container.getBlobClient(order);
    // Not repeated after an answer was lost: the repeat would be refused, and the caller could not tell by whom.
    const { etag } = await callStorage({ what, timeoutMs: this.#timeoutMs, options, read: readLostOrChanged }, (signal) =>
      repeatUnavailable(signal, () => client.setMetadata(checked, { abortSignal: signal, conditions }), isRefusedUnapplied),
    );
    return toEtag(etag, what);
  }
}

function stateOf(leaseState: string | undefined): LeaseBlob["state"] {
  if (leaseState === "leased" || leaseState === "breaking") return "taken";
  return leaseState === "expired" || leaseState === "broken" ? "abandoned" : "free";
}

/** Whatever the service dislikes about the present lease, it is somebody else's. */
const readTaken: AnswerReader = ({ serviceCode }) => (serviceCode?.startsWith("Lease") ? "lease-taken" : undefined);

/** For calls whose only condition is the lease id: any refusal means it is not ours, a missing blob too. */
const readLost: AnswerReader = ({ status }) => (status === 404 || status === 409 || status === 412 ? "lease-lost" : undefined);

const readLostOrChanged: AnswerReader = (answer) =>
  answer.status === 412 && answer.serviceCode === "ConditionNotMet" ? "precondition-failed" : readLost(answer);

/** Rounded up: the service may keep a lease for longer than its holder believes, never shorter. */
function leaseSeconds(durationMs: number): number {
  if (!(durationMs >= MIN_LEASE_MS && durationMs <= MAX_LEASE_MS)) {
    throw new OutboxError("invalid-option", `durationMs of the lease is ${durationMs}: ${MIN_LEASE_MS} to ${MAX_LEASE_MS} is allowed`);
  }
  return Math.ceil(durationMs / 1000);
}
