/**
 * One call of `commit` (design §4): load, decide, write, and know whether it happened. For C1 see prepare-events.ts, for C2 and C3
 * transaction-writer.ts, for C4 wake-up-insurance.ts, for C5 check-change.ts, for C6 core/json.ts, for C7 order-change.ts.
 */
import { appendToken, lastNumber, type CommitReference } from "../core/commit-tokens.ts";
import { isOutboxError, OutboxError, printable } from "../core/errors.ts";
import { parseStoredJson } from "../core/json.ts";
import { encodeOrderId, type OrderId, type OrderKey } from "../core/order-id.ts";
import type { OrderEntity, OrderTransaction } from "../core/ports.ts";
import type { AnyWorkflow } from "../core/workflow.ts";
import { checkRows, serializeState } from "./check-change.ts";
import { callOptions, type CommitContext, type ResolvedCommitOptions } from "./commit-context.ts";
import type { CommitResult, Decide } from "./order-change.ts";
import { readOrderState } from "./order-state.ts";
import { dropPayloads, storePayloads } from "./payload-blobs.ts";
import { prepareEvents } from "./prepare-events.ts";
import { TransactionWriter } from "./transaction-writer.ts";
import type { WakeUpInsurance } from "./wake-up-insurance.ts";

interface Loaded {
  readonly entity: OrderEntity | undefined;
  /** The result of an earlier commit with the same idempotency key. */
  readonly stored: string | undefined;
}

export class Commit<W extends AnyWorkflow> {
  readonly #context: CommitContext<W>;
  readonly #orderId: OrderId;
  readonly #order: OrderKey;
  readonly #decide: Decide<W>;
  readonly #options: ResolvedCommitOptions;
  readonly #insurance: WakeUpInsurance;
  readonly #writer: TransactionWriter;
  readonly #call: { readonly signal?: AbortSignal };

  constructor(context: CommitContext<W>, orderId: OrderId, decide: Decide<W>, resolved: ResolvedCommitOptions, insurance: WakeUpInsurance) {
    this.#context = context;
    this.#orderId = orderId;
    this.#order = encodeOrderId(orderId);
    this.#decide = decide;
    this.#options = resolved;
    this.#insurance = insurance;
    this.#writer = new TransactionWriter(context, orderId, insurance, resolved);
    this.#call = callOptions(resolved);
  }

  async run(): Promise<CommitResult> {
    // §4.1: read and send in parallel. The send never fails the commit (C4).
    const sending = this.#insurance.send(this.#options.signal);
    let current: Loaded;
    try {
      current = await this.#load();
    } finally {
      await sending;
    }
    for (let conflicts = 0; ; conflicts++) {
      const answered = await this.#alreadyDone(current);
      if (answered !== undefined) return answered;
      if (conflicts > this.#context.maxConflicts) {
        throw new OutboxError(
          "conflict",
          `order ${this.#name}: other writers won ${conflicts} times, nothing was written. Repeat the commit.`,
        );
      }
      const outcome = await this.#decideAndWrite(current.entity);
      if (outcome !== "conflict") return outcome;
      await this.#context.clock
        .sleep(this.#context.random() * Math.min(1_000, 10 * 2 ** conflicts), this.#options.signal)
        .catch((cause: unknown) => {
          throw new OutboxError("aborted", `commit to order ${this.#name}`, { cause });
        });
      current = await this.#load();
    }
  }

  get #name(): string {
    return printable(this.#orderId);
  }

  async #load(): Promise<Loaded> {
    const row = this.#options.idempotencyRow;
    const [entity, stored] = await Promise.all([
      this.#context.storage.orders.readOrder(this.#order, this.#call),
      row === undefined ? undefined : this.#context.storage.orders.readIdempotency(this.#order, row, this.#call),
    ]);
    return { entity, stored };
  }

  async #alreadyDone({ entity, stored }: Loaded): Promise<CommitResult | undefined> {
    if (stored !== undefined) {
      const result = parseStoredJson(stored, `the stored result of a commit to order ${this.#name}`) as Omit<CommitResult, "repeated">;
      return { ...result, repeated: true };
    }
    if (entity === undefined) return undefined;
    let unknown = false;
    for (const attempt of this.#options.repeats) {
      const mine = await this.#writer.wasItMine(entity, attempt);
      if (mine === "mine") return { sequence: attempt.events.at(-1)?.sequence ?? entity.sequence, events: attempt.events, repeated: true };
      unknown ||= mine === "unknown";
    }
    if (unknown) throw this.#writer.outcomeUnknown();
    return undefined;
  }

  async #decideAndWrite(entity: OrderEntity | undefined): Promise<CommitResult | "conflict"> {
    const { expectedSequence, token } = this.#options;
    const order = await readOrderState(this.#context.workflow, this.#orderId, entity);
    if (expectedSequence !== undefined && order.sequence !== expectedSequence) {
      throw new OutboxError(
        "sequence-mismatch",
        `order ${this.#name} is at sequence ${order.sequence}, expected ${expectedSequence}. Read it again and decide anew.`,
      );
    }
    const change = await this.#decide(order.state, order);
    if (change === undefined) return { sequence: order.sequence, events: [], repeated: false };
    const state = change.state === null ? undefined : await serializeState(this.#context.workflow, this.#orderId, change.state);
    const prepared = await prepareEvents(this.#context.workflow, change.events, {
      orderId: this.#orderId,
      order: this.#order,
      sequence: order.sequence,
      lastEventId: entity?.lastEventId,
      nowMs: this.#context.clock.now(),
      random: this.#context.random,
      trace: this.#options.trace,
    });
    const result = { sequence: order.sequence + prepared.references.length, events: prepared.references };
    const transaction: OrderTransaction = {
      order: this.#order,
      etag: entity?.etag,
      entity: {
        sequence: result.sequence,
        lastEventId: prepared.references.at(-1)?.id ?? entity?.lastEventId,
        state,
        commitTokens: appendToken(entity?.commitTokens ?? [], token),
      },
      outbox: prepared.entities,
      ...(this.#options.idempotencyRow === undefined
        ? {}
        : { idempotency: { rowKey: this.#options.idempotencyRow, result: JSON.stringify(result) } }),
      entities: change.entities ?? [],
    };
    checkRows(this.#orderId, transaction);
    const reference: CommitReference = { token, base: lastNumber(entity?.commitTokens ?? []), events: prepared.references };
    let outcome: "written" | "conflict" | undefined;
    const { storage, logger } = this.#context;
    storage.orders.check(transaction);
    try {
      await storePayloads(storage.blobs, prepared.payloads, this.#call);
      outcome = await this.#writer.write(transaction, reference);
    } catch (error) {
      // The transaction may still land, and needs its payloads then.
      if (isOutboxError(error, "outcome-unknown")) outcome = "written";
      throw error;
    } finally {
      if (outcome !== "written") await dropPayloads(storage.blobs, prepared.payloads, logger, this.#orderId);
    }
    if (outcome === "conflict") return "conflict";
    if (prepared.references.length > 0) await this.#insurance.fire();
    return { ...result, repeated: false };
  }
}
