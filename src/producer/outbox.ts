/**
 * The producer's side (design §4): an order change and its events in one transaction (G1), and a wake-up that survives the producer.
 *
 * The wake-up is sent hidden *before* the transaction and made visible after it. A producer that dies in between leaves a message that fires
 * within the safety delay; losing a wake-up takes two faults.
 */
import type { Clock } from "../core/clock.ts";
import { decodeCommitReferences } from "../core/commit-tokens.ts";
import { isOutboxError, OutboxError, printable } from "../core/errors.ts";
import { nextEventId } from "../core/event-id.ts";
import { silentLogger, type Logger } from "../core/logger.ts";
import { idempotencyRow } from "../core/names.ts";
import { wholeNumber } from "../core/options.ts";
import { encodeOrderId, parseOrderId } from "../core/order-id.ts";
import type { Storage, StoredEntity } from "../core/ports.ts";
import type { OutputOf } from "../core/schema.ts";
import type { AnyWorkflow } from "../core/workflow.ts";
import { systemClock } from "../system/clock.ts";
import { activeTraceContext, isTracestate } from "../system/tracing.ts";
import type { CommitContext, ResolvedCommitOptions } from "./commit-context.ts";
import { Commit } from "./commit.ts";
import type { Change, CommitOptions, CommitResult, Decide, Order } from "./order-change.ts";
import { readOrderState } from "./order-state.ts";
import { WakeUpInsurance } from "./wake-up-insurance.ts";

export interface OutboxOptions<W extends AnyWorkflow> {
  readonly workflow: W;
  /** The account, from `connectStorage`. */
  readonly storage: Storage;
  /** How long the wake-up stays hidden if the producer dies after its commit. Default 60,000; 5,000 to 3,600,000. */
  readonly safetyDelayMs?: number;
  /** How long a commit waits for the queue before it goes on without (C4). Default 3,000; 100 to 60,000. */
  readonly wakeUpTimeoutMs?: number;
  /** How often a commit decides again after another writer won. Default 20; 0 to 1,000. */
  readonly maxConflicts?: number;
  readonly clock?: Clock;
  /** Numbers in [0, 1), for event ids and jitter. Default `Math.random`. */
  readonly random?: () => number;
  readonly logger?: Logger;
}

export interface Outbox<W extends AnyWorkflow> {
  /**
   * Changes an order and records the events of that change, together or not at all (G1).
   *
   * @throws nothing was written: `invalid-option`, `invalid-order-id`, `invalid-state`, `invalid-event`, `unknown-event-type`, `too-large`,
   *   `sequence-mismatch`, `conflict`, `aborted`, `timeout`, `unavailable`, `forbidden`, `not-found` (table or container missing), `corrupt`
   *   (the stored order can't be read), `storage`; `already-exists` or `precondition-failed` for a row of the application's own; whatever
   *   `decide` throws. `outcome-unknown`: it may have been written; repeat with the error's `details.commitToken` or the same `idempotencyKey`.
   */
  commit(orderId: string, decide: Decide<W>, options?: CommitOptions): Promise<CommitResult>;
  /** Deletes an order and records why. Throws `not-found` if there is none. The application's own rows stay unless `entities` removes them. */
  delete(
    orderId: string,
    decide: (order: Order<OutputOf<W["state"]>>) => Omit<Change<W>, "state"> | Promise<Omit<Change<W>, "state">>,
    options?: CommitOptions,
  ): Promise<CommitResult>;
  /** The order, or undefined if there never was one; without `state` once it is deleted. Throws `invalid-state` if its schema refuses it by now. */
  read(orderId: string, options?: { readonly signal?: AbortSignal }): Promise<Order<OutputOf<W["state"]>> | undefined>;
  /** A row of the application's own in the partition of the order, or undefined. */
  readEntity(orderId: string, rowKey: string, options?: { readonly signal?: AbortSignal }): Promise<StoredEntity | undefined>;
}

const TRACEPARENT = /^[0-9a-f]{2}-[0-9a-f]{32}-[0-9a-f]{16}-[0-9a-f]{2}$/;

