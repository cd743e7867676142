/**
 * The head of a stream, from its state to an end (design §6).
 *
 * F1  Short retries inside the round; F2 long ones across rounds: the wake-up is sent first, then the event is parked.
 * F3, F4  Dead letters and decisions about them: dead-head.ts.
 * F5  A paused stream starts nothing; a handler can say that its subscription is to be paused. F8 An open breaker parks without an attempt.
 * G4  Where all slots of the subscription are taken, it stands without an attempt.
 * W4  A suspect's start is counted before it runs; a start that ended with the process is a failure like any other.
 */
import { isPaused, type Pause } from "../core/controls.ts";
import { describeError, describeStack, isOutboxError } from "../core/errors.ts";
import { eventBlobName } from "../core/names.ts";
import { appendFailure, isDue, isHandlerMissing } from "../core/pending-event.ts";
import { decideRetry, goneReason, type RetryPolicy } from "../core/retry.ts";
import type { QueuedEvent } from "../core/stream.ts";
import type { AnyWorkflow, HandledEvent, Subscription } from "../core/workflow.ts";
import { workerMetrics } from "../system/metrics.ts";
import { callHandler } from "./call-handler.ts";
import { DeadHead } from "./dead-head.ts";
import { finished, stands, type HeadEnd, type HeadStep } from "./head-end.ts";
import { openEvent, readEvent } from "./open-event.ts";
import { parkHead, standParked } from "./park-head.ts";
import type { HeadContext } from "./round-options.ts";
import { saveState } from "./save-state.ts";

/** @throws `lease-lost`, or what storage throws */
export async function runHead(context: HeadContext, subscription: Subscription, head: QueuedEvent): Promise<HeadEnd> {
  const run = new HeadRun(context, subscription);
  let step: HeadStep = { kind: "again", queued: head };
  while (step.kind === "again") step = await run.step(step.queued);
  return step;
}

class HeadRun {
  readonly #context: HeadContext;
  readonly #subscription: Subscription;
  readonly #dead: DeadHead;

  constructor(context: HeadContext, subscription: Subscription) {
    this.#context = context;
    this.#subscription = subscription;
    this.#dead = new DeadHead(context, subscription);
  }

