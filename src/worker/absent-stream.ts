import type { StreamProgress } from "../core/progress.ts";
import { isFinished, type Placed, type QueuedEvent } from "../core/stream.ts";

/**
 * The stream of a subscription that is not deployed here, as far as a replay for it needs one (F9, F10): it gets its event, in its place of the
 * chain, and nothing of it runs before a deployment has the subscription.
 */
export class AbsentStream {
  readonly name: string;
  #progress: StreamProgress;

  constructor(name: string, progress: StreamProgress) {
    this.name = name;
    this.#progress = progress;
  }

  get progress(): StreamProgress {
    return this.#progress;
  }

  hasFinished(event: Placed): boolean {
    return isFinished(event, this.#progress);
  }

  lastSequenceBefore({ sequence }: { readonly sequence: number }): number {
    // Of one that is relayed once more the blob is there, and keeps its place.
    return Math.min(sequence - 1, Math.max(this.#progress.sequence, this.#progress.relayed));
  }

  /** They stay where they are; the progress knows of them. */
  enqueue(events: readonly QueuedEvent[]): void {
    const relayed = Math.max(this.#progress.relayed, events.at(-1)?.sequence ?? 0);
    this.#progress = { ...this.#progress, relayed };
  }
}

/** Those that one relay meets: each has one place for all of its events. */
export class AbsentStreams {
  readonly #streams = new Map<string, AbsentStream>();
  readonly #progress: (name: string) => StreamProgress;

  /** @param progress what is known of the stream of this name */
  constructor(progress: (name: string) => StreamProgress) {
    this.#progress = progress;
  }

  stream(name: string): AbsentStream {
    const stream = this.#streams.get(name) ?? new AbsentStream(name, this.#progress(name));
    this.#streams.set(name, stream);
    return stream;
  }

  /** @returns their progress with what was queued for them, to be kept in mind: whatever is written of the order must tell of it */
  enqueue(queues: ReadonlyMap<unknown, readonly QueuedEvent[]>): readonly (readonly [string, StreamProgress])[] {
    return [...this.#streams.values()].map((stream) => {
      stream.enqueue(queues.get(stream) ?? []);
      return [stream.name, stream.progress];
    });
  }
}
