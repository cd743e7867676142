/**
 * A head that is dead: how it becomes so, and how it is redriven.
 *
 * F3  A dead letter keeps its place and blocks its stream, or is skipped: what the policy says.
 * F4  Operators record decisions on the event blob; a redrive is carried out here, under the lease. For discards see settled-head.ts.
 */
import { eventBlobName } from "../core/names.ts";
import { appendFailure, type Decision } from "../core/pending-event.ts";
import type { RetryPolicy } from "../core/retry.ts";
import type { QueuedEvent } from "../core/stream.ts";
import type { Subscription } from "../core/workflow.ts";
import { workerMetrics } from "../system/metrics.ts";
import { enterDead, leaveDead, typeOf } from "./dead-index.ts";
import { finished, stands, type HeadStep } from "./head-end.ts";
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
        // On record before anything else: whoever dies here, or writes late, leaves nothing else to choose. The entry in the index is of an event that
        // never runs again, and what is archived says so even if the entry is gone by then (G6).
        ending: "dead-lettered",
      });
      if (!saved) return { kind: "again", queued: next };
      await enterDead(this.#context, this.#subscription.name, next, { reason, type, policy: "skip" });
      this.#died(reason, queued, "its stream goes on");
      return finished(queued, queued.text, "dead-lettered");
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
    await enterDead(this.#context, this.#subscription.name, next, { reason, type, policy: "block" });
    this.#died(reason, queued, "its stream waits for a human");
    return stands(next, undefined, `dead: ${reason}`);
  }

  /** It waits for a human. Whoever blocked it may have come to its end, or to that of storage, before the entry in the index. */
  async stand(queued: QueuedEvent): Promise<HeadStep> {
    if ((await this.#context.storage.blobs.read("dead", this.#name(queued))) === undefined) {
      const { name } = this.#subscription;
      const type = await typeOf(this.#context, name, queued);
      await enterDead(this.#context, name, queued, { reason: queued.lastError ?? "unknown", type, policy: "block" });
    }
    return stands(queued, undefined, `blocked by a dead letter: ${queued.lastError ?? "unknown"}`);
  }

  /** F4 */
  async redrive(queued: QueuedEvent, decision: Decision): Promise<HeadStep> {
    const history = appendFailure(queued.history, {
      at: decision.at,
      starts: 0,
      error: `redriven by ${decision.actor}: ${decision.reason}`,
    });
    const { decision: _carriedOut, ...without } = queued;
    // The index first: after a crash the decision is still there and is carried out again, while an entry of a live event would stay.
    await leaveDead(this.#context, this.#subscription.name, queued);
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

  #died(reason: string, { sequence }: QueuedEvent, what: string): void {
    const { logger, orderId } = this.#context;
    workerMetrics.eventDied({ subscription: this.#subscription.name });
    logger.error(`an event became a dead letter, ${what}`, { orderId, subscription: this.#subscription.name, sequence, reason });
  }

  #name({ id }: QueuedEvent): string {
    return eventBlobName(this.#subscription.name, this.#context.order, id);
  }
}
