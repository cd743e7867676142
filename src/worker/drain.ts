/** Runs the streams of a round dry: all of them in parallel, each strictly one event at a time (G2), relaying what is committed meanwhile. */
import { describeError, isOutboxError } from "../core/errors.ts";
import { eventBlobName } from "../core/names.ts";
import { decodePendingState, isDue } from "../core/pending-event.ts";
import type { OrderAndOutbox } from "../core/ports.ts";
import type { QueuedEvent } from "../core/stream.ts";
import type { HeadEnd } from "./head-end.ts";
import { listPending } from "./list-pending.ts";
import { newsBefore, parkedStreams } from "./news-before.ts";
import type { OrderStream } from "./order-stream.ts";
import { readOutbox, relayFound, topSequence } from "./relay-step.ts";
import type { HeadContext } from "./round-options.ts";
import type { RoundState } from "./round-state.ts";
import { runHead } from "./run-head.ts";
import { StartCount } from "./start-count.ts";

/**
 * An event that has waited in memory for longer than this is asked for before it starts: an operator's wake-up may have gone to another
 * process, where it pokes nobody (F4).
 */
const TRUSTED_MS = 5_000;
/** Asking for one is a small write. A listing asks for all at once, and costs as much as about so many; it is made once in {@link TRUSTED_MS}. */
const LISTING_PAYS = 12;

export class Drain {
  readonly #round: RoundState;
  readonly #headContext: HeadContext;
  /** When each stream was listed, by the monotonic clock. */
  readonly #listedAt = new Map<OrderStream, number>();
  #handled = 0;

  constructor(round: RoundState) {
    this.#round = round;
    this.#headContext = { ...round.options, ...round.input };
  }

  /** How many events it has finished. */
  get handled(): number {
    return this.#handled;
  }

  /** Until nothing may start any more. What fails for all streams is the round's `failure`. */
  async run(): Promise<void> {
    const round = this.#round;
    const { wakeable } = round.input;
    const running = new Map<OrderStream, Promise<void>>();
    for (;;) {
      this.#resumeDue();
      for (const stream of round.streams) {
        if (running.has(stream) || !round.isRunnable(stream)) continue;
        running.set(
          stream,
          this.#drain(stream).finally(() => running.delete(stream)),
        );
      }
      if (running.size === 0) {
        if (!wakeable.takePoke() || !round.goesOn()) return;
        await this.#reviewStopped();
      } else {
        const news = await newsBefore(running, round.streams, { ...round.options, wakeable, goesOn: round.goesOn() });
        if (news === "ended" || !round.goesOn()) continue;
        if (news === "poke") await this.#reviewStopped();
      }
      await this.#lookForMore();
    }
  }

  /** W4: what this round knows and the next one can't, of heads that it did not start. */
  async recordGuesses(): Promise<void> {
    const { failure, input, streams } = this.#round;
    if (failure !== undefined || input.lease.lost.aborted) return;
    for (const { subscription, queue } of streams) {
      if (queue[0] !== undefined) await new StartCount(this.#headContext, subscription).recordGuess(queue[0]);
    }
  }

  /** After a poke: has an operator decided about a head that stands (F4)? Nobody else changes it while the lease is held. */
  async #reviewStopped(): Promise<void> {
    const { options, order, input } = this.#round;
    for (const stream of this.#round.streams) {
      const head = stream.queue[0];
      if (stream.stopped === undefined || head === undefined) continue;
      try {
        const blob = await options.storage.blobs.read("events", eventBlobName(stream.name, order, head.id));
        const state = blob === undefined ? undefined : decodePendingState(blob.metadata);
        if (blob === undefined || state?.decision === undefined) continue;
        stream.resume({ ...head, ...state, etag: blob.etag });
      } catch (error) {
        options.logger.debug("a look for decisions failed", { orderId: input.orderId, error: describeError(error) });
      }
    }
  }

