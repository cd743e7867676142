/**
 * What a round knows of its order while it holds the lease. Its parts (backlog, relay step, drain) share it, and change it by its methods
 * alone: each says who calls it.
 */
import type { OrderKey } from "../core/order-id.ts";
import { decodeProgress, MAX_SUBSCRIPTIONS, streamProgress, type Progress, type StreamProgress } from "../core/progress.ts";
import { contradictionAlarm, seenSequence, type QueuedEvent } from "../core/stream.ts";
import { workerMetrics } from "../system/metrics.ts";
import { Archiver } from "./archiver.ts";
import { OrderStream } from "./order-stream.ts";
import { ProgressWriter } from "./progress-writer.ts";
import type { RoundInput, RoundOptions } from "./round-options.ts";

/** A round reports this many different problems; more of them tell nothing new. */
const MAX_PROBLEMS = 50;

/**
 * Why events of the order must not run, in whatever stream: its entity is older than its progress, so none may; or the event `gapAt` is
 * missing in the order itself, so neither it nor a newer one may.
 */
export type OrderStop = "behind-progress" | { readonly gapAt: number };

export class RoundState {
  readonly options: RoundOptions;
  readonly input: RoundInput;
  readonly order: OrderKey;
  /** One for each deployed subscription. */
  readonly streams: readonly OrderStream[];
  readonly archiver: Archiver;
  readonly writer: ProgressWriter;
  readonly #elsewhere = new Map<string, StreamProgress>();
  readonly #waitingElsewhere = new Map<string, readonly QueuedEvent[]>();
  #seen: number;
  #top = 0;
  #headsJudged = false;
  #mayHaveDied = false;
  #stopped: OrderStop | undefined;
  readonly #problems = new Set<string>();
  #hasGap = false;
  #failure: unknown;

  constructor(options: RoundOptions, input: RoundInput) {
    this.options = options;
    this.input = input;
    const { order, lease } = input;
    this.order = order;
    const progress = decodeProgress(input.blob.metadata);
    this.#seen = seenSequence(progress);
    const top = (): number => this.top;
    this.streams = options.subscriptions.map(
      (subscription) => new OrderStream(subscription, streamProgress(progress, subscription.name), top),
    );
    this.writer = new ProgressWriter({ leases: options.storage.leases, order, lease, mark: input.mark, etag: input.blob.etag, progress });
    this.archiver = new Archiver({ blobs: options.storage.blobs, order, lease, clock: options.clock, logger: options.logger });
  }

  /** Sequence up to which entities have become blobs, or never will. */
  get seen(): number {
    return this.#seen;
  }

  get stopped(): OrderStop | undefined {
    return this.#stopped;
  }

  /** By the relay step's looks at the order: no event of it is newer than this. */
  orderIsAt(sequence: number): void {
    this.#top = Math.max(this.#top, sequence);
  }

  get top(): number {
    return this.#top;
  }

  /** By the relay step: what is up to this sequence has become blobs. */
  relayedUpTo(sequence: number): void {
    this.#seen = Math.max(this.#seen, sequence);
  }

  /** By the backlog: a process may have died in the handler of a stream's head, and that start may not have been counted (W4). */
  mayHaveDied(): void {
    this.#mayHaveDied = true;
  }

  /** By the round's start: of every stream's head it is known by now whether a process may have died in it. */
  headsJudged(): void {
    this.#headsJudged = true;
  }

  /** As in {@link RoundInput}: this round's own events, unless it leaves to the next one what the holder before may have died in. */
  get livingUpTo(): number {
    return this.#headsJudged && !this.#mayHaveDied ? this.#seen : this.input.livingUpTo;
  }

  /** By the relay step. Once for the round: what is missing can't come back under the lease. */
  stopAt(gapAt: number): void {
    this.#stopped ??= { gapAt };
  }

  /** By the round's start: the order is behind its progress. */
  stopAll(): void {
    this.#stopped ??= "behind-progress";
  }

  /** By backlog and relay step: how a stream stands that is not deployed here. */
  keepElsewhere(name: string, progress: StreamProgress): void {
    this.#elsewhere.set(name, progress);
  }

  /** By the backlog: what waits in a stream that is not deployed here. */
  waitsElsewhere(name: string, events: readonly QueuedEvent[]): void {
    this.#waitingElsewhere.set(name, events);
  }

  /** What the listing found, per stream that is not deployed here. */
  get waitingElsewhere(): ReadonlyMap<string, readonly QueuedEvent[]> {
    return this.#waitingElsewhere;
  }

  /** What is known of a stream that is not deployed here. */
  elsewhere(name: string): StreamProgress {
    return this.#elsewhere.get(name) ?? streamProgress(this.writer.written, name);
  }

  /** May the event of this sequence run, as far as the order itself goes? */
  passes(sequence: number): boolean {
    return this.#stopped === undefined || (this.#stopped !== "behind-progress" && sequence < this.#stopped.gapAt);
  }

