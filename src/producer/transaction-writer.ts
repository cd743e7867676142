/** Writes the transaction of a commit, and knows whether it happened (C2, C3). */
import { encodeCommitReferences, findToken, type CommitReference } from "../core/commit-tokens.ts";
import { isOutboxError, OutboxError, printable } from "../core/errors.ts";
import { encodeOrderId, type OrderId } from "../core/order-id.ts";
import type { OrderEntity, OrderTransaction } from "../core/ports.ts";
import type { AnyWorkflow } from "../core/workflow.ts";
import { callOptions, type CommitContext, type ResolvedCommitOptions } from "./commit-context.ts";
import { traceEvent } from "./trace-event.ts";
import type { WakeUpInsurance } from "./wake-up-insurance.ts";

/** How often a transaction without an answer is sent before the outcome is called unknown (C3). */
const MAX_UNANSWERED = 3;

type Context = Pick<CommitContext<AnyWorkflow>, "storage" | "clock" | "random">;

export class TransactionWriter {
  readonly #context: Context;
  readonly #orderId: OrderId;
  readonly #insurance: WakeUpInsurance;
  readonly #options: Pick<ResolvedCommitOptions, "repeats" | "signal">;

  constructor(context: Context, orderId: OrderId, insurance: WakeUpInsurance, options: Pick<ResolvedCommitOptions, "repeats" | "signal">) {
    this.#context = context;
    this.#orderId = orderId;
    this.#insurance = insurance;
    this.#options = options;
  }

  /** Sends the transaction until it is known whether it happened. The same transaction can be sent again: its etag lets it happen once. */
  async write(transaction: OrderTransaction, reference: CommitReference): Promise<"written" | "conflict"> {
    for (let unanswered = 1; ; unanswered++) {
      if (transaction.outbox.length > 0) await this.#insurance.refresh();
      if (unanswered === 1) this.#assertNotAborted();
      let failure: OutboxError;
      try {
        await this.#context.storage.orders.commit(transaction, callOptions(this.#options));
        return "written";
      } catch (error) {
        // A refusal says nothing about the transactions sent before it.
        if (!isOutboxError(error) || isRefusal(error)) throw unanswered === 1 ? error : this.outcomeUnknown(reference, error);
        failure = error;
      }
      let mine: "mine" | "not-mine" | "unknown";
      try {
        // Without the caller's signal: an abort must not turn a committed change into an unknown one.
        const entity = await this.#context.storage.orders.readOrder(transaction.order);
        mine = entity === undefined ? "not-mine" : await this.wasItMine(entity, reference);
      } catch (cause) {
        throw this.outcomeUnknown(
          reference,
          new AggregateError([failure, cause], "neither the transaction nor the question whether it happened was answered"),
        );
      }
      if (mine === "mine") return "written";
      if (mine === "unknown") throw this.outcomeUnknown(reference, failure);
      if (failure.code === "already-exists" || failure.code === "precondition-failed") {
        this.#assertOrderConflict(failure, transaction);
        return "conflict";
      }
      if (failure.code === "aborted" || unanswered === MAX_UNANSWERED) throw this.outcomeUnknown(reference, failure);
      await this.#context.clock.sleep(this.#context.random() * 100 * 2 ** unanswered, this.#options.signal).catch((cause: unknown) => {
        throw this.outcomeUnknown(reference, cause);
      });
    }
  }

  get #name(): string {
    return printable(this.#orderId);
  }

  #assertNotAborted(): void {
    const { signal } = this.#options;
    if (signal?.aborted === true) throw new OutboxError("aborted", `commit to order ${this.#name}`, { cause: signal.reason });
  }

  /** Another writer of the order is a reason to decide again; a row of the application's own that was in the way is the caller's matter. */
  #assertOrderConflict(failure: OutboxError, transaction: OrderTransaction): void {
    const rows = transaction.outbox.length + (transaction.idempotency === undefined ? 1 : 2);
    const row = transaction.entities[(failure.details.operationIndex ?? 0) - rows];
    if (row === undefined) return;
    throw new OutboxError(
      failure.code,
      `row ${printable(row.rowKey)} of order ${this.#name} ${failure.code === "already-exists" ? "exists already" : "is not as it was read"}, nothing was written`,
      { cause: failure },
    );
  }

  /** C2: the tokens of the order entity answer; beyond them, the trace that the events left. */
  async wasItMine(entity: OrderEntity, { base, token, events }: CommitReference): Promise<"mine" | "not-mine" | "unknown"> {
    const answer = findToken(base, entity.commitTokens, token);
    const first = events[0];
    if (answer !== "unknown" || first === undefined) return answer;
    return (await traceEvent(this.#context.storage, encodeOrderId(this.#orderId), first.id)) ? "mine" : "unknown";
  }

  /** @param attempt the one that this call made, if it got that far */
  outcomeUnknown(attempt?: CommitReference, cause?: unknown): OutboxError {
    const attempts = attempt === undefined ? this.#options.repeats : [...this.#options.repeats, attempt];
    return new OutboxError(
      "outcome-unknown",
      `the commit to order ${this.#name} may or may not have happened. Repeat it with this error's details.commitToken, or with the same idempotencyKey.`,
      { cause, details: { commitToken: encodeCommitReferences(attempts) } },
    );
  }
}

/** The one request was answered, and the answer is no: nothing was written by it. Anything else is a reason to ask. */
function isRefusal({ code, details: { status } }: OutboxError): boolean {
  if (code === "storage") return status !== undefined && status >= 400 && status < 500;
  return code === "forbidden" || code === "invalid-state" || code === "too-large" || code === "not-found" || code === "bug";
}