/** @throws `invalid-option` */
export function createOutbox<W extends AnyWorkflow>(options: OutboxOptions<W>): Outbox<W> {
  const { workflow, storage } = options;
  const clock = options.clock ?? systemClock;
  const random = options.random ?? Math.random;
  const logger = options.logger ?? silentLogger;
  const safetyDelayMs = wholeNumber("safetyDelayMs", options.safetyDelayMs, { default: 60_000, min: 5_000, max: 3_600_000 });
  const wakeUpTimeoutMs = wholeNumber("wakeUpTimeoutMs", options.wakeUpTimeoutMs, { default: 3_000, min: 100, max: 60_000 });
  const maxConflicts = wholeNumber("maxConflicts", options.maxConflicts, { default: 20, min: 0, max: 1_000 });

  const context: CommitContext<W> = { workflow, storage, clock, random, logger, maxConflicts };

  async function commit(rawOrderId: string, decide: Decide<W>, commitOptions: CommitOptions = {}): Promise<CommitResult> {
    const orderId = parseOrderId(rawOrderId);
    const resolved = resolveCommitOptions(commitOptions);
    if (commitOptions.signal?.aborted === true)
      throw new OutboxError("aborted", `commit to order ${printable(orderId)}`, { cause: commitOptions.signal.reason });
    const insurance = new WakeUpInsurance({ queue: storage.wakeUps, orderId, safetyDelayMs, timeoutMs: wakeUpTimeoutMs, clock, logger });
    let keep = false;
    try {
      const result = await new Commit(context, orderId, decide, resolved, insurance).run();
      // Also for a repetition: the producer of the first call may have died with the queue down, then nothing else wakes the order.
      keep = result.events.length > 0;
      return result;
    } catch (error) {
      // The transaction may still land.
      keep = isOutboxError(error, "outcome-unknown");
      throw error;
    } finally {
      if (!keep) await insurance.cancel();
    }
  }

  function resolveCommitOptions(given: CommitOptions): ResolvedCommitOptions {
    if (given.traceparent !== undefined && !TRACEPARENT.test(given.traceparent)) {
      throw new OutboxError("invalid-option", `traceparent ${printable(given.traceparent, 60)} is not a W3C trace context`);
    }
    if (given.tracestate !== undefined && (given.traceparent === undefined || !isTracestate(given.tracestate))) {
      throw new OutboxError(
        "invalid-option",
        `tracestate ${printable(given.tracestate, 60)}: up to 512 visible characters beside a traceparent`,
      );
    }
    return {
      token: nextEventId(undefined, clock.now(), random),
      repeats: given.commitToken === undefined ? [] : decodeCommitReferences(given.commitToken),
      idempotencyRow: given.idempotencyKey === undefined ? undefined : idempotencyRow(given.idempotencyKey),
      expectedSequence:
        given.expectedSequence === undefined
          ? undefined
          : wholeNumber("expectedSequence", given.expectedSequence, { default: 0, min: 0, max: Number.MAX_SAFE_INTEGER }),
      trace: given.traceparent === undefined ? activeTraceContext() : { traceparent: given.traceparent, tracestate: given.tracestate },
      signal: given.signal,
    };
  }

  return {
    commit,
    delete: (orderId, decide, deleteOptions) =>
      commit(
        orderId,
        async (state, order) => {
          if (state === undefined) throw new OutboxError("not-found", `there is no order ${printable(order.orderId)} to delete`);
          return { ...(await decide(order)), state: null };
        },
        deleteOptions,
      ),
    async read(rawOrderId, readOptions) {
      const orderId = parseOrderId(rawOrderId);
      const entity = await storage.orders.readOrder(encodeOrderId(orderId), readOptions);
      return entity === undefined ? undefined : readOrderState(workflow, orderId, entity);
    },
    readEntity: (rawOrderId, rowKey, readOptions) =>
      storage.orders.readEntity(encodeOrderId(parseOrderId(rawOrderId)), rowKey, readOptions),
  };
}
