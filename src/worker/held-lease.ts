import { randomUUID } from "node:crypto";
import type { Clock } from "../core/clock.ts";
import { describeError, isOutboxError, OutboxError } from "../core/errors.ts";
import type { Logger } from "../core/logger.ts";
import type { OrderKey } from "../core/order-id.ts";
import type { LeaseBlob, OrderLeases } from "../core/ports.ts";

export interface LeaseOptions {
  readonly leases: OrderLeases;
  readonly clock: Clock;
  readonly logger: Logger;
  /** Lease time as the service counts it. */
  readonly durationMs: number;
}

/** A renewal that fails for a passing reason is tried again after this time, while the lease can still be ours. */
const RENEW_RETRY_MS = 1_000;

/**
 * A lease that is kept alive until it is released or lost (W5).
 *
 * It counts as lost at *start of the last good renewal + duration − margin*, by the monotonic clock, or as soon as a renewal is refused.
 * The start, not the end: the service counts from the moment it handled the request. The margin, a sixth of the duration, is for the time
 * between a check and the write that relies on it.
 */
export class HeldLease {
  readonly id: string;
  /** Aborts when the lease is lost, with a `lease-lost` error as reason. */
  readonly lost: AbortSignal;
  readonly #order: OrderKey;
  readonly #options: LeaseOptions;
  readonly #lost = new AbortController();
  readonly #ended = new AbortController();
  readonly #loops: Promise<unknown>;
  #believedUntil: number;
  #onRenewed: (() => void) | undefined;

  private constructor(order: OrderKey, id: string, startedAt: number, options: LeaseOptions) {
    this.#order = order;
    this.id = id;
    this.#options = options;
    this.lost = this.#lost.signal;
    this.#believedUntil = this.#deadline(startedAt);
    this.#loops = Promise.all([this.#renewLoop(), this.#expiryLoop()]);
  }

  /** Takes the lease of a blob as it was read. Throws `lease-taken`, `precondition-failed`, `not-found`. */
  static async acquire(order: OrderKey, blob: LeaseBlob, options: LeaseOptions): Promise<HeldLease> {
    // W5: a fresh id every time. Re-acquiring under a known id would succeed and let a ghost pass the fence.
    const id = randomUUID();
    const startedAt = options.clock.monotonic();
    try {
      await options.leases.acquire(order, { id, durationMs: options.durationMs, etag: blob.etag });
    } catch (error) {
      // Without an answer the lease may be ours: give it back rather than let the order wait for its end. Not one that its holder before left
      // without good-bye: given back it would look free, and nobody would look for what is left over (W3).
      if (blob.state === "free" && isOutboxError(error, "timeout", "unavailable", "aborted"))
        await options.leases.release(order, id).catch(() => undefined);
      throw error;
    }
    return new HeldLease(order, id, startedAt, options);
  }

  /** Throws `lease-lost` once the lease may belong to somebody else. To be asked before every start and every write. */
  assertHeld(): void {
    if (!this.#lost.signal.aborted && this.#options.clock.monotonic() >= this.#believedUntil) this.#lose("it was not renewed in time");
    this.#lost.signal.throwIfAborted();
  }

  /** Calls `listener` after each good renewal, from now on. There is one: that of the round that holds the lease. */
  onRenewed(listener: () => void): void {
    this.#onRenewed = listener;
  }

  /** Marks the lease as lost because a write that carried its id was refused. */
  markLost(cause: unknown): void {
    this.#lose("a write under it was refused", cause);
  }

  /** Ends the renewal; afterwards the lease just runs out. */
  async abandon(): Promise<void> {
    this.#ended.abort();
    await this.#loops;
  }

  /** Ends the renewal and gives the lease back, if it is still ours. Never throws: a lease that can't be given back runs out (C18). */
  async release(): Promise<void> {
    await this.abandon();
    if (this.#lost.signal.aborted) return;
    try {
      await this.#options.leases.release(this.#order, this.id);
    } catch (error) {
      this.#options.logger.debug("a lease could not be released, it runs out by itself", {
        order: this.#order,
        error: describeError(error),
      });
    }
  }

  #deadline(startedAt: number): number {
    return startedAt + this.#options.durationMs - this.#options.durationMs / 6;
  }

  #lose(why: string, cause?: unknown): void {
    this.#lost.abort(new OutboxError("lease-lost", `the lease of order ${this.#order} is lost: ${why}`, { cause }));
    this.#ended.abort();
  }

  async #renewLoop(): Promise<void> {
    const { clock, leases, durationMs, logger } = this.#options;
    let pauseMs = durationMs / 3;
    while (await this.#pause(pauseMs)) {
      const startedAt = clock.monotonic();
      try {
        await leases.renew(this.#order, this.id, { signal: this.#ended.signal });
        this.#believedUntil = this.#deadline(startedAt);
        pauseMs = durationMs / 3;
        this.#onRenewed?.();
      } catch (error) {
        if (this.#ended.signal.aborted) return;
        if (isOutboxError(error, "lease-lost")) return this.#lose("its renewal was refused", error);
        logger.debug("a lease renewal failed, trying again", { order: this.#order, error: describeError(error) });
        pauseMs = RENEW_RETRY_MS;
      }
    }
  }

  /** Notices the end of the lease also while a renewal hangs. */
  async #expiryLoop(): Promise<void> {
    const { clock } = this.#options;
    while (await this.#pause(this.#believedUntil - clock.monotonic())) {
      if (clock.monotonic() >= this.#believedUntil) return this.#lose("it was not renewed in time");
    }
  }

  /** False once the lease is ended. */
  async #pause(ms: number): Promise<boolean> {
    try {
      await this.#options.clock.sleep(ms, this.#ended.signal);
      return true;
    } catch {
      return false;
    }
  }
}
