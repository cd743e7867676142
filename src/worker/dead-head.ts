/**
 * A head that is dead: how it becomes so, its entry in the index of dead letters, and what operators decide about it.
 *
 * F3  A dead letter keeps its place and blocks its stream, or is skipped: what the policy says.
 * F4  Operators record decisions on the event blob; they are carried out here, under the lease.
 */
import { encodeDeadLetter } from "../core/dead-letter.ts";
import { isOutboxError } from "../core/errors.ts";
import { eventBlobName } from "../core/names.ts";
import { appendFailure, type Decision } from "../core/pending-event.ts";
import type { RetryPolicy } from "../core/retry.ts";
import type { QueuedEvent } from "../core/stream.ts";
import type { Subscription } from "../core/workflow.ts";
import { workerMetrics } from "../system/metrics.ts";
import { archiveDiscard } from "./archive-blob.ts";
import { finished, stands, type HeadStep } from "./head-end.ts";
import { readEvent } from "./open-event.ts";
import type { HeadContext } from "./round-options.ts";
import { saveState } from "./save-state.ts";

export class DeadHead {
  readonly #context: HeadContext;
  readonly #subscription: Subscription;

  constructor(context: HeadContext, subscription: Subscription) {
    this.#context = context;
    this.#subscription = subscription;
  }

  /** No further attempt: it blocks its stream, or is passed over. */
  async die(queued: QueuedEvent, reason: string, type: string | undefined, policy: RetryPolicy): Promise<HeadStep> {
    if (policy.onDead === "skip") {
      // Conditional, so that an operator's decision that came meanwhile stands (F4).
      const { saved, queued: next } = await saveState(this.#context, this.#subscription.name, queued, {
        attempts: queued.attempts,
        history: queued.history,
        lastError: reason,
        // Its last start has ended: should the process die now, nobody may take it for one that was running.
        status: "parked",
        nextAttemptMs: this.#context.clock.now(),
        skipped: true,
      });
      if (!saved) return { kind: "again", queued: next };
      return this.skip(next, reason, type);
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
    this.#died(reason, queued, "its stream waits for a human");
    return stands(next, undefined, `dead: ${reason}`);
  }

  /**
   * Its stream goes on without it. It is on record on its blob before, so whoever dies here, or writes late, leaves nothing else to choose: the
   * entry in the index is of an event that never runs again, and what is archived says so even if the entry is gone by then (G6).
   */
  async skip(queued: QueuedEvent, reason: string, type: string | undefined): Promise<HeadStep> {
    await this.#index(queued, reason, type, "skip");
    this.#died(reason, queued, "its stream goes on");
    return finished(queued, queued.text, "dead-lettered", false);
  }

  /** Whoever skipped it has come to its end, or to that of storage, before the progress passed it. */
  async skipAgain(queued: QueuedEvent): Promise<HeadStep> {
    return this.skip(queued, queued.lastError ?? "unknown", await this.#typeOf(queued));
  }

  /** It waits for a human. Whoever blocked it may have come to its end, or to that of storage, before the entry in the index. */
  async stand(queued: QueuedEvent): Promise<HeadStep> {
    if ((await this.#context.storage.blobs.read("dead", this.#name(queued))) === undefined) {
      await this.#index(queued, queued.lastError ?? "unknown", await this.#typeOf(queued), "block");
    }
    return stands(queued, undefined, `blocked by a dead letter: ${queued.lastError ?? "unknown"}`);
  }

  /** F4 */
  async carryOut(queued: QueuedEvent, decision: Decision): Promise<HeadStep> {
    if (decision.action === "discard") {
      const archived = await archiveDiscard(this.#context, this.#subscription.name, queued, decision);
      return finished(queued, queued.text, "discarded", queued.status === "blocked", { decision, archived });
    }
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
    // Its start is counted (W4), but it is no suspect of a crash that happened before the decision.
    const { mayHaveRun: _before, ...fresh } = next;
    return { kind: "again", queued: { ...fresh, suspect: true } };
  }

  /** A process that died in between may have left the entry already. */
  async #index(queued: QueuedEvent, reason: string, type: string | undefined, policy: RetryPolicy["onDead"]): Promise<void> {
    const { storage, clock, orderId, lease } = this.#context;
    const { name: subscription } = this.#subscription;
    const { id, sequence, attempts, history } = queued;
    const letter = {
      orderId,
      subscription,
      id,
      sequence,
      type,
      reason,
      attempts,
      policy,
      diedAt: new Date(clock.now()).toISOString(),
      history,
    };
    const { bytes, metadata } = encodeDeadLetter(letter);
    lease.assertHeld();
    try {
      await storage.blobs.create("dead", this.#name(queued), bytes, metadata);
    } catch (error) {
      if (!isOutboxError(error, "already-exists")) throw error;
    }
  }

  #died(reason: string, { sequence }: QueuedEvent, what: string): void {
    const { logger, orderId } = this.#context;
    workerMetrics.eventDied({ subscription: this.#subscription.name });
    logger.error(`an event became a dead letter, ${what}`, { orderId, subscription: this.#subscription.name, sequence, reason });
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

  #name({ id }: QueuedEvent): string {
    return eventBlobName(this.#subscription.name, this.#context.order, id);
  }
}
