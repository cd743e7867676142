/**
 * One holding of an order's lease (design §5): relay, drain, archive.
 *
 * W1  All event blobs of an outbox entity exist before the entity is deleted, and nothing runs before the entities seen are gone.
 * W2  The progress write is the commit point of an event. What the progress has passed is never run.
 * W3  `clean` + the entities just read = the order's sequence: then nothing older is pending and nothing is listed. A missing event stops
 *     its stream, it is never skipped.
 * W4  What was there before this round is suspect; its start is counted first.
 * W9  New commits are noticed while a handler runs.
 *
 * Who owns what: the round owns the streams and the relay; each stream's drain owns its queue's head; the ProgressWriter alone writes the
 * lease blob; the Archiver alone writes the archive and deletes event blobs.
 */
import type { Clock } from "../core/clock.ts";
import type { Pause } from "../core/controls.ts";
import { describeError, isOutboxError, printable } from "../core/errors.ts";
import type { StoredEvent } from "../core/event.ts";
import type { Logger } from "../core/logger.ts";
import type { OrderId, OrderKey } from "../core/order-id.ts";
import type { LeaseBlob, OrderAndOutbox, OutboxEntity, Storage } from "../core/ports.ts";
import { eventBlobName } from "../core/names.ts";
import { decodePendingState, isDue } from "../core/pending-event.ts";
import { decodeProgress, MAX_SUBSCRIPTIONS, NEW_STREAM, type Progress, type StreamProgress } from "../core/progress.ts";
import { firstUnaccounted, splitGhosts, type QueuedEvent } from "../core/stream.ts";
import type { AnyWorkflow, Subscription } from "../core/workflow.ts";
import { Archiver } from "./archiver.ts";
import { ghostEnd } from "./ghost-end.ts";
import type { Breakers } from "./breakers.ts";
import type { HeldLease } from "./held-lease.ts";
import { listPending } from "./list-pending.ts";
import { newsBefore, parkedStreams } from "./news-before.ts";
import { OrderStream } from "./order-stream.ts";
import type { Quarantine } from "./quarantine.ts";
import { ProgressWriter } from "./progress-writer.ts";
import { archiveUnwanted, readEntity, route, writeEventBlobs } from "./relay.ts";
import type { HeadContext } from "./head-context.ts";
import { runHead, type HeadEnd } from "./run-head.ts";
import type { Wakeable } from "./wakeable.ts";

export interface RoundOptions {
  readonly workflow: AnyWorkflow;
  readonly subscriptions: readonly Subscription[];
  readonly storage: Storage;
  readonly clock: Clock;
  readonly logger: Logger;
  readonly random: () => number;
  readonly breakers: Breakers;
  readonly quarantine: Quarantine;
  /** After storage has failed the order is looked at again after this time. */
  readonly retryDelayMs: number;
  /** What needs a human or a deployment (a gap, a missing handler) is looked at again after this time. */
  readonly recheckDelayMs: number;
  /** How often a running round looks for new commits of its order while a stream is idle (W9). */
  readonly pollMs: number;
}

export interface RoundInput {
  readonly orderId: OrderId;
  readonly order: OrderKey;
  readonly lease: HeldLease;
  /** What the lease was acquired on. */
  readonly blob: LeaseBlob;
  /** Unique mark of this round. */
  readonly id: string;
  /** May a further event start: false once the host stops or the time budget is spent. */
  readonly mayStart: () => boolean;
  readonly stop: AbortSignal;
  /** The holder before is dead, as far as can be told: it may have died in a handler (W4). */
  readonly holderDied: boolean;
  /** What operators have paused (F5), as of not long ago. A round may take longer than that. */
  readonly pauses: () => Promise<readonly Pause[]>;
  /** Pokes from wake-ups of the same order within the process. */
  readonly wakeable: Wakeable;
}

export interface RoundOutcome {
  readonly handled: number;
  /** Undefined if nothing is left that this round knows of. */
  readonly retryInMs: number | undefined;
  readonly problems: readonly string[];
  /** Sequence up to which outbox entities have been dealt with, as far as they can be. */
  readonly seen: number;
  /** False if the lease must run out rather than be given back, so that the next holder lists what is left over (W3). */
  readonly clean: boolean;
}

/** A round reports this many different problems; more of them tell nothing new. */
const MAX_PROBLEMS = 50;

