/**
 * The head of a stream, from its state to an end (design §6).
 *
 * F1  Short retries inside the round; F2 long ones across rounds: the wake-up is sent first, then the event is parked.
 * F3, F4  Dead letters and decisions about them: dead-head.ts.
 * F5  A paused stream starts nothing; a handler can say that its subscription is to be paused. F8 An open breaker parks without an attempt.
 * G4  Where all slots of the subscription are taken, it stands without an attempt.
 * W4  A suspect's start is counted before it runs; a start that ended with the process is a failure like any other: start-count.ts.
 */
import { isPaused, type Pause } from "../core/controls.ts";
import { describeError, describeStack, isOutboxError } from "../core/errors.ts";
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
import { settle } from "./settled-head.ts";
import { StartCount } from "./start-count.ts";

/**
 * @param finishedTo sequence of the event that the stream has finished last
 * @throws `lease-lost`, or what storage throws
 */
export async function runHead(context: HeadContext, subscription: Subscription, head: QueuedEvent, finishedTo: number): Promise<HeadEnd> {
  const run = new HeadRun(context, subscription, finishedTo);
  let step: HeadStep = { kind: "again", queued: head };
  while (step.kind === "again") step = await run.step(step.queued);
  return step;
}

class HeadRun {
  readonly #context: HeadContext;
  readonly #subscription: Subscription;
  readonly #dead: DeadHead;
  readonly #starts: StartCount;
  readonly #finishedTo: number;

  constructor(context: HeadContext, subscription: Subscription, finishedTo: number) {
    this.#finishedTo = finishedTo;
    this.#context = context;
    this.#subscription = subscription;
    this.#dead = new DeadHead(context, subscription);
    this.#starts = new StartCount(context, subscription);
  }

  async step(queued: QueuedEvent): Promise<HeadStep> {
    if (!this.#context.mayStart()) return stands(queued, 0);
    const settled = await settle(this.#context, this.#subscription.name, queued, this.#finishedTo);
    if (settled !== undefined) return { kind: "finished", event: settled };
    if (queued.decision !== undefined) return this.#dead.redrive(queued, queued.decision);
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
      const stored = await readEvent(this.#context, this.#subscription.name, queued);
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
    let before: Pick<QueuedEvent, "crashes" | "history"> = queued;
    if (queued.suspect) {
      const start = await this.#starts.count(queued, policy);
      if (start.kind === "changed") return { kind: "again", queued: start.queued };
      if (start.kind === "killer") return this.#dead.die(start.queued, killerReason(start.queued), event.type, policy);
      head = start.queued;
      before = start.before;
      if ((await this.#hindrance(head)) !== undefined) return { kind: "again", queued: await this.#starts.takeBack(head, before) };
      this.#starts.notStartedIfLost(head, before);
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
    if (ran === "open") this.#starts.notStarted(head, before);
    else if (head.crashes > 0) this.#starts.ended(head);
    else this.#starts.endedIfLost(head);
    // F8: not started after all, so a suspect's start is taken back.
    if (ran === "open") {
      const { crashes, history } = before;
      const notStarted = { ...head, attempts: attempt - 1, crashes, history };
      return parkHead(this.#context, this.#subscription.name, notStarted, breakers.waitMs, "its circuit breaker is open");
    }
    if (ran !== undefined) {
      ended("handled");
      const done = { ...head, attempts: attempt };
      return ran.result ? finished(done, text, "handled") : this.#unwanted(done, text);
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

  /** G6: its handler has not run, so it must not be archived as handled if this process does not get as far as that. */
  async #unwanted(queued: QueuedEvent, text: string): Promise<HeadStep> {
    const { saved, queued: next } = await this.#save(queued, { ending: "unwanted", crashes: 0 });
    return saved ? finished(next, text, "unwanted") : { kind: "again", queued: { ...next, suspect: true } };
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
      this.#starts.endedIfLost(next);
      lease.assertHeld();
    }
    // W4: the blob is older than the start to come, so that is counted like a suspect's. What this round saw begin would else be known to it alone.
    return { kind: "again", queued: { ...next, suspect: true, ...(queued.text === undefined ? {} : { text: queued.text }) } };
  }

  #save(queued: QueuedEvent, change: Parameters<typeof saveState>[3]): ReturnType<typeof saveState> {
    return saveState(this.#context, this.#subscription.name, queued, change);
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

function killerReason({ crashes }: QueuedEvent): string {
  return `the worker stopped ${crashes} times while it was handled`;
}

function paused(queued: QueuedEvent, { actor, reason }: Pause): HeadEnd {
  return stands(queued, undefined, `paused by ${actor}: ${reason}`);
}

function policyOf({ retry, retryByType }: Subscription, type: string | undefined): RetryPolicy {
  return type !== undefined && Object.hasOwn(retryByType, type) ? retryByType[type]! : retry;
}