  /** Why the round ends early: the first thing that went wrong for all of its streams. */
  get failure(): unknown {
    return this.#failure;
  }

  fail(error: unknown): void {
    this.#failure ??= error;
  }

  get problems(): readonly string[] {
    return [...this.#problems];
  }

  /** Something that people should know, said once. */
  problem(text: string): void {
    if (this.#problems.has(text) || this.#problems.size >= MAX_PROBLEMS) return;
    this.#problems.add(text);
    this.options.logger.warn(text, { orderId: this.input.orderId });
  }

  /** An event is missing (W3), or in the wrong place: an alarm, once for the round. */
  gap(text: string): void {
    if (this.#problems.has(text)) return;
    this.#problems.add(text);
    this.options.logger.error(text, { orderId: this.input.orderId });
    if (!this.#hasGap) workerMetrics.gapFound();
    this.#hasGap = true;
  }

  /** By the relay step and the drain: what keeps a stream from going on, and only a human can mend. */
  reportBroken(stream: OrderStream): void {
    const { name, recorded } = stream;
    const wrong = stream.contradiction();
    if (wrong !== undefined) this.gap(contradictionAlarm(name, wrong, recorded));
    const missing = stream.missing();
    if (missing !== undefined) this.gap(`event ${missing} of ${name} is missing from its pending events. Nothing after it runs.`);
  }

  /** Subscriptions that other deployments know and this one does not (F10). */
  absent(): string[] {
    return Object.keys(this.writer.written.streams).filter((name) => this.streams.every((stream) => stream.name !== name));
  }

  /** May anything further start? */
  goesOn(): boolean {
    return this.#failure === undefined && !this.input.lease.lost.aborted && this.input.mayStart();
  }

  isRunnable(stream: OrderStream): boolean {
    const next = stream.next();
    if (next === undefined || stream.contradiction() !== undefined || stream.stopped !== undefined || !this.goesOn()) return false;
    return this.passes(next.sequence);
  }

  /** Everything relayed is finished everywhere. */
  isClean(): boolean {
    return this.#stopped === undefined && this.streams.every((stream) => stream.queue.length === 0 && stream.missing() === undefined);
  }

  /** Has a stream got events that the progress does not tell of? */
  hasUnrecorded(): boolean {
    const { written } = this.writer;
    const streams = [...this.#elsewhere, ...this.streams.map(({ name, progress }) => [name, progress] as const)];
    return streams.some(([name, { relayed }]) => relayed > streamProgress(written, name).relayed);
  }

  /** Everything as it stands, once all that was pending is listed and relayed. */
  recordProgress(): Promise<void> {
    return this.writer.update((progress) => ({
      clean: this.isClean() ? this.#seen : progress.clean,
      relayed: Math.max(progress.relayed, this.#seen),
      streams: this.#streamProgress(progress),
    }));
  }

  /** The streams as they stand, while it is not known yet what else is pending. */
  recordStreams(): Promise<void> {
    return this.writer.update((progress) => ({ ...progress, streams: this.#streamProgress(progress) }));
  }

  /**
   * By the relay step, before event blobs are written: a relay that ends in the middle may leave some of a stream that no other deployment
   * would look for.
   */
  recordNames(names: readonly string[]): Promise<void> {
    const streams = new Map(names.map((name) => [name, 0]));
    return this.writer.update((progress) => ({ ...progress, streams: this.#streamProgress(progress, streams) }));
  }

  /**
   * By the relay step, when event blobs exist and before their entities go: no blob may tell of an event that nobody wants, or only those of
   * a subscription that no other deployment knows of.
   *
   * @param newest of each stream that got events, the newest one's sequence
   * @param last sequence up to which entities go
   */
  recordRelayed(newest: ReadonlyMap<string, number>, last: number): Promise<void> {
    return this.writer.update((progress) => ({
      ...progress,
      relayed: Math.max(progress.relayed, last),
      streams: this.#streamProgress(progress, newest),
    }));
  }

  /** All streams as they stand, also those that wait: what is only in their blobs now must be known to the next round (W3). */
  #streamProgress(progress: Progress, newest: ReadonlyMap<string, number> = new Map()): Progress["streams"] {
    const own = this.streams.map(({ name, progress: known }): readonly [string, StreamProgress] => [
      name,
      { ...known, relayed: Math.max(known.relayed, newest.get(name) ?? 0) },
    ]);
    const all = Object.entries({ ...progress.streams, ...Object.fromEntries(this.#elsewhere), ...Object.fromEntries(own) });
    if (all.length <= MAX_SUBSCRIPTIONS) return Object.fromEntries(all);
    // No room for all that ever were: those that are gone and wait for nothing may be forgotten.
    return Object.fromEntries(
      all.filter(([name, { sequence, relayed }]) => relayed > sequence || own.some(([ownName]) => ownName === name)),
    );
  }
}
