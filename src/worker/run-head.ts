/**
 * The head of a stream, from its state to an end (design §6).
 *
 * F1  Short retries inside the round; F2 long ones across rounds: the wake-up is sent first, then the event is parked.
 * F3  A dead letter keeps its place and blocks its stream, or is skipped: what the policy says.
 * F4  Operators record decisions on the event blob; they are carried out here, under the lease.
 * F5  A paused stream starts nothing. F8 An open breaker parks without an attempt.
 * W4  A suspect's start is counted before it runs; a start that ended with the process is a failure like any other.
 */
import { isPaused } from "../core/controls.ts";
import { encodeDeadLetter } from "../core/dead-letter.ts";
import { describeError, describeStack, isOutboxError } from "../core/errors.ts";
import { eventBlobName } from "../core/names.ts";
import { appendFailure, isDue, type Decision } from "../core/pending-event.ts";
import { MAX_HIDDEN_MS } from "../core/ports.ts";
import { decideRetry, type RetryPolicy } from "../core/retry.ts";
import type { QueuedEvent } from "../core/stream.ts";
import type { AnyWorkflow, HandledEvent, Subscription } from "../core/workflow.ts";
import { encodeWakeUp } from "../core/wake-up.ts";
import { workerMetrics } from "../system/metrics.ts";
import type { FinishedEvent } from "./archiver.ts";
import { callHandler } from "./call-handler.ts";
import type { HeadContext } from "./head-context.ts";
import { openEvent, readEvent } from "./open-event.ts";
import { saveState } from "./save-state.ts";

export type HeadEnd =
  /** Done with, one way or the other: the stream goes on. */
  | { readonly kind: "finished"; readonly event: Omit<FinishedEvent, "subscription"> }
  /** Nothing of the stream may start in this round. Look again after `retryInMs`; undefined: somebody else sees to the wake-up. */
  | { readonly kind: "stands"; readonly queued: QueuedEvent; readonly retryInMs: number | undefined; readonly problem: string | undefined };

type Step = HeadEnd | { readonly kind: "again"; readonly queued: QueuedEvent };

/** @throws `lease-lost`, or what storage throws */
export async function runHead(context: HeadContext, subscription: Subscription, head: QueuedEvent): Promise<HeadEnd> {
  const run = new HeadRun(context, subscription);
  let step: Step = { kind: "again", queued: head };
  while (step.kind === "again") step = await run.step(step.queued);
  return step;
}

class HeadRun {
  readonly #context: HeadContext;
  readonly #subscription: Subscription;

  constructor(context: HeadContext, subscription: Subscription) {
    this.#context = context;
    this.#subscription = subscription;
  }