export class Round {
  readonly #options: RoundOptions;
  readonly #input: RoundInput;
  readonly #streams: readonly OrderStream[];
  readonly #writer: ProgressWriter;
  readonly #archiver: Archiver;
  readonly #headContext: HeadContext;
  readonly #problems = new Set<string>();
  /** What a listing found of streams that are not deployed here. */
  readonly #waitingElsewhere = new Map<string, StreamProgress>();
  /** Sequence up to which entities have become blobs, or never will. */
  #seen: number;
  /** Events from this sequence on must not run: one before them is missing in the order itself. */
  #gapAt: number | undefined;
  #handled = 0;
  #failure: unknown;

  constructor(options: RoundOptions, input: RoundInput) {
    this.#options = options;
    this.#input = input;
    const progress = decodeProgress(input.blob.metadata);
    this.#seen = Math.max(progress.clean, progress.relayed);
    this.#streams = options.subscriptions.map(
      (subscription) => new OrderStream(subscription, known(progress, subscription.name) ?? NEW_STREAM),
    );
    const { order, lease } = input;
    this.#writer = new ProgressWriter({ leases: options.storage.leases, order, lease, round: input.id, etag: input.blob.etag, progress });
    this.#headContext = { ...options, ...input };
    this.#archiver = new Archiver({ blobs: options.storage.blobs, order, lease, clock: options.clock, logger: options.logger });
  }

  /** Throws what storage threw; a lost lease is an outcome, not an error. */
  async run(): Promise<RoundOutcome> {
    try {
      await this.#start();
      await this.#drainAll();
      await this.#recordWaiting();
    } catch (error) {
      this.#failure ??= error;
    }
    const unarchived = await this.#archiver.flush();
    for (const problem of [...unarchived.retryable, ...unarchived.final]) this.#problems.add(problem);
    if (this.#failure !== undefined && !isOutboxError(this.#failure, "lease-lost")) throw this.#failure;
    return {
      handled: this.#handled,
      seen: this.#gapAt === undefined ? this.#seen : Number.MAX_SAFE_INTEGER,
      retryInMs: this.#retryInMs(),
      problems: [...this.#problems],
      clean: unarchived.retryable.length === 0 && this.#failure === undefined,
    };
  }

  async #start(): Promise<void> {
    const found = await this.#read();
    const { clean } = this.#writer.written;
    const sequence = topSequence(found);
    if (sequence < this.#seen) {
      this.#gapAt = 0;
      this.#problem(
        `the order entity is at event ${sequence}, its progress at ${this.#seen}: the entity was restored or removed. Nothing runs.`,
      );
      return;
    }
    // W3: by arithmetic, is anything older than the entities pending? A holder that never said good-bye may have left blobs behind.
    const nothingOlder =
      this.#input.blob.state === "free" &&
      clean + found.outbox.length === sequence &&
      (found.outbox[0]?.sequence ?? clean + 1) === clean + 1;
    const listed = await this.#list(!nothingOlder);
    await this.#relay(found, listed);
    await this.#recordClean();
  }

  async #read(): Promise<OrderAndOutbox> {
    const { storage } = this.#options;
    this.#input.lease.assertHeld();
    const found = await storage.orders.readOutbox(this.#input.order);
    for (const rowKey of found.unreadable) this.#problem(`row ${printable(rowKey)} of the order is not one of ours; it is left alone`);
    return found;
  }

  /**
   * Fills the streams from their blobs: backlog, after a crash, blocked streams. Returns the sequences found.
   *
   * @param all false: only streams that wait by what the progress says (another deployment, without them, may have called the order clean
   *   since), and those it does not know although the order is not new
   */
  async #list(all: boolean): Promise<ReadonlySet<number>> {
    const { storage, logger } = this.#options;
    const progress = this.#writer.written;
    const isNew = progress.clean === 0 && progress.relayed === 0 && Object.keys(progress.streams).length === 0;
    const sequences = new Set<number>();
    const list = async (stream: OrderStream): Promise<void> => {
      const { events, foreign } = await listPending(storage.blobs, stream.name, this.#input.order, logger);
      for (const name of foreign) this.#problem(`events/${printable(name)} is not one of ours; it is left alone`);
      const { ghosts, pending } = splitGhosts(events, stream.progress);
      for (const ghost of ghosts) this.#archiver.add({ subscription: stream.name, ...ghostEnd(ghost) });
      for (const event of pending) sequences.add(event.sequence);
      const [head, ...rest] = pending;
      if (head === undefined) return;
      // Only a head can have been running. Later ones are suspect too, but nothing is held against them.
      stream.enqueue(this.#input.holderDied ? [{ ...head, mayHaveRun: true }, ...rest] : pending);
    };
    const waits = (stream: OrderStream): boolean => {
      const { sequence, relayed } = known(progress, stream.name) ?? { sequence: 0, relayed: isNew ? 0 : 1 };
      return relayed > sequence;
    };
    const lists = await Promise.allSettled([
      ...this.#streams.filter((stream) => all || waits(stream)).map(list),
      ...this.#absent()
        .filter((name) => all || (known(progress, name)?.relayed ?? 0) > (known(progress, name)?.sequence ?? 0))
        .map((name) => this.#listAbsent(name, sequences)),
    ]);
    for (const result of lists) if (result.status === "rejected") throw result.reason;
    return sequences;
  }

  /** Subscriptions that other deployments know and this one does not (F10). */
  #absent(): string[] {
    return Object.keys(this.#writer.written.streams).filter((name) => this.#streams.every((stream) => stream.name !== name));
  }

  /**
   * Keeps in mind what waits in the stream of a subscription that is not deployed here: the progress must not forget it. Nothing of it runs,
   * but what an operator has discarded goes (F10).
   */
  async #listAbsent(name: string, sequences: Set<number>): Promise<void> {
    const { storage, logger } = this.#options;
    const { events } = await listPending(storage.blobs, name, this.#input.order, logger);
    for (const { sequence } of events) sequences.add(sequence);
    let progress = known(this.#writer.written, name) ?? NEW_STREAM;
    const { ghosts, pending } = splitGhosts(events, progress);
    for (const ghost of ghosts) this.#archiver.add({ subscription: name, ...ghostEnd(ghost) });
    const last = pending.at(-1)?.sequence ?? 0;
    if (last > progress.relayed) progress = { ...progress, relayed: last };
    for (const event of pending) {
      if (event.decision?.action !== "discard" || event.previous > progress.sequence) break;
      progress = { ...progress, sequence: event.sequence, id: event.id };
      this.#waitingElsewhere.set(name, progress);
      await this.#writer.update((current) => ({ ...current, streams: this.#streamProgress(current) }));
      this.#archiver.add({ subscription: name, ...ghostEnd(event) });
    }
    this.#waitingElsewhere.set(name, progress);
  }

  /**
   * W1. Entities that were relayed before, whose delete was interrupted, are relayed again: their blobs are there.
   *
   * @param listed sequences that have an event blob already
   */
  async #relay(found: OrderAndOutbox, listed: ReadonlySet<number>): Promise<void> {
    const { storage, clock } = this.#options;
    const { order, lease } = this.#input;
    const sequence = topSequence(found);
    const readable = await this.#readEntities(found.outbox);
    this.#gapAt ??= firstUnaccounted(this.#seen, sequence, new Set(readable.map((event) => event.sequence)), listed);
    const events = readable.filter((event) => this.#gapAt === undefined || event.sequence < this.#gapAt);
    const last = events.at(-1)?.sequence ?? 0;
    if (last > 0) {
      const routed = events.map((event) => route(event, this.#streams));
      const queues = await writeEventBlobs(storage.blobs, order, routed, lease);
      const unwanted = routed.filter((event) => event.unwanted);
      for (const { event } of unwanted) await archiveUnwanted(storage.blobs, order, event, new Date(clock.now()).toISOString());
      const fresh = [...queues].filter(([stream]) => known(this.#writer.written, stream.name) === undefined);
      if (fresh.length > 0 || routed.some(({ targets }) => targets.length === 0)) {
        // No event blob will tell of this event, or only those of a subscription that no other deployment may know of: then the progress has to
        // tell, before its entity goes.
        const streams = fresh.map(([stream, queued]) => [stream.name, { ...stream.progress, relayed: queued.at(-1)?.sequence ?? 0 }]);
        await this.#writer.update((progress) => ({
          ...progress,
          relayed: Math.max(progress.relayed, last),
          streams: { ...progress.streams, ...(Object.fromEntries(streams) as Progress["streams"]) },
        }));
      }
      lease.assertHeld();
      await storage.orders.deleteOutbox(
        order,
        events.map(({ id }) => id),
      );
      await this.#dropPayloads(found.outbox.filter((entity) => entity.sequence <= last));
      for (const [stream, queued] of queues) stream.enqueue(queued);
    }
    if (this.#gapAt === undefined) this.#seen = Math.max(this.#seen, sequence);
    else {
      this.#seen = Math.max(this.#seen, last);
      this.#problem(
        `event ${this.#gapAt} is missing or unreadable: outbox, pending events and progress do not have it. Nothing after it runs.`,
      );
    }
    for (const stream of this.#streams) {
      const missing = stream.missing();
      if (missing !== undefined)
        this.#problem(`event ${missing} of ${stream.name} is missing from its pending events. Nothing after it runs.`);
    }
  }

  /** An entity that can't be read counts as missing: what is older goes on, nothing newer passes. */
  async #readEntities(entities: readonly OutboxEntity[]): Promise<StoredEvent[]> {
    const events: StoredEvent[] = [];
    for (const entity of entities) {
      try {
        events.push(await readEntity(this.#options.storage.blobs, entity));
      } catch (error) {
        if (!isOutboxError(error, "corrupt", "invalid-order-id")) throw error;
        this.#problem(describeError(error));
      }
    }
    return events;
  }

  /** The bytes live on in the event blobs. What stays behind after a crash is found by cleanup. */
  async #dropPayloads(entities: readonly OutboxEntity[]): Promise<void> {
    const names = entities.flatMap(({ payloadBlob }) => payloadBlob ?? []);
    if (names.length === 0) return;
    await this.#options.storage.blobs.delete("payloads", names).catch((error: unknown) => {
      this.#options.logger.warn("a relayed payload could not be deleted", { orderId: this.#input.orderId, error: describeError(error) });
    });
  }

  /** Drains all streams in parallel and keeps relaying what is committed meanwhile (W9). */
  async #drainAll(): Promise<void> {
    const running = new Map<OrderStream, Promise<void>>();
    for (;;) {
      this.#resumeDue();
      for (const stream of this.#streams) {
        if (running.has(stream) || !this.#isRunnable(stream)) continue;
        running.set(
          stream,
          this.#drain(stream).finally(() => running.delete(stream)),
        );
      }
      if (running.size === 0) {
        if (!this.#input.wakeable.takePoke() || !this.#goesOn()) return;
        await this.#reviewStopped();
      } else {
        // What is finished by now must not look pending for as long as a slow handler runs.
        this.#archiver.tidy();
        const news = await newsBefore(running, this.#streams, { ...this.#options, wakeable: this.#input.wakeable, goesOn: this.#goesOn() });
        if (news === "ended" || !this.#goesOn()) continue;
        if (news === "poke") await this.#reviewStopped();
      }
      await this.#lookForMore();
    }
  }

  /** After a poke: has an operator decided about a head that stands (F4)? Nobody else changes it while the lease is held. */
  async #reviewStopped(): Promise<void> {
    for (const stream of this.#streams) {
      const head = stream.queue[0];
      if (stream.stopped === undefined || head === undefined || head.status === "pending") continue;
      try {
        const blob = await this.#options.storage.blobs.read("events", eventBlobName(stream.name, this.#input.order, head.id));
        const state = blob === undefined ? undefined : decodePendingState(blob.metadata);
        if (blob === undefined || state?.decision === undefined) continue;
        stream.queue[0] = { ...head, ...state, etag: blob.etag };
        stream.stopped = undefined;
      } catch (error) {
        this.#options.logger.debug("a look for decisions failed", { orderId: this.#input.orderId, error: describeError(error) });
      }
    }
  }

  /** W8: a parked head whose time comes while another stream's handler runs need not wait for that one (G4). */
  #resumeDue(): void {
    for (const stream of parkedStreams(this.#streams)) {
      const head = stream.queue[0]!;
      if (!isDue(head, this.#options.clock.now())) continue;
      // Its blob is older than this start: count it first (W4), and see what an operator may have decided meanwhile.
      stream.queue[0] = { ...head, suspect: true };
      stream.stopped = undefined;
    }
  }

  async #lookForMore(): Promise<void> {
    let found: OrderAndOutbox;
    try {
      found = await this.#read();
    } catch (error) {
      // Only a look: the next one, or the one after the release, will do.
      this.#options.logger.debug("a look for new commits failed", { orderId: this.#input.orderId, error: describeError(error) });
      return;
    }
    try {
      if (topSequence(found) > this.#seen) await this.#relay(found, new Set());
    } catch (error) {
      this.#failure ??= error;
    }
  }

  #goesOn(): boolean {
    return this.#failure === undefined && !this.#input.lease.lost.aborted && this.#input.mayStart();
  }

  #isRunnable(stream: OrderStream): boolean {
    const next = stream.next();
    if (next === undefined || stream.stopped !== undefined || !this.#goesOn()) return false;
    return this.#gapAt === undefined || next.sequence < this.#gapAt;
  }

  /** Strictly one event at a time (G2). Never rejects. */
  async #drain(stream: OrderStream): Promise<void> {
    try {
      while (this.#isRunnable(stream)) await this.#runHead(stream, stream.queue[0]!);
    } catch (error) {
      this.#failure ??= error;
    }
  }

  async #runHead(stream: OrderStream, head: QueuedEvent): Promise<void> {
    let end: HeadEnd;
    try {
      end = await runHead(this.#headContext, stream.subscription, head);
    } catch (error) {
      // G4: what can't be read or counted here is this stream's matter alone. A lost lease is everybody's.
      if (!isOutboxError(error) || isOutboxError(error, "lease-lost")) throw error;
      stream.stopped = { retryInMs: this.#options.retryDelayMs };
      this.#problem(`event ${head.sequence} of ${stream.name} could not be run: ${describeError(error)}`);
      return;
    }
    if (end.kind === "stands") {
      stream.queue[0] = end.queued;
      const { queued, retryInMs } = end;
      // A head that is due and stands all the same (paused, not deployed) would only stand again.
      const parked = queued.status === "parked" && !isDue(queued, this.#options.clock.now());
      stream.stopped = { retryInMs, parked };
      if (end.problem !== undefined) this.#problem(`event ${head.sequence} of ${stream.name} stands: ${end.problem}`);
      return;
    }
    stream.finish(head);
    // W2: the commit point. Only when this is durable may the next event start, or the archive be written.
    await this.#recordProgress();
    this.#handled += 1;
    this.#archiver.add({ subscription: stream.name, ...end.event });
  }

  /** All streams as they stand, also those that wait: what is only in their blobs now must be known to the next round (W3). */
  #streamProgress(progress: Progress): Progress["streams"] {
    const own = this.#streams.map((stream) => [stream.name, stream.progress] as const);
    const all = Object.entries({ ...progress.streams, ...Object.fromEntries(this.#waitingElsewhere), ...Object.fromEntries(own) });
    if (all.length <= MAX_SUBSCRIPTIONS) return Object.fromEntries(all);
    // No room for all that ever were: those that are gone and wait for nothing may be forgotten.
    return Object.fromEntries(
      all.filter(([name, { sequence, relayed }]) => relayed > sequence || own.some(([ownName]) => ownName === name)),
    );
  }

  /** Everything relayed is finished everywhere. */
  #isClean(): boolean {
    return this.#gapAt === undefined && this.#streams.every((stream) => stream.queue.length === 0 && stream.missing() === undefined);
  }

  /** Events wait, and nothing has been written since they were relayed: a deployment without their subscription must find them on record. */
  async #recordWaiting(): Promise<void> {
    const { streams } = this.#writer.written;
    const unknown = this.#streams.some(({ name, progress }) => progress.relayed > (streams[name]?.relayed ?? 0));
    if (!unknown || this.#failure !== undefined || this.#input.lease.lost.aborted) return;
    await this.#recordProgress();
  }

  /** Nothing to run, but the progress does not say so yet: events that nobody wants, or what a crash left finished. */
  async #recordClean(): Promise<void> {
    if (!this.#isClean() || this.#writer.written.clean >= this.#seen) return;
    await this.#recordProgress();
  }

  /** Everything as it stands, once all that was pending is listed and relayed. */
  #recordProgress(): Promise<void> {
    return this.#writer.update((progress) => ({
      clean: this.#isClean() ? this.#seen : progress.clean,
      relayed: Math.max(progress.relayed, this.#seen),
      streams: this.#streamProgress(progress),
    }));
  }

  /** Undefined if nothing is left, or if what is left has a wake-up of its own or waits for a human. */
  #retryInMs(): number | undefined {
    if (this.#failure !== undefined) return this.#options.retryDelayMs;
    const delays = this.#streams.map((stream) => {
      if (stream.stopped !== undefined) return stream.stopped.retryInMs;
      if (this.#isRunnable(stream)) return 0;
      if (stream.queue.length > 0) return this.#input.mayStart() ? this.#options.recheckDelayMs : 0;
      return stream.missing() === undefined ? undefined : this.#options.recheckDelayMs;
    });
    if (this.#gapAt !== undefined) delays.push(this.#options.recheckDelayMs);
    const due = delays.filter((delay) => delay !== undefined);
    return due.length === 0 ? undefined : Math.min(...due);
  }

  #problem(text: string): void {
    if (this.#problems.has(text) || this.#problems.size >= MAX_PROBLEMS) return;
    this.#problems.add(text);
    this.#options.logger.warn(text, { orderId: this.#input.orderId });
  }
}

/** A commit between two pages of the query shows its entities, but not its order entity. */
function topSequence({ order, outbox }: OrderAndOutbox): number {
  return Math.max(order?.sequence ?? 0, outbox.at(-1)?.sequence ?? 0);
}

function known(progress: Progress, name: string): Progress["streams"][string] | undefined {
  return Object.hasOwn(progress.streams, name) ? progress.streams[name] : undefined;
}