  /** G4: a parked head whose time comes while another stream's handler runs need not wait for that one. */
  #resumeDue(): void {
    for (const stream of parkedStreams(this.#round.streams)) {
      const head = stream.queue[0]!;
      if (!isDue(head, this.#round.options.clock.now())) continue;
      // Its blob is older than this start: count it first (W4), and see what an operator may have decided meanwhile.
      stream.resume({ ...head, suspect: true });
    }
  }

  /** W9: what was committed since the last look. */
  async #lookForMore(): Promise<void> {
    const round = this.#round;
    // The order stands as it is, whatever is committed now.
    if (round.stopped !== undefined) return;
    let found: OrderAndOutbox;
    try {
      found = await readOutbox(round);
    } catch (error) {
      // Only a look: the next one, or the one after the release, will do.
      round.options.logger.debug("a look for new commits failed", { orderId: round.input.orderId, error: describeError(error) });
      return;
    }
    try {
      if (topSequence(found) > round.seen) await relayFound(round, found, new Set());
    } catch (error) {
      round.fail(error);
    }
  }

  /** Strictly one event at a time (G2). Never rejects. */
  async #drain(stream: OrderStream): Promise<void> {
    try {
      while (this.#round.isRunnable(stream)) await this.#runHead(stream, await this.#doubted(stream));
    } catch (error) {
      this.#round.fail(error);
    }
    const { options, input } = this.#round;
    this.#round.reportBroken(stream);
    await options.slots.leave(stream.name, input.orderId);
  }

  /** F4: may an operator have decided about the head since it was relayed? Then its start is conditional, like that of any suspect. */
  async #doubted(stream: OrderStream): Promise<QueuedEvent> {
    if (this.#isStale(stream.queue[0]!) && this.#listingPays(stream)) await this.#lookAgain(stream);
    const head = stream.queue[0]!;
    return this.#isStale(head) ? { ...head, suspect: true } : head;
  }

  #isStale({ suspect, known }: QueuedEvent): boolean {
    if (suspect || known === undefined) return false;
    const { input, options } = this.#round;
    return known.pokes !== input.wakeable.pokes || options.clock.monotonic() - known.atMs > TRUSTED_MS;
  }

  #listingPays(stream: OrderStream): boolean {
    const listedAt = this.#listedAt.get(stream) ?? Number.NEGATIVE_INFINITY;
    if (this.#round.options.clock.monotonic() - listedAt <= TRUSTED_MS) return false;
    return stream.queue.filter((event) => this.#isStale(event)).length > LISTING_PAYS;
  }

  /** What is as it was is known again. What is not stays in doubt, and its start finds out why. */
  async #lookAgain(stream: OrderStream): Promise<void> {
    const { order, options, input } = this.#round;
    const known = { pokes: input.wakeable.pokes, atMs: options.clock.monotonic() };
    this.#listedAt.set(stream, known.atMs);
    try {
      const { events } = await listPending(options.storage.blobs, stream.name, order, options.logger);
      const etags = new Map(events.map(({ id, etag }) => [id, etag]));
      stream.enqueue(
        stream.queue.filter((event) => this.#isStale(event) && etags.get(event.id) === event.etag).map((event) => ({ ...event, known })),
      );
    } catch (error) {
      options.logger.debug("a look at what waits failed", { orderId: input.orderId, error: describeError(error) });
    }
  }

  async #runHead(stream: OrderStream, head: QueuedEvent): Promise<void> {
    const round = this.#round;
    let end: HeadEnd;
    try {
      end = await runHead(this.#headContext, stream.subscription, head, stream.recorded.sequence);
    } catch (error) {
      // G4: what can't be read or counted here is this stream's matter alone. A lost lease is everybody's.
      if (!isOutboxError(error) || isOutboxError(error, "lease-lost")) throw error;
      stream.stop({ retryInMs: round.options.retryDelayMs });
      round.problem(`event ${head.sequence} of ${stream.name} could not be run: ${describeError(error)}`);
      return;
    }
    if (end.kind === "stands") {
      const { queued, retryInMs, until } = end;
      // A head that is due and stands all the same (paused, not deployed) would only stand again.
      const parked = queued.status === "parked" && !isDue(queued, round.options.clock.now());
      stream.stop({ retryInMs, parked, until }, queued);
      if (end.problem !== undefined) round.problem(`event ${head.sequence} of ${stream.name} stands: ${end.problem}`);
      return;
    }
    stream.finish(head);
    // W2: the commit point. Only when this is durable may the next event start, or the archive be written; but for a discard, which is in the
    // archive by now (archive-blob.ts).
    await round.recordProgress();
    this.#handled += 1;
    round.archiver.add({ subscription: stream.name, ...end.event });
  }
}
