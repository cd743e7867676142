/** One call of `commit` (design §4, C1–C7): load, decide, write, and know whether it happened. */
import type { Clock } from "../core/clock.ts";
import { appendToken, encodeCommitReferences, findToken, lastNumber, type CommitReference } from "../core/commit-tokens.ts";
import { describeError, isOutboxError, OutboxError, printable } from "../core/errors.ts";
import { parseStoredJson, serializeJson } from "../core/json.ts";
import { MAX_ENTITY_BYTES, MAX_TRANSACTION_OPERATIONS } from "../core/limits.ts";
import type { Logger } from "../core/logger.ts";
import { isReservedRow } from "../core/names.ts";
import { encodeOrderId, type OrderId, type OrderKey } from "../core/order-id.ts";
import type { ApplicationEntity, OrderEntity, OrderTransaction, Storage } from "../core/ports.ts";
import { validate } from "../core/schema.ts";
import type { AnyWorkflow } from "../core/workflow.ts";
import type { CommitResult, Decide } from "./order-change.ts";
import { readOrderState } from "./order-state.ts";
import { prepareEvents, type PreparedEvents } from "./prepare-events.ts";
import { traceEvent } from "./trace-event.ts";
import type { WakeUpInsurance } from "./wake-up-insurance.ts";

/** How often a transaction without an answer is sent before the outcome is called unknown (C3). */
const MAX_UNANSWERED = 3;

export interface ResolvedCommitOptions {
  readonly token: string;
  /** The attempts that this call repeats, because their outcome was unknown. Each of them may still land. */
  readonly repeats: readonly CommitReference[];
  readonly idempotencyRow: string | undefined;
  readonly expectedSequence: number | undefined;
  readonly traceparent: string | undefined;
  readonly signal: AbortSignal | undefined;
}

export interface CommitContext<W extends AnyWorkflow> {
  readonly workflow: W;
  readonly storage: Storage;
  readonly clock: Clock;
  readonly random: () => number;
  readonly logger: Logger;
  readonly maxConflicts: number;
}

interface Loaded {
  readonly entity: OrderEntity | undefined;
  /** The result of an earlier commit with the same idempotency key. */
  readonly stored: string | undefined;
}

export class Commit<W extends AnyWorkflow> {
  private readonly context: CommitContext<W>;
  private readonly orderId: OrderId;
  private readonly order: OrderKey;
  private readonly decide: Decide<W>;
  private readonly options: ResolvedCommitOptions;
  private readonly insurance: WakeUpInsurance;
  private readonly call: { readonly signal?: AbortSignal };

  constructor(context: CommitContext<W>, orderId: OrderId, decide: Decide<W>, resolved: ResolvedCommitOptions, insurance: WakeUpInsurance) {
    this.context = context;
    this.orderId = orderId;
    this.order = encodeOrderId(orderId);
    this.decide = decide;
    this.options = resolved;
    this.insurance = insurance;
    this.call = resolved.signal === undefined ? {} : { signal: resolved.signal };
  }

  async run(): Promise<CommitResult> {
    // §4.1: read and send in parallel. The send never fails the commit (C4).
    const sending = this.insurance.send(this.options.signal);
    let current: Loaded;
    try {
      current = await this.load();
    } finally {
      await sending;
    }
    for (let conflicts = 0; ; conflicts++) {
      const answered = await this.alreadyDone(current);
      if (answered !== undefined) return answered;
      if (conflicts > this.context.maxConflicts) {
        throw new OutboxError(
          "conflict",
          `order ${this.name}: other writers won ${conflicts} times, nothing was written. Repeat the commit.`,
        );
      }
      const outcome = await this.decideAndWrite(current.entity);
      if (outcome !== "conflict") return outcome;
      await this.context.clock
        .sleep(this.context.random() * Math.min(1_000, 10 * 2 ** conflicts), this.options.signal)
        .catch((cause: unknown) => {
          throw new OutboxError("aborted", `commit to order ${this.name}`, { cause });
        });
      current = await this.load();
    }
  }

  private get name(): string {
    return printable(this.orderId);
  }

  private async load(): Promise<Loaded> {
    const row = this.options.idempotencyRow;
    const [entity, stored] = await Promise.all([
      this.context.storage.orders.readOrder(this.order, this.call),
      row === undefined ? undefined : this.context.storage.orders.readIdempotency(this.order, row, this.call),
    ]);
    return { entity, stored };
  }