  async step(queued: QueuedEvent): Promise<HeadStep> {
    if (!this.#context.mayStart()) return stands(queued, 0);
    if (queued.decision !== undefined) return this.#dead.carryOut(queued, queued.decision);
    if (queued.skipped) return this.#dead.skipAgain(queued);
    if (queued.status === "blocked") return this.#dead.stand(queued);
    if (queued.status === "parked" && !isDue(queued, this.#context.clock.now())) return standParked(this.#context, queued);
    const hindered = await this.#hindrance(queued);
    if (hindered !== undefined) return hindered;
    // C06: counted and started only when its turn has come, or it would pay for another suspect's crash.
    if (queued.suspect && (queued.mayHaveRun === true || queued.crashes > 0)) {
      return this.#context.quarantine.run(() => this.#inSlot(queued));
    }
    return this.#inSlot(queued);
  }

  /** The slot is kept beyond this event: whoever drains the stream leaves it. */
  async #inSlot(queued: QueuedEvent): Promise<HeadStep> {
    const { slots, orderId, logger } = this.#context;
    const { name: subscription } = this.#subscription;
    const line = slots.enter(subscription, orderId);
    if (line !== undefined) {
      // Nothing is wrong, and many orders may say so.
      logger.debug("an order waits for a slot of its subscription", { orderId, subscription, slots: line.slots });
      // Should it start in this round after all, its blob may have changed meanwhile: an operator may have discarded it (F4).
      const head = { ...queued, suspect: true };
      return { kind: "stands", queued: head, retryInMs: line.retryInMs, problem: undefined, until: line.freed };
    }
    let type: string | undefined;
    let event: HandledEvent<AnyWorkflow>;
    try {
      const stored = await readEvent(this.#context, this.#subscription, queued);
      ({ type } = stored);
      event = await openEvent(this.#context.workflow, stored);
    } catch (error) {
      if (isOutboxError(error, "handler-missing")) return this.#waitForHandler(queued, describeError(error));
      if (isOutboxError(error, "gap")) return stands(queued, this.#context.recheckDelayMs, describeError(error));
      if (!isOutboxError(error, "corrupt", "invalid-event")) throw error;
      return this.#dead.die(queued, describeError(error), type, policyOf(this.#subscription, type));
    }
    return this.#start(queued, event);
  }

  /** Why it waits is written down once, for those who look at the order. It is no failure: no attempt is counted. */
  async #waitForHandler(queued: QueuedEvent, why: string): Promise<HeadStep> {
    const { recheckDelayMs } = this.#context;
    if (isHandlerMissing(queued)) return stands(queued, recheckDelayMs, why);
    const { saved, queued: next } = await this.#save(queued, { lastError: why });
    return saved ? stands(next, recheckDelayMs, why) : { kind: "again", queued: next };
  }

  /**
   * Why nothing may start: the host stops, the time is spent, the stream is paused (F5). To be asked after everything that takes time, the
   * waits in quarantine and for a slot above all, and right before a start.
   */
  async #hindrance(queued: QueuedEvent): Promise<HeadEnd | undefined> {
    const { pauses, freshPauses, orderId, mayStart, retryDelayMs } = this.#context;
    const isStopped = (all: readonly Pause[] | undefined): boolean =>
      all !== undefined && isPaused(all, this.#subscription.name, orderId) !== undefined;
    let known = await pauses();
    // It may have ended since; then nobody would look at this order again before the sweep does.
    if (isStopped(known)) known = await freshPauses();
    if (!mayStart()) return stands(queued, 0);
    if (known === undefined) return stands(queued, retryDelayMs, "it can't be told what is paused, as the table does not answer");
    const pause = isPaused(known, this.#subscription.name, orderId);
    return pause && paused(queued, pause);
  }

  async #start(queued: QueuedEvent, event: HandledEvent<AnyWorkflow>): Promise<HeadStep> {
    const hindered = await this.#hindrance(queued);
    if (hindered !== undefined) return hindered;
    const policy = policyOf(this.#subscription, event.type);
    let head = queued;
    let taken: Pick<QueuedEvent, "crashes" | "history"> = { crashes: queued.crashes, history: queued.history };
    if (queued.suspect) {
      const counted = await this.#countSuspect(queued, policy, event.type);
      if (counted.kind !== "again") return counted;
      head = counted.queued;
      // Changed by an operator meanwhile: theirs stands.
      if (head.suspect) return counted;
      // Not started after all, its start is taken back. A guess of this judgement stays, but nothing dies of it.
      taken = { crashes: Math.min(head.crashes, policy.maxCrashes) - 1, history: queued.history };
      if ((await this.#hindrance(head)) !== undefined) return this.#uncountSuspect(head, taken);
      this.#noteIfLost(head, taken.crashes);
    }
    const attempt = queued.suspect ? head.attempts : head.attempts + 1;
    this.#context.lease.assertHeld();
    // Kept aside: the archive gets the committed bytes, whatever the handler does to its event.
    const { text, type } = event;
    const startedAt = this.#context.clock.monotonic();
    const ended = (outcome: "handled" | "failed"): void =>
      workerMetrics.attemptEnded({
        subscription: this.#subscription.name,
        type,
        outcome,
        durationMs: this.#context.clock.monotonic() - startedAt,
      });
    const { breakers, orderId } = this.#context;
    let ran: { readonly result: boolean } | "open" | undefined;
    let failure: unknown;
    try {
      ran = await breakers.run(
        this.#subscription.name,
        orderId,
        () => callHandler(this.#context, this.#subscription, event, { attempt, undecided: head.undecided, policy }),
        () => this.#context.lease.lost.aborted || this.#context.stop.aborted,
      );
    } catch (error) {
      failure = error;
    }
    // W4: it did not end with its process, whether that can be written down or not.
    if (ran === "open") this.#noteEnded(head, taken.crashes);
    else if (head.crashes > 0) this.#noteEnded(head, 0);
    else this.#noteIfLost(head, 0);
    // F8: not started after all, so a suspect's start is taken back.
    if (ran === "open") {
      return parkHead(
        this.#context,
        this.#subscription.name,
        { ...head, attempts: attempt - 1, ...taken },
        breakers.waitMs,
        "its circuit breaker is open",
      );
    }
    if (ran !== undefined) {
      ended("handled");
      return finished({ ...head, attempts: attempt }, text, ran.result ? "handled" : "unwanted", false);
    }
    this.#context.lease.assertHeld();
    if (this.#context.stop.aborted) return this.#stopped(head, failure);
    ended("failed");
    const gone = goneReason(failure);
    if (gone !== undefined) {
      // Before the slot or anything else lets another event of the subscription start.
      const pause = await this.#switchOff(gone);
      if (pause !== undefined) return this.#notStarted({ ...head, attempts: attempt - 1 }, pause);
    }
    this.#log(head, attempt, failure);
    return this.#failed({ ...head, attempts: attempt }, failure, event, policy);
  }

  /** No failure, and no crash: whoever starts it next would take a counted start for one that ended with its process (W4). */
  async #stopped(head: QueuedEvent, failure: unknown): Promise<HeadStep> {
    const { queued } = head.crashes === 0 ? { queued: head } : await this.#save(head, { crashes: 0 });
    return stands(queued, 0, `stopped while it ran: ${describeError(failure)}`);
  }

  /** Undefined if the pause can't be written: then the start has failed like any other. */
  async #switchOff(reason: string): Promise<Pause | undefined> {
    try {
      return await this.#context.switchOff.off(this.#subscription.name, reason);
    } catch (error) {
      this.#context.logger.error("a subscription is gone but can't be paused; its event is tried again", {
        orderId: this.#context.orderId,
        subscription: this.#subscription.name,
        error: describeError(error),
      });
      return undefined;
    }
  }

  /** F5: its start does not count. That of a suspect was counted before, and is taken back. */
  async #notStarted(queued: QueuedEvent, pause: Pause): Promise<HeadStep> {
    const { attempts } = queued;
    if (queued.crashes === 0) return paused({ ...queued, suspect: true }, pause);
    const { saved, queued: next } = await this.#save(queued, { attempts, crashes: 0 });
    return saved ? paused(next, pause) : { kind: "again", queued: next };
  }

  /**
   * W4. A process may have died in this very handler: then that start is a failure, and too many of them are the end. The count stands until a
   * start is known to have ended otherwise, however many rounds lie in between that started nothing: they can't know more than the blob.
   */
  async #countSuspect(queued: QueuedEvent, policy: RetryPolicy, type: string): Promise<HeadStep> {
    const known = this.#context.endedStarts.crashesOf(this.#name(queued), queued.etag);
    const mayHaveRun = known === undefined && queued.mayHaveRun === true && queued.status === "pending";
    // A suspect's start was counted before it happened, any other was not.
    const uncounted = mayHaveRun && queued.crashes === 0 ? 1 : 0;
    const crashes = (known ?? queued.crashes) + uncounted;
    const attempts = queued.attempts + uncounted;
    const history = crashes > 0 ? withCrash(queued.history, this.#now()) : queued.history;
    // A start that was not written down is a guess: the lease may have run out for other reasons. Nothing dies of a guess.
    if (crashes >= policy.maxCrashes && uncounted === 0) {
      return this.#dead.die(
        { ...queued, attempts, crashes, history },
        `the worker stopped ${crashes} times while it was handled`,
        type,
        policy,
      );
    }
    const { saved, queued: next } = await this.#save(queued, {
      attempts: attempts + 1,
      crashes: crashes + 1,
      history,
      status: "pending",
      nextAttemptMs: 0,
      waitMs: 0,
    });
    if (!saved) return { kind: "again", queued: next };
    const { mayHaveRun: _judged, ...counted } = next;
    return { kind: "again", queued: { ...counted, suspect: false } };
  }

  /** It must not pass for one that a process died in. Then it is judged again. */
  async #uncountSuspect(counted: QueuedEvent, taken: Pick<QueuedEvent, "crashes" | "history">): Promise<HeadStep> {
    this.#noteEnded(counted, taken.crashes);
    const { queued } = await this.#save(counted, { attempts: counted.attempts - 1, ...taken });
    return { kind: "again", queued: { ...queued, suspect: true } };
  }

