/** What a round knows of its order while it holds the lease. Its parts (backlog, relay step, drain) share it; the round owns it. */
import type { OrderKey } from "../core/order-id.ts";
import { decodeProgress, knownStream, MAX_SUBSCRIPTIONS, NEW_STREAM, type Progress, type StreamProgress } from "../core/progress.ts";
import { Archiver } from "./archiver.ts";
import { OrderStream } from "./order-stream.ts";
import { ProgressWriter } from "./progress-writer.ts";
import type { RoundInput, RoundOptions } from "./round-options.ts";

/** A round reports this many different problems; more of them tell nothing new. */
const MAX_PROBLEMS = 50;

export class RoundState {
  readonly options: RoundOptions;
  readonly input: RoundInput;
  readonly order: OrderKey;
  /** One for each deployed subscription. */
  readonly streams: readonly OrderStream[];
  readonly archiver: Archiver;
  readonly writer: ProgressWriter;
  /** What a listing found of streams that are not deployed here. */
  readonly waitingElsewhere = new Map<string, StreamProgress>();
  /** Sequence up to which entities have become blobs, or never will. */
  seen: number;
  /** Events from this sequence on must not run: one before them is missing in the order itself. */
  gapAt: number | undefined;
  readonly #problems = new Set<string>();
  #failure: unknown;

  constructor(options: RoundOptions, input: RoundInput) {
    this.options = options;
    this.input = input;
    const { order, lease } = input;
    this.order = order;
    const progress = decodeProgress(input.blob.metadata);
    this.seen = Math.max(progress.clean, progress.relayed);
    this.streams = options.subscriptions.map(
      (subscription) => new OrderStream(subscription, knownStream(progress, subscription.name) ?? NEW_STREAM),
    );
    this.writer = new ProgressWriter({ leases: options.storage.leases, order, lease, round: input.id, etag: input.blob.etag, progress });
    this.archiver = new Archiver({ blobs: options.storage.blobs, order, lease, clock: options.clock, logger: options.logger });
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
    if (next === undefined || stream.stopped !== undefined || !this.goesOn()) return false;
    return this.gapAt === undefined || next.sequence < this.gapAt;
  }

  /** Everything relayed is finished everywhere. */
  isClean(): boolean {
    return this.gapAt === undefined && this.streams.every((stream) => stream.queue.length === 0 && stream.missing() === undefined);
  }

  /** Everything as it stands, once all that was pending is listed and relayed. */
  recordProgress(): Promise<void> {
    return this.writer.update((progress) => ({
      clean: this.isClean() ? this.seen : progress.clean,
      relayed: Math.max(progress.relayed, this.seen),
      streams: this.#streamProgress(progress),
    }));
  }

  /** The streams as they stand, while it is not known yet what else is pending. */
  recordStreams(): Promise<void> {
    return this.writer.update((progress) => ({ ...progress, streams: this.#streamProgress(progress) }));
  }

  /** All streams as they stand, also those that wait: what is only in their blobs now must be known to the next round (W3). */
  #streamProgress(progress: Progress): Progress["streams"] {
    const own = this.streams.map((stream) => [stream.name, stream.progress] as const);
    const all = Object.entries({ ...progress.streams, ...Object.fromEntries(this.waitingElsewhere), ...Object.fromEntries(own) });
    if (all.length <= MAX_SUBSCRIPTIONS) return Object.fromEntries(all);
    // No room for all that ever were: those that are gone and wait for nothing may be forgotten.
    return Object.fromEntries(
      all.filter(([name, { sequence, relayed }]) => relayed > sequence || own.some(([ownName]) => ownName === name)),
    );
  }
}
