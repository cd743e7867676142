import type { EventId } from "../core/event-id.ts";
import type { StreamProgress } from "../core/progress.ts";
import { missingSequence, type QueuedEvent } from "../core/stream.ts";
import type { Subscription } from "../core/workflow.ts";

/** One subscription's stream of the order while its lease is held: the pending events, oldest first, and why it stands, if it does. */
export class OrderStream {
  readonly subscription: Subscription;
  /** Pending events in order. The first one is running or next. */
  readonly queue: QueuedEvent[] = [];
  /** Why nothing of this stream may start any more in this round. */
  stopped: { readonly reason: string; readonly retryInMs: number } | undefined;
  #progress: StreamProgress | undefined;

  constructor(subscription: Subscription, progress: StreamProgress | undefined) {
    this.subscription = subscription;
    this.#progress = progress;
  }

  get name(): string {
    return this.subscription.name;
  }

  /** Progress of this stream; undefined before its first event was ever finished. */
  get progress(): StreamProgress | undefined {
    return this.#progress;
  }

  hasFinished(id: EventId): boolean {
    return this.#progress?.id !== undefined && id <= this.#progress.id;
  }

  /** Sequence of the newest event of this stream before `id`. */
  lastSequenceBefore(id: EventId): number {
    return this.queue.findLast((event) => event.id < id)?.sequence ?? this.#progress?.sequence ?? 0;
  }

  /** Adds pending events, each once and in order. */
  enqueue(events: readonly QueuedEvent[]): void {
    for (const event of events) {
      const index = this.queue.findLastIndex(({ id }) => id <= event.id);
      if (this.queue[index]?.id === event.id) this.queue[index] = event;
      else this.queue.splice(index + 1, 0, event);
    }
  }

  /** The next event, unless one before it is missing (W3). */
  next(): QueuedEvent | undefined {
    const head = this.queue[0];
    return head !== undefined && this.#progress !== undefined && head.previous > this.#progress.sequence ? undefined : head;
  }

  /** A missing event anywhere in the stream, also behind its end. */
  missing(): number | undefined {
    return missingSequence(this.queue, this.#progress);
  }

  /** The head is finished. */
  finish(event: QueuedEvent): StreamProgress {
    this.queue.shift();
    const relayed = Math.max(this.#progress?.relayed ?? 0, event.sequence, this.queue.at(-1)?.sequence ?? 0);
    this.#progress = { sequence: event.sequence, id: event.id, relayed };
    return this.#progress;
  }
}
