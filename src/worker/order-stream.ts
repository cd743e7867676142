import type { StreamProgress } from "../core/progress.ts";
import { contradictionIn, isFinished, missingSequence, relayedSequence, type Placed, type QueuedEvent } from "../core/stream.ts";
import type { Subscription } from "../core/workflow.ts";

/** Why nothing of a stream may start in this round. */
export interface StreamStop {
  readonly retryInMs: number | undefined;
  /** Until the time of its head has come. */
  readonly parked?: boolean;
  /** Until this aborts; whoever aborts it pokes the round. */
  readonly until?: AbortSignal | undefined;
}

/** One subscription's stream of the order while its lease is held: the pending events, oldest first, and why it stands, if it does. */
export class OrderStream {
  readonly subscription: Subscription;
  readonly #queue: QueuedEvent[] = [];
  readonly #top: () => number;
  #stopped: StreamStop | undefined;
  #progress: StreamProgress;

  /** @param top sequence that no event of the order is beyond, as far as the round has seen it */
  constructor(subscription: Subscription, progress: StreamProgress, top: () => number) {
    this.subscription = subscription;
    this.#progress = progress;
    this.#top = top;
  }

  get name(): string {
    return this.subscription.name;
  }

  /** Pending events in order. The first one is running or next. */
  get queue(): readonly QueuedEvent[] {
    return this.#queue;
  }

  get stopped(): StreamStop | undefined {
    return this.#stopped?.until?.aborted === true ? undefined : this.#stopped;
  }

  /** What the progress says of this stream, or is about to: also of events that wait, so that a deployment without it forgets nothing. */
  get progress(): StreamProgress {
    return { ...this.#progress, relayed: relayedSequence(this.#queue, this.#progress, this.#top()) };
  }

  /** Without the events that wait. */
  get recorded(): StreamProgress {
    return this.#progress;
  }

  hasFinished(event: Placed): boolean {
    return isFinished(event, this.#progress);
  }

  /** Sequence of the newest event of this stream before the given one, as far as queue and progress know. */
  lastSequenceBefore({ id, sequence }: Pick<QueuedEvent, "id" | "sequence">): number {
    const queued = this.#queue.findLast((event) => event.id < id)?.sequence ?? 0;
    const { sequence: finished, relayed } = this.#progress;
    // It is relayed once more: what was the newest event by then does not tell what is before this one.
    return Math.min(sequence - 1, Math.max(queued, finished, relayed < sequence ? relayed : 0));
  }

  /** By backlog and relay step: adds pending events, each once and in order. */
  enqueue(events: readonly QueuedEvent[]): void {
    for (const event of events) {
      const index = this.#queue.findLastIndex(({ id }) => id <= event.id);
      if (this.#queue[index]?.id === event.id) this.#queue[index] = event;
      else this.#queue.splice(index + 1, 0, event);
    }
  }

  /** The next event, unless one before it is missing (W3). What is discarded does not run, and needs nothing before it (F4). */
  next(): QueuedEvent | undefined {
    const head = this.#queue[0];
    if (head === undefined || head.decision?.action === "discard") return head;
    return head.previous > this.#progress.sequence ? undefined : head;
  }

  /** W12. The head, or the event behind it, if it contradicts progress, order or the other: nothing may start then, whatever it waits for. */
  contradiction(): QueuedEvent | undefined {
    return contradictionIn(this.#queue.slice(0, 2), this.#progress, this.#top());
  }

  /** A missing event anywhere in the stream, also behind its end. What contradicts the progress does not tell what is missing. */
  missing(): number | undefined {
    if (this.contradiction() !== undefined) return undefined;
    return missingSequence(this.#queue, this.#progress);
  }

  /** By the drain: the head, as it is by now, is not done with, and nothing of the stream starts. */
  stop(why: StreamStop, head?: QueuedEvent): void {
    if (head !== undefined) this.#queue[0] = head;
    this.#stopped = why;
  }

  /** By the drain: the head, as it is by now, may start again. */
  resume(head: QueuedEvent): void {
    this.#queue[0] = head;
    this.#stopped = undefined;
  }

  /** By the drain: the head is finished. */
  finish(event: QueuedEvent): void {
    this.#queue.shift();
    this.#progress = { sequence: event.sequence, id: event.id, relayed: Math.max(this.#progress.relayed, event.sequence) };
  }
}