  async step(queued: QueuedEvent): Promise<Step> {
    if (!this.#context.mayStart()) return this.#stands(queued, 0);
    if (queued.decision !== undefined) return this.#carryOut(queued, queued.decision);
    if (queued.status === "blocked") return this.#blocked(queued);
    if (queued.status === "parked" && !isDue(queued, this.#context.clock.now())) return this.#parked(queued);
    const pause = isPaused(await this.#context.pauses(), this.#subscription.name, this.#context.orderId);
    if (pause !== undefined) return this.#stands(queued, undefined, `paused by ${pause.actor}: ${pause.reason}`);
    let type: string | undefined;
    let event: HandledEvent<AnyWorkflow>;
    try {
      const stored = await readEvent(this.#context, this.#subscription, queued);
      ({ type } = stored);
      event = await openEvent(this.#context.workflow, stored);
    } catch (error) {
      if (isOutboxError(error, "gap", "handler-missing")) return this.#stands(queued, this.#context.recheckDelayMs, describeError(error));
      if (!isOutboxError(error, "corrupt", "invalid-event")) throw error;
      return this.#die(queued, describeError(error), type, this.#policy(type));
    }
    // C06: counted and started only when its turn has come, or it would pay for another suspect's crash.
    if (queued.mayHaveRun === true && queued.suspect) return this.#context.quarantine.run(() => this.#start(queued, event));
    return this.#start(queued, event);
  }

  async #start(queued: QueuedEvent, event: HandledEvent<AnyWorkflow>): Promise<Step> {
    const policy = this.#policy(event.type);
    let head = queued;
    if (queued.suspect) {
      const counted = await this.#countSuspect(queued, policy, event.type);
      if (counted.kind !== "again") return counted;
      head = counted.queued;
      // Changed by an operator meanwhile: theirs stands.
      if (head.suspect) return counted;
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
    // F8: not started after all, so a suspect's start is taken back.
    if (ran === "open") {
      return this.#park({ ...head, attempts: attempt - 1, crashes: 0 }, breakers.waitMs, "its circuit breaker is open");
    }
    if (ran !== undefined) {
      ended("handled");
      return finished({ ...head, attempts: attempt }, text, ran.result ? "handled" : "unwanted", this.#mayBeIndexed(queued));
    }
    this.#context.lease.assertHeld();
    if (this.#context.stop.aborted) return this.#stands(head, 0, `stopped while it ran: ${describeError(failure)}`);
    ended("failed");
    this.#log(head, attempt, failure);
    return this.#failed({ ...head, attempts: attempt }, failure, event, policy);
  }

  /** W4. The holder before may have died in this very handler: then that start is a failure, and too many of them are the end. */
  async #countSuspect(queued: QueuedEvent, policy: RetryPolicy, type: string): Promise<Step> {
    const mayHaveRun = queued.mayHaveRun === true && queued.status === "pending";
    // A suspect's start was counted before it happened, any other was not.
    const uncounted = mayHaveRun && queued.crashes === 0 ? 1 : 0;
    const crashes = mayHaveRun ? queued.crashes + uncounted : 0;
    const attempts = queued.attempts + uncounted;
    const history =
      crashes > 0
        ? appendFailure(queued.history, { at: this.#now(), starts: 1, error: "the worker stopped while it was handled" })
        : queued.history;
    // A start that was not written down is a guess: the lease may have run out for other reasons. Nothing dies of a guess.
    if (crashes >= policy.maxCrashes && uncounted === 0) {
      return this.#die({ ...queued, attempts, crashes, history }, `the worker stopped ${crashes} times while it was handled`, type, policy);
    }
    if (this.#mayBeIndexed(queued)) {
      // A process that died while it skipped the event may have left an entry in the index. It runs again, so it is not dead.
      this.#context.lease.assertHeld();
      await this.#context.storage.blobs.delete("dead", [this.#name(queued)]);
    }
    const { saved, queued: next } = await saveState(this.#context, this.#subscription.name, queued, {
      attempts: attempts + 1,
      crashes: crashes + 1,
      history,
      status: "pending",
      nextAttemptMs: 0,
      waitMs: 0,
    });
    return { kind: "again", queued: saved ? { ...next, suspect: false } : next };
  }

  async #failed(queued: QueuedEvent, error: unknown, event: HandledEvent<AnyWorkflow>, policy: RetryPolicy): Promise<Step> {
    const { clock, random, lease, stop } = this.#context;
    const lastError = describeError(error);
    const history = appendFailure(queued.history, { at: this.#now(), starts: 1, error: lastError });
    const failed = { ...queued, lastError, history, crashes: 0 };
    const decision = decideRetry(policy, queued.attempts, error, random());
    if (decision.kind === "dead") return this.#die(failed, decision.reason, event.type, policy);
    if (decision.kind === "park") return this.#park(failed, decision.delayMs, `failed: ${lastError}`);
    const { saved, queued: next } = await saveState(this.#context, this.#subscription.name, queued, {
      attempts: failed.attempts,
      lastError,
      history,
      crashes: 0,
      status: "pending",
      nextAttemptMs: 0,
      waitMs: 0,
    });
    if (saved) {
      await clock.sleep(decision.delayMs, AbortSignal.any([lease.lost, stop])).catch(() => undefined);
      lease.assertHeld();
    }
    return { kind: "again", queued: { ...next, suspect: false, ...(queued.text === undefined ? {} : { text: queued.text }) } };
  }

  /** F2: the wake-up first. If it can't be sent, the round's own one is kept instead. */
  async #park(queued: QueuedEvent, delayMs: number, problem: string): Promise<Step> {
    const sent = await this.#wake(Math.min(delayMs, MAX_HIDDEN_MS));
    const { saved, queued: next } = await saveState(this.#context, this.#subscription.name, queued, {
      status: "parked",
      nextAttemptMs: this.#context.clock.now() + delayMs,
      waitMs: delayMs,
    });
    if (!saved) return { kind: "again", queued: next };
    return this.#stands(next, sent ? undefined : delayMs, problem);
  }

  /** Its own wake-up is on the way, but may have come while the lease was taken (W8), or not reach as far (C30). */
  async #parked(queued: QueuedEvent): Promise<Step> {
    const { clock } = this.#context;
    const leftMs = queued.nextAttemptMs - clock.now();
    if (queued.waitMs > MAX_HIDDEN_MS && !(await this.#wake(Math.min(leftMs, MAX_HIDDEN_MS)))) {
      return this.#stands(queued, Math.min(leftMs, MAX_HIDDEN_MS));
    }
    // Its wake-up may just have come, to a host whose clock is behind the one that parked it.
    return this.#stands(queued, leftMs <= SOON_MS ? leftMs : undefined);
  }

  /** It waits for a human. Whoever blocked it may have come to its end, or to that of storage, before the entry in the index. */
  async #blocked(queued: QueuedEvent): Promise<Step> {
    if ((await this.#context.storage.blobs.read("dead", this.#name(queued))) === undefined) {
      await this.#index(queued, queued.lastError ?? "unknown", await this.#typeOf(queued), "block");
    }
    return this.#stands(queued, undefined, `blocked by a dead letter: ${queued.lastError ?? "unknown"}`);
  }

  async #die(queued: QueuedEvent, reason: string, type: string | undefined, policy: RetryPolicy): Promise<Step> {
    const { logger, orderId } = this.#context;
    if (policy.onDead === "skip") {
      // Conditional, so that an operator's decision that came meanwhile stands (F4).
      const { saved, queued: next } = await saveState(this.#context, this.#subscription.name, queued, {
        attempts: queued.attempts,
        history: queued.history,
        lastError: reason,
        // Its last start has ended: should the process die now, nobody may take it for one that was running.
        status: "parked",
        nextAttemptMs: this.#context.clock.now(),
      });
      if (!saved) return { kind: "again", queued: next };
      await this.#index(queued, reason, type, "skip");
      this.#died(reason, queued);
      return finished(queued, queued.text, "dead-lettered", false);
    }
    const { saved, queued: next } = await saveState(this.#context, this.#subscription.name, queued, {
      attempts: queued.attempts,
      crashes: queued.crashes,
      history: queued.history,
      lastError: reason,
      status: "blocked",
      nextAttemptMs: 0,
      waitMs: 0,
    });
    if (!saved) return { kind: "again", queued: next };
    await this.#index(next, reason, type, "block");
    this.#died(reason, queued);
    logger.error("an event is dead, its stream waits for a human", {
      orderId,
      subscription: this.#subscription.name,
      sequence: queued.sequence,
    });
    return this.#stands(next, undefined, `dead: ${reason}`);
  }

  #died(reason: string, { sequence }: QueuedEvent): void {
    const { logger, orderId } = this.#context;
    workerMetrics.eventDied({ subscription: this.#subscription.name });
    logger.error("an event became a dead letter", { orderId, subscription: this.#subscription.name, sequence, reason });
  }

  async #carryOut(queued: QueuedEvent, decision: Decision): Promise<Step> {
    if (decision.action === "discard") return finished(queued, queued.text, "discarded", this.#mayBeIndexed(queued), decision);
    const history = appendFailure(queued.history, {
      at: decision.at,
      starts: 0,
      error: `redriven by ${decision.actor}: ${decision.reason}`,
    });
    const { decision: _carriedOut, ...without } = queued;
    // The index first: after a crash the decision is still there and is carried out again, while an entry of a live event would stay.
    this.#context.lease.assertHeld();
    await this.#context.storage.blobs.delete("dead", [this.#name(queued)]);
    const { saved, queued: next } = await saveState(this.#context, this.#subscription.name, without, {
      attempts: 0,
      crashes: 0,
      status: "pending",
      nextAttemptMs: 0,
      waitMs: 0,
      history,
    });
    if (!saved) return { kind: "again", queued: next };
    // Its starts are counted from here on: it is no suspect of a crash that happened before the decision.
    return { kind: "again", queued: { ...next, suspect: false } };
  }

  async #index(queued: QueuedEvent, reason: string, type: string | undefined, policy: RetryPolicy["onDead"]): Promise<void> {
    const { storage, orderId, lease } = this.#context;
    const { name: subscription } = this.#subscription;
    const { id, sequence, attempts, history } = queued;
    const letter = { orderId, subscription, id, sequence, type, reason, attempts, policy, diedAt: this.#now(), history };
    const { bytes, metadata } = encodeDeadLetter(letter);
    lease.assertHeld();
    try {
      await storage.blobs.create("dead", this.#name(queued), bytes, metadata);
    } catch (error) {
      if (!isOutboxError(error, "already-exists")) throw error;
    }
  }

  /** False if the wake-up can't be sent. */
  async #wake(hiddenMs: number): Promise<boolean> {
    const { storage, orderId, logger } = this.#context;
    try {
      await storage.wakeUps.send(encodeWakeUp(orderId), hiddenMs);
      return true;
    } catch (error) {
      logger.warn("the wake-up of a parked event could not be sent", { orderId, error: describeError(error) });
      return false;
    }
  }

  /** Undefined if the event can't be read. */
  async #typeOf(queued: QueuedEvent): Promise<string | undefined> {
    try {
      return (await readEvent(this.#context, this.#subscription, queued)).type;
    } catch (error) {
      if (!isOutboxError(error, "corrupt", "gap")) throw error;
      return undefined;
    }
  }

  #policy(type: string | undefined): RetryPolicy {
    const { retry, retryByType } = this.#subscription;
    return type !== undefined && Object.hasOwn(retryByType, type) ? retryByType[type]! : retry;
  }

  #name({ id }: QueuedEvent): string {
    return eventBlobName(this.#subscription.name, this.#context.order, id);
  }

  /** A process that died while it skipped the event may have left an entry in the index, and then the event goes another way. */
  #mayBeIndexed({ status, suspect }: QueuedEvent): boolean {
    const { retry, retryByType } = this.#subscription;
    return status === "blocked" || (suspect && [retry, ...Object.values(retryByType)].some(({ onDead }) => onDead === "skip"));
  }

  #stands(queued: QueuedEvent, retryInMs: number | undefined, problem?: string): HeadEnd {
    return { kind: "stands", queued, retryInMs, problem };
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

/** A parked event that is due within this time keeps the round's own wake-up (W8); more than clocks may differ. */
const SOON_MS = 600_000;

function finished(
  { id, sequence, previous, attempts }: QueuedEvent,
  text: string | undefined,
  outcome: FinishedEvent["outcome"],
  dropsDeadLetter: boolean,
  decision?: Decision,
): HeadEnd {
  return {
    kind: "finished",
    event: { id, sequence, previous, attempts, text, outcome, dropsDeadLetter, ...(decision === undefined ? {} : { decision }) },
  };
}
