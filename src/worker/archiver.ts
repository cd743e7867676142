import { describeError, isOutboxError, OutboxError } from "../core/errors.ts";
import { eventBytes, type StoredEvent } from "../core/event.ts";
import type { EventId } from "../core/event-id.ts";
import type { Logger } from "../core/logger.ts";
import { eventBlobName, UNROUTED } from "../core/names.ts";
import type { OrderKey } from "../core/order-id.ts";
import { encodeDecision, type Decision } from "../core/pending-event.ts";
import type { Blobs } from "../core/ports.ts";
import type { Clock } from "../core/clock.ts";
import type { HeldLease } from "./held-lease.ts";

export interface FinishedEvent {
  readonly subscription: string;
  readonly id: EventId;
  readonly sequence: number;
  readonly previous: number;
  readonly attempts: number;
  /** The event's text, or undefined to read it from the pending blob. */
  readonly text: string | undefined;
  readonly outcome: "handled" | "unwanted" | "discarded" | "dead-lettered";
  /** The operator's decision, where there was one. */
  readonly decision?: Decision;
  /** Its entry in the index of dead letters goes with it. */
  readonly dropsDeadLetter: boolean;
  /** Left over by a dead holder: whether it was skipped as a dead letter, the index has to be asked. */
  readonly leftOver?: true;
}

/** How many archive writes of an order are under way at once. */
const MAX_PARALLEL_WRITES = 8;

/**
 * Moves finished events to the archive, off the path of the handlers: archive blob first, then the pending blobs are deleted in batches.
 * All of it is keyed by the event id and create-only (W11), so that it can be done again by anybody.
 */
export class Archiver {
  readonly #blobs: Blobs;
  readonly #order: OrderKey;
  readonly #lease: HeldLease;
  readonly #clock: Clock;
  readonly #logger: Logger;
  readonly #waiting: FinishedEvent[] = [];
  readonly #archived: string[] = [];
  readonly #resolved: string[] = [];
  readonly #failures: string[] = [];
  readonly #conflicts: string[] = [];
  readonly #workers = new Set<Promise<void>>();

  constructor(options: {
    readonly blobs: Blobs;
    readonly order: OrderKey;
    readonly lease: HeldLease;
    readonly clock: Clock;
    readonly logger: Logger;
  }) {
    this.#blobs = options.blobs;
    this.#order = options.order;
    this.#lease = options.lease;
    this.#clock = options.clock;
    this.#logger = options.logger;
  }

  /** Takes over an event that the progress has recorded as finished. */
  add(event: FinishedEvent): void {
    this.#waiting.push(event);
    if (this.#workers.size >= MAX_PARALLEL_WRITES) return;
    const worker = this.#work().finally(() => this.#workers.delete(worker));
    this.#workers.add(worker);
  }

  /** An event that nobody wants goes to the archive too: nothing vanishes (G6). Resolves when it is there, so that its entity may go. */
  async archiveUnwanted({ id, sequence, text }: StoredEvent): Promise<void> {
    const metadata = { sequence: String(sequence), outcome: "unwanted", finishedat: new Date(this.#clock.now()).toISOString() };
    try {
      await this.#blobs.create("archive", eventBlobName(UNROUTED, this.#order, id), eventBytes(text), metadata);
    } catch (error) {
      if (!isOutboxError(error, "already-exists")) throw error;
    }
  }

  /**
   * Waits for all archive writes and deletes what is archived. Returns what could not be done: `retryable` is left to the next holder, `final`
   * needs a human.
   */
  async flush(): Promise<{ readonly retryable: readonly string[]; readonly final: readonly string[] }> {
    while (this.#workers.size > 0) await Promise.all(this.#workers);
    await this.#deleteArchived();
    return { retryable: this.#failures, final: this.#conflicts };
  }

  /** Deletes what is archived by now, beside whatever else goes on. What fails is left to the next holder. */
  tidy(): void {
    if (this.#archived.length === 0 || this.#workers.size >= MAX_PARALLEL_WRITES) return;
    const worker = this.#deleteArchived().finally(() => this.#workers.delete(worker));
    this.#workers.add(worker);
  }

  async #deleteArchived(): Promise<void> {
    const names = this.#archived.splice(0);
    const resolved = this.#resolved.splice(0);
    if (names.length === 0 || this.#lease.lost.aborted) return;
    try {
      // The index first: an event that is gone from both places must not look dead.
      if (resolved.length > 0) await this.#blobs.delete("dead", resolved);
      await this.#blobs.delete("events", names);
    } catch (error) {
      this.#failures.push(`${names.length} archived events could not be deleted: ${describeError(error)}`);
    }
  }

  async #work(): Promise<void> {
    for (let event = this.#waiting.shift(); event !== undefined; event = this.#waiting.shift()) {
      try {
        // W5: no write once the lease may be somebody else's. The next holder finds the event as a ghost.
        this.#lease.assertHeld();
        await this.#archive(event);
        const name = eventBlobName(event.subscription, this.#order, event.id);
        this.#archived.push(name);
        if (event.dropsDeadLetter) this.#resolved.push(name);
      } catch (error) {
        const failures = isOutboxError(error, "corrupt") ? this.#conflicts : this.#failures;
        failures.push(`event ${event.sequence} of ${event.subscription} could not be archived: ${describeError(error)}`);
      }
    }
  }

  async #archive(event: FinishedEvent): Promise<void> {
    const name = eventBlobName(event.subscription, this.#order, event.id);
    const bytes = event.text === undefined ? (await this.#blobs.read("events", name))?.bytes : eventBytes(event.text);
    // Gone already: whoever deleted it had archived it before.
    if (bytes === undefined) return;
    const skipped =
      event.leftOver === true && event.decision === undefined && (await this.#blobs.read("dead", name))?.metadata["policy"] === "skip";
    const metadata = {
      sequence: String(event.sequence),
      previous: String(event.previous),
      attempts: String(event.attempts),
      outcome: skipped ? "dead-lettered" : event.outcome,
      finishedat: new Date(this.#clock.now()).toISOString(),
      ...(event.decision === undefined ? {} : encodeDecision(event.decision)),
    };
    try {
      await this.#blobs.create("archive", name, bytes, metadata);
    } catch (error) {
      if (!isOutboxError(error, "already-exists")) throw error;
      await this.#assertSame(name, bytes, error);
    }
  }

  /** W11: already there with the same bytes is success; other bytes under one event id are a loud error, neither is touched. */
  async #assertSame(name: string, bytes: Uint8Array, cause: unknown): Promise<void> {
    const existing = await this.#blobs.read("archive", name);
    if (existing === undefined || Buffer.compare(existing.bytes, bytes) === 0) return;
    this.#logger.error("an archived event has other bytes than the pending one; both are kept", { order: this.#order, name });
    throw new OutboxError("corrupt", `archive/${name} has other bytes than the pending event`, { cause });
  }
}
