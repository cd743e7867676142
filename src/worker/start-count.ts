/**
 * W4, C06: starts that may end with their process. What was there before the round, and what starts again in it, is suspect: its start is
 * counted on its event blob before it happens, and a count that no other end has taken back is one of a process that died. Only the first start
 * of what this round has relayed is not counted; if its process dies, the next holder of the lease guesses it, as the lease has run out.
 */
import { eventBlobName } from "../core/names.ts";
import { appendFailure } from "../core/pending-event.ts";
import type { RetryPolicy } from "../core/retry.ts";
import type { QueuedEvent } from "../core/stream.ts";
import type { Subscription } from "../core/workflow.ts";
import type { HeadContext } from "./round-options.ts";
import { saveState } from "./save-state.ts";

/** What the count of crashes and the history go back to if the start does not happen after all. */
type BeforeStart = Pick<QueuedEvent, "crashes" | "history">;

export type CountedStart =
  | { readonly kind: "counted"; readonly queued: QueuedEvent; readonly before: BeforeStart }
  /** It has ended with its process as often as its policy allows. */
  | { readonly kind: "killer"; readonly queued: QueuedEvent }
  /** An operator has changed it meanwhile: theirs stands. */
  | { readonly kind: "changed"; readonly queued: QueuedEvent };

export class StartCount {
  readonly #context: HeadContext;
  readonly #subscription: Subscription;

  constructor(context: HeadContext, subscription: Subscription) {
    this.#context = context;
    this.#subscription = subscription;
  }

  /**
   * Counts the start that is to come. The count of crashes stands until a start is known to have ended otherwise, however many rounds lie in
   * between that started nothing: they can't know more than the blob.
   */
  async count(queued: QueuedEvent, { maxCrashes }: RetryPolicy): Promise<CountedStart> {
    const known = this.#context.endedStarts.of(this.#name(queued), queued.etag);
    const mayHaveRun = known === undefined && queued.mayHaveRun === true && queued.status === "pending";
    // A suspect's start was counted before it happened, any other was not.
    const uncounted = mayHaveRun && queued.crashes === 0 ? 1 : 0;
    const crashes = (known ?? queued).crashes + uncounted;
    const attempts = (known ?? queued).attempts + uncounted;
    const history = crashes > 0 ? withCrash(queued.history, this.#context.clock.now()) : queued.history;
    // A start that was not written down is a guess: the lease may have run out for other reasons. Nothing dies of a guess.
    if (crashes >= maxCrashes && uncounted === 0) return { kind: "killer", queued: { ...queued, attempts, crashes, history } };
    const { saved, queued: next } = await this.#save(queued, {
      attempts: attempts + 1,
      crashes: crashes + 1,
      history,
      status: "pending",
      nextAttemptMs: 0,
      waitMs: 0,
    });
    if (!saved) return { kind: "changed", queued: next };
    const { mayHaveRun: _judged, ...counted } = next;
    // A guess of this judgement stays if the start does not happen, but nothing dies of it.
    const before = { crashes: Math.min(next.crashes, maxCrashes) - 1, history: queued.history };
    return { kind: "counted", queued: { ...counted, suspect: false }, before };
  }

  /** It was counted and does not happen: it must not pass for one that a process died in. The head has to be judged again. */
  async takeBack(counted: QueuedEvent, before: BeforeStart): Promise<QueuedEvent> {
    this.notStarted(counted, before);
    const { queued } = await this.#save(counted, { attempts: counted.attempts - 1, ...before });
    return { ...queued, suspect: true };
  }

  /** The start that was counted does not happen, whether that can be written down or not. */
  notStarted(counted: QueuedEvent, { crashes }: BeforeStart): void {
    this.#context.endedStarts.add(this.#name(counted), counted.etag, { crashes, attempts: counted.attempts - 1 });
  }

  /** The same where it need not be kept in mind: as long as the lease is held it will be written down. */
  notStartedIfLost(counted: QueuedEvent, before: BeforeStart): void {
    if (this.#context.lease.lost.aborted) this.notStarted(counted, before);
  }

  /** The start did not end with its process, whether that can be written down or not. */
  ended(queued: QueuedEvent): void {
    this.#context.endedStarts.add(this.#name(queued), queued.etag, { crashes: 0, attempts: queued.attempts });
  }

  endedIfLost(queued: QueuedEvent): void {
    if (this.#context.lease.lost.aborted) this.ended(queued);
  }

  /**
   * By the end of a round in which a head did not start that a process may have died in: the next one can't know of that, so the guess is
   * written down. Nothing dies of it.
   */
  async recordGuess(head: QueuedEvent): Promise<void> {
    const { retry, retryByType } = this.#subscription;
    if (head.mayHaveRun !== true || head.status !== "pending" || head.crashes > 0) return;
    if (this.#context.endedStarts.of(this.#name(head), head.etag) !== undefined) return;
    // Its type is not known here: where one crash is too many, a guess might be one.
    if ([retry, ...Object.values(retryByType)].some(({ maxCrashes }) => maxCrashes === 1)) return;
    await this.#save(head, { attempts: head.attempts + 1, crashes: 1, history: withCrash(head.history, this.#context.clock.now()) });
  }

  #save(queued: QueuedEvent, change: Parameters<typeof saveState>[3]): ReturnType<typeof saveState> {
    return saveState(this.#context, this.#subscription.name, queued, change);
  }

  #name({ id }: QueuedEvent): string {
    return eventBlobName(this.#subscription.name, this.#context.order, id);
  }
}

function withCrash(history: QueuedEvent["history"], nowMs: number): QueuedEvent["history"] {
  return appendFailure(history, { at: new Date(nowMs).toISOString(), starts: 1, error: "the worker stopped while it was handled" });
}
