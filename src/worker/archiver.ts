import { archivedMetadata, BundleDraft, encodeBundle, type BundleMember } from "../core/archive-bundle.ts";
import { describeError, isOutboxError } from "../core/errors.ts";
import { eventBytes, type StoredEvent } from "../core/event.ts";
import type { EventId } from "../core/event-id.ts";
import type { Logger } from "../core/logger.ts";
import { eventBlobName, streamPrefix, UNROUTED } from "../core/names.ts";
import type { OrderKey } from "../core/order-id.ts";
import { encodeDecision, type Decision } from "../core/pending-event.ts";
import type { Blobs } from "../core/ports.ts";
import type { Clock } from "../core/clock.ts";
import { createArchived, isArchived } from "./archive-blob.ts";
import type { HeldLease } from "./held-lease.ts";
import { judgeLeftOvers, type LeftOvers, type Neighbour } from "./left-overs.ts";

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
  /** It is in the archive by now, and only its pending blob has to go. */
  readonly archived?: boolean;
}

interface TimedEvent extends FinishedEvent {
  readonly finishedAtMs: number;
  /** Left over by a dead holder, or written late by one: what was found out about all of its stream's. */
  readonly leftOver?: () => Promise<LeftOvers<TimedEvent>>;
}

/** Events of one stream that are archived by one write, oldest first. */
interface Batch {
  readonly events: readonly TimedEvent[];
  /** The same ones, if there are several. */
  readonly members: readonly BundleMember[];
}

/** Handled events of one stream that are not written yet. */
interface OpenBatch {
  readonly draft: BundleDraft;
  readonly events: TimedEvent[];
  /** By the monotonic clock. */
  readonly sinceMs: number;
}

/** How many archive writes of an order are under way at once. */
const MAX_PARALLEL_WRITES = 8;
/** What is handled waits about so long for more, unless the round ends; and what is archived, for its delete. */
const MAX_WAIT_MS = 1_000;

/**
 * Moves finished events to the archive, off the path of the handlers: archive blob first, then the pending blobs are deleted in batches.
 * All of it is keyed by event ids and create-only (W11), so that it can be done again by anybody.
 *
 * What is plainly handled is collected for a moment, because a blob write costs more than everything else: a burst becomes one blob, a
 * bundle, and one event alone a blob of its own.
 */
export class Archiver {
  readonly #blobs: Blobs;
  readonly #order: OrderKey;
  readonly #lease: HeldLease;
  readonly #clock: Clock;
  readonly #logger: Logger;
  readonly #open = new Map<string, OpenBatch>();
  readonly #waiting: Batch[] = [];
  readonly #archived: string[] = [];
  readonly #resolved: string[] = [];
  readonly #failures: string[] = [];
  readonly #conflicts: string[] = [];
  /** Writes and a delete that are under way, and the wait for the next of them. */
  readonly #running = new Set<Promise<void>>();
  readonly #over = new AbortController();
  #writers = 0;
  #isDeleting = false;
  #isTicking = false;

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