  private async alreadyDone({ entity, stored }: Loaded): Promise<CommitResult | undefined> {
    if (stored !== undefined) {
      const result = parseStoredJson(stored, `the stored result of a commit to order ${this.name}`) as Omit<CommitResult, "repeated">;
      return { ...result, repeated: true };
    }
    if (entity === undefined) return undefined;
    let unknown = false;
    for (const attempt of this.options.repeats) {
      const mine = await this.wasItMine(entity, attempt);
      if (mine === "mine") return { sequence: attempt.events.at(-1)?.sequence ?? entity.sequence, events: attempt.events, repeated: true };
      unknown ||= mine === "unknown";
    }
    if (unknown) throw this.outcomeUnknown();
    return undefined;
  }

  private async decideAndWrite(entity: OrderEntity | undefined): Promise<CommitResult | "conflict"> {
    const { expectedSequence, token } = this.options;
    const order = await readOrderState(this.context.workflow, this.orderId, entity);
    if (expectedSequence !== undefined && order.sequence !== expectedSequence) {
      throw new OutboxError(
        "sequence-mismatch",
        `order ${this.name} is at sequence ${order.sequence}, expected ${expectedSequence}. Read it again and decide anew.`,
      );
    }
    const change = await this.decide(order.state, order);
    if (change === undefined) return { sequence: order.sequence, events: [], repeated: false };
    const state = change.state === null ? undefined : await this.serializeState(change.state);
    const prepared = await prepareEvents(this.context.workflow, change.events, {
      orderId: this.orderId,
      order: this.order,
      sequence: order.sequence,
      lastEventId: entity?.lastEventId,
      nowMs: this.context.clock.now(),
      random: this.context.random,
      traceparent: this.options.traceparent,
    });
    const result = { sequence: order.sequence + prepared.references.length, events: prepared.references };
    const transaction: OrderTransaction = {
      order: this.order,
      etag: entity?.etag,
      entity: {
        sequence: result.sequence,
        lastEventId: prepared.references.at(-1)?.id ?? entity?.lastEventId,
        state,
        commitTokens: appendToken(entity?.commitTokens ?? [], token),
      },
      outbox: prepared.entities,
      ...(this.options.idempotencyRow === undefined
        ? {}
        : { idempotency: { rowKey: this.options.idempotencyRow, result: JSON.stringify(result) } }),
      entities: this.checkEntities(change.entities ?? [], prepared.entities.length),
    };
    const reference: CommitReference = { token, base: lastNumber(entity?.commitTokens ?? []), events: prepared.references };
    let outcome: "written" | "conflict" | undefined;
    this.context.storage.orders.check(transaction);
    try {
      await this.storePayloads(prepared);
      outcome = await this.write(transaction, reference);
    } catch (error) {
      // The transaction may still land, and needs its payloads then.
      if (isOutboxError(error, "outcome-unknown")) outcome = "written";
      throw error;
    } finally {
      if (outcome !== "written") await this.dropPayloads(prepared);
    }
    if (outcome === "conflict") return "conflict";
    if (prepared.references.length > 0) await this.insurance.fire();
    return { ...result, repeated: false };
  }

  private async serializeState(state: unknown): Promise<string> {
    await validate(this.context.workflow.state, state, `the next state of order ${this.name}`, "invalid-state");
    const text = serializeJson(state, `state of order ${this.name}`, "invalid-state");
    if (text.length * 2 > MAX_ENTITY_BYTES) {
      throw new OutboxError(
        "too-large",
        `the state of order ${this.name} has ${text.length} UTF-16 units as JSON, at most ${MAX_ENTITY_BYTES / 2} fit an entity. Keep documents in blobs of their own.`,
      );
    }
    return text;
  }

  private checkEntities(entities: readonly ApplicationEntity[], events: number): readonly ApplicationEntity[] {
    for (const { rowKey } of entities) {
      if (isReservedRow(rowKey))
        throw new OutboxError(
          "invalid-option",
          `row ${printable(rowKey)} of order ${this.name}: rows from "order" to "outbox;" and "idempotency:" belong to the outbox`,
        );
    }
    const operations = 1 + events + entities.length + (this.options.idempotencyRow === undefined ? 0 : 1);
    if (operations > MAX_TRANSACTION_OPERATIONS) {
      // C5: never split into two.
      throw new OutboxError(
        "too-large",
        `the commit to order ${this.name} has ${operations} rows (order, events, own rows), at most ${MAX_TRANSACTION_OPERATIONS} fit one transaction`,
      );
    }
    return entities;
  }