  async #failed(queued: QueuedEvent, error: unknown, event: HandledEvent<AnyWorkflow>, policy: RetryPolicy): Promise<HeadStep> {
    const { clock, random, lease, stop, slots, orderId } = this.#context;
    const lastError = describeError(error);
    const history = appendFailure(queued.history, { at: this.#now(), starts: 1, error: lastError });
    const failed = { ...queued, lastError, history, crashes: 0 };
    const decision = decideRetry(policy, queued.attempts, error, random());
    if (decision.kind === "dead") return this.#dead.die(failed, decision.reason, event.type, policy);
    if (decision.kind === "park") return parkHead(this.#context, this.#subscription.name, failed, decision.delayMs, `failed: ${lastError}`);
    const { saved, queued: next } = await this.#save(queued, {
      attempts: failed.attempts,
      lastError,
      history,
      crashes: 0,
      status: "pending",
      nextAttemptMs: 0,
      waitMs: 0,
    });
    if (saved) {
      await slots.leave(this.#subscription.name, orderId);
      await clock.sleep(decision.delayMs, AbortSignal.any([lease.lost, stop])).catch(() => undefined);
      this.#noteIfLost(next, 0);
      lease.assertHeld();
    }
    // W4: the blob is older than the start to come, so that is counted like a suspect's. What this round saw begin would else be known to it alone.
    return { kind: "again", queued: { ...next, suspect: true, ...(queued.text === undefined ? {} : { text: queued.text }) } };
  }

  #save(queued: QueuedEvent, change: Parameters<typeof saveState>[3]): ReturnType<typeof saveState> {
    return saveState(this.#context, this.#subscription.name, queued, change);
  }

  /** It can't be written down any more that the last start has not ended with its process. */
  #noteIfLost(queued: QueuedEvent, crashes: number): void {
    if (this.#context.lease.lost.aborted) this.#noteEnded(queued, crashes);
  }

  #noteEnded(queued: QueuedEvent, crashes: number): void {
    this.#context.endedStarts.add(this.#name(queued), queued.etag, crashes);
  }