  /** Takes over an event that the progress has recorded as finished. Those of one stream come in its order. */
  add(event: FinishedEvent): void {
    const timed = this.#timed(event);
    this.#tick();
    if (this.#collect(timed)) return;
    // W13: bundles of a stream don't overlap with each other, nor with what is archived alone: what is open ends here.
    this.#close(event.subscription);
    if (!this.#collect(timed)) this.#write({ events: [timed], members: [] });
  }

  /**
   * Takes over what is left over of a stream, before anything else of it.
   *
   * @param events oldest first, all that the progress has passed
   * @param next what is pending behind them
   */
  addLeftOver(subscription: string, events: readonly Omit<FinishedEvent, "subscription">[], next: Neighbour | undefined): void {
    const all = events.map((event) => this.#timed({ subscription, ...event }));
    let judged: Promise<LeftOvers<TimedEvent>> | undefined;
    const leftOver = (): Promise<LeftOvers<TimedEvent>> =>
      (judged ??= judgeLeftOvers(this.#blobs, streamPrefix(subscription, this.#order), all, next));
    this.#tick();
    for (const event of all) this.#write({ events: [{ ...event, leftOver }], members: [] });
  }

  #timed(event: FinishedEvent): TimedEvent {
    return { ...event, finishedAtMs: Math.trunc(this.#clock.now()) };
  }

  /** W13. False if it must have a blob of its own, or does not fit to those that are collected. */
  #collect(event: TimedEvent): boolean {
    const { subscription, text, outcome, decision } = event;
    if (outcome !== "handled" || decision !== undefined || text === undefined) return false;
    const open = this.#open.get(subscription) ?? { draft: new BundleDraft(), events: [], sinceMs: this.#clock.monotonic() };
    if (!open.draft.add({ ...event, bytes: eventBytes(text) })) return false;
    open.events.push(event);
    this.#open.set(subscription, open);
    return true;
  }

  #close(subscription: string): void {
    const open = this.#open.get(subscription);
    this.#open.delete(subscription);
    if (open !== undefined) this.#write({ events: open.events, members: open.draft.members });
  }

  #write(batch: Batch): void {
    this.#waiting.push(batch);
    if (this.#writers < MAX_PARALLEL_WRITES) this.#run(this.#work());
  }

  #run(work: Promise<void>): void {
    const running = work.finally(() => this.#running.delete(running));
    this.#running.add(running);
  }

  /** Whatever else goes on in the round, and however rarely it looks for new commits: as long as something waits, time passes for it here. */
  #tick(): void {
    if (this.#isTicking || this.#over.signal.aborted) return;
    this.#isTicking = true;
    const wait = async (): Promise<void> => {
      await this.#clock.sleep(MAX_WAIT_MS, this.#over.signal).catch(() => undefined);
      this.#isTicking = false;
      this.#tidy();
      if (this.#open.size > 0 || this.#writers > 0 || this.#archived.length > 0) this.#tick();
    };
    this.#run(wait());
  }

  /** Archives what has waited, and deletes what is archived by now, beside whatever else goes on. What fails is left to the next holder. */
  #tidy(): void {
    const now = this.#clock.monotonic();
    for (const [subscription, { sinceMs }] of this.#open) if (now - sinceMs >= MAX_WAIT_MS) this.#close(subscription);
    // One at a time: what is archived meanwhile goes with the next.
    if (this.#archived.length > 0 && !this.#isDeleting) this.#run(this.#deleteArchived());
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
    this.#over.abort();
    for (const subscription of this.#open.keys()) this.#close(subscription);
    while (this.#running.size > 0) await Promise.all(this.#running);
    await this.#deleteArchived();
    return { retryable: this.#failures, final: this.#conflicts };
  }

  async #deleteArchived(): Promise<void> {
    const names = this.#archived.splice(0);
    const resolved = this.#resolved.splice(0);
    if (names.length === 0 || this.#lease.lost.aborted) return;
    this.#isDeleting = true;
    try {
      // The index first: an event that is gone from both places must not look dead.
      if (resolved.length > 0) await this.#blobs.delete("dead", resolved);
      await this.#blobs.delete("events", names);
    } catch (error) {
      this.#failures.push(`${names.length} archived events could not be deleted: ${describeError(error)}`);
    } finally {
      this.#isDeleting = false;
    }
  }

  async #work(): Promise<void> {
    this.#writers += 1;
    for (let batch = this.#waiting.shift(); batch !== undefined; batch = this.#waiting.shift()) {
      try {
        // W5: no write once the lease may be somebody else's. The next holder finds the events as ghosts.
        this.#lease.assertHeld();
        await this.#archive(batch);
        for (const { subscription, id, dropsDeadLetter } of batch.events) {
          const name = eventBlobName(subscription, this.#order, id);
          this.#archived.push(name);
          if (dropsDeadLetter) this.#resolved.push(name);
        }
      } catch (error) {
        const failures = isOutboxError(error, "corrupt") ? this.#conflicts : this.#failures;
        failures.push(`${nameOf(batch)} could not be archived: ${describeError(error)}`);
      }
    }
    // At once when nothing waits: what comes now must find a writer or become one.
    this.#writers -= 1;
  }

  async #archive({ events, members }: Batch): Promise<void> {
    const [first] = events;
    if (events.length === 1) return this.#archiveAlone(first!);
    const { name, bytes, metadata } = encodeBundle(streamPrefix(first!.subscription, this.#order), members);
    await createArchived(this.#blobs, name, bytes, metadata, this.#logger);
  }

  async #archiveAlone(event: TimedEvent): Promise<void> {
    if (event.archived === true) return;
    const name = eventBlobName(event.subscription, this.#order, event.id);
    const bytes = event.text === undefined ? (await this.#blobs.read("events", name))?.bytes : eventBytes(event.text);
    // Gone already: whoever deleted it had archived it before.
    if (bytes === undefined) return;
    let ended = event;
    if (event.leftOver !== undefined) {
      const { ends, bundled } = await event.leftOver();
      // What is on record stays, as it does where it has a blob of its own.
      if (bundled.has(event.id) && (await isArchived(this.#blobs, name, bytes, this.#logger))) return;
      ended = ends.get(event.id)!;
    }
    const { decision } = ended;
    const metadata = archivedMetadata(ended, ended.outcome);
    const decided = decision === undefined ? metadata : { ...metadata, ...encodeDecision(decision) };
    await createArchived(this.#blobs, name, bytes, decided, this.#logger);
  }
}

function nameOf({ events }: Batch): string {
  const [first, last] = [events[0]!, events.at(-1)!];
  const which = events.length === 1 ? `event ${first.sequence}` : `events ${first.sequence} to ${last.sequence}`;
  return `${which} of ${first.subscription}`;
}