  /** Sends the transaction until it is known whether it happened (C2, C3). The same transaction can be sent again: its etag lets it happen once. */
  private async write(transaction: OrderTransaction, reference: CommitReference): Promise<"written" | "conflict"> {
    for (let unanswered = 1; ; unanswered++) {
      if (transaction.outbox.length > 0) await this.insurance.refresh();
      if (unanswered === 1) this.assertNotAborted();
      let failure: OutboxError;
      try {
        await this.context.storage.orders.commit(transaction, this.call);
        return "written";
      } catch (error) {
        // A refusal says nothing about the transactions sent before it.
        if (!isOutboxError(error) || isRefusal(error)) throw unanswered === 1 ? error : this.outcomeUnknown(reference, error);
        failure = error;
      }
      let mine: "mine" | "not-mine" | "unknown";
      try {
        // Without the caller's signal: an abort must not turn a committed change into an unknown one.
        const entity = await this.context.storage.orders.readOrder(transaction.order);
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
        this.assertOrderConflict(failure, transaction);
        return "conflict";
      }
      if (failure.code === "aborted" || unanswered === MAX_UNANSWERED) throw this.outcomeUnknown(reference, failure);
      await this.context.clock.sleep(this.context.random() * 100 * 2 ** unanswered, this.options.signal).catch((cause: unknown) => {
        throw this.outcomeUnknown(reference, cause);
      });
    }
  }

  private assertNotAborted(): void {
    const { signal } = this.options;
    if (signal?.aborted === true) throw new OutboxError("aborted", `commit to order ${this.name}`, { cause: signal.reason });
  }

  /** Another writer of the order is a reason to decide again; a row of the application's own that was in the way is the caller's matter. */
  private assertOrderConflict(failure: OutboxError, transaction: OrderTransaction): void {
    const rows = transaction.outbox.length + (transaction.idempotency === undefined ? 1 : 2);
    const row = transaction.entities[(failure.details.operationIndex ?? 0) - rows];
    if (row === undefined) return;
    throw new OutboxError(
      failure.code,
      `row ${printable(row.rowKey)} of order ${this.name} ${failure.code === "already-exists" ? "exists already" : "is not as it was read"}, nothing was written`,
      { cause: failure },
    );
  }

  /** C2: the tokens of the order entity answer; beyond them, the trace that the events left. */
  private async wasItMine(entity: OrderEntity, { base, token, events }: CommitReference): Promise<"mine" | "not-mine" | "unknown"> {
    const answer = findToken(base, entity.commitTokens, token);
    const first = events[0];
    if (answer !== "unknown" || first === undefined) return answer;
    return (await traceEvent(this.context.storage, this.order, first.id)) ? "mine" : "unknown";
  }

  /** @param attempt the one that this call made, if it got that far */
  private outcomeUnknown(attempt?: CommitReference, cause?: unknown): OutboxError {
    const attempts = attempt === undefined ? this.options.repeats : [...this.options.repeats, attempt];
    return new OutboxError(
      "outcome-unknown",
      `the commit to order ${this.name} may or may not have happened. Repeat it with this error's details.commitToken, or with the same idempotencyKey.`,
      { cause, details: { commitToken: encodeCommitReferences(attempts) } },
    );
  }

  /** Spilled payloads exist before the entity that names them (design §3). Their names are new, so "already there" is a lost answer. */
  private async storePayloads(prepared: PreparedEvents): Promise<void> {
    for (const { name, bytes } of prepared.payloads) {
      try {
        await this.context.storage.blobs.create("payloads", name, bytes, {}, this.call);
      } catch (error) {
        if (!isOutboxError(error, "already-exists")) throw error;
      }
    }
  }

  private async dropPayloads(prepared: PreparedEvents): Promise<void> {
    if (prepared.payloads.length === 0) return;
    try {
      await this.context.storage.blobs.delete(
        "payloads",
        prepared.payloads.map(({ name }) => name),
      );
    } catch (error) {
      this.context.logger.warn("a payload of a refused commit is left behind", { orderId: this.orderId, error: describeError(error) });
    }
  }
}

/** The one request was answered, and the answer is no: nothing was written by it. Anything else is a reason to ask. */
function isRefusal({ code, details: { status } }: OutboxError): boolean {
  if (code === "storage") return status !== undefined && status >= 400 && status < 500;
  return code === "forbidden" || code === "invalid-state" || code === "too-large" || code === "not-found" || code === "bug";
}