  #name({ id }: QueuedEvent): string {
    return eventBlobName(this.#subscription.name, this.#context.order, id);
  }

  #log(queued: QueuedEvent, attempt: number, error: unknown): void {
    this.#context.logger.error("a handler failed", {
      orderId: this.#context.orderId,
      subscription: this.#subscription.name,
      eventId: queued.id,
      sequence: queued.sequence,
      attempt,
      error: describeError(error),
      stack: describeStack(error),
    });
  }

  #now(): string {
    return new Date(this.#context.clock.now()).toISOString();
  }
}

/**
 * W4. By the end of a round in which a head did not start that a process may have died in: the next one can't know of that, so the guess is
 * written down. Nothing dies of it.
 */
export async function recordGuess(context: HeadContext, subscription: Subscription, head: QueuedEvent): Promise<void> {
  const { name, retry, retryByType } = subscription;
  if (head.mayHaveRun !== true || head.status !== "pending" || head.crashes > 0) return;
  if (context.endedStarts.crashesOf(eventBlobName(name, context.order, head.id), head.etag) !== undefined) return;
  // Its type is not known here: where one crash is too many, a guess might be one.
  if ([retry, ...Object.values(retryByType)].some(({ maxCrashes }) => maxCrashes === 1)) return;
  const history = withCrash(head.history, new Date(context.clock.now()).toISOString());
  await saveState(context, name, head, { attempts: head.attempts + 1, crashes: 1, history });
}

function withCrash(history: QueuedEvent["history"], at: string): QueuedEvent["history"] {
  return appendFailure(history, { at, starts: 1, error: "the worker stopped while it was handled" });
}

function paused(queued: QueuedEvent, { actor, reason }: Pause): HeadEnd {
  return stands(queued, undefined, `paused by ${actor}: ${reason}`);
}

function policyOf({ retry, retryByType }: Subscription, type: string | undefined): RetryPolicy {
  return type !== undefined && Object.hasOwn(retryByType, type) ? retryByType[type]! : retry;
}
