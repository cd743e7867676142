/**
 * Committing archived events again, for one subscription (F9): new outbox entities with new ids at the end of the order, each of which names the
 * event it repeats. They take the ordinary path, so no rule bends: the order's other events keep their places, and these have their own.
 */
import { appendToken } from "../core/commit-tokens.ts";
import { isOutboxError, OutboxError, printable } from "../core/errors.ts";
import { encodeEvent, eventBytes, type StoredEvent } from "../core/event.ts";
import { nextEventId, type EventId } from "../core/event-id.ts";
import { MAX_INLINE_EVENT_UNITS } from "../core/limits.ts";
import { payloadBlobName } from "../core/names.ts";
import { encodeOrderId, type OrderId } from "../core/order-id.ts";
import type { OrderEntity, OrderTransaction, OutboxEntity } from "../core/ports.ts";
import { assertGoesOn, clockOf, type OperationsContext } from "./context.ts";
import { parseRedriveRecord, redriveRow, type RedriveRecord } from "./redrive-record.ts";

interface Appended {
  readonly id: EventId;
  readonly sequence: number;
}

/** How often the order may change under us, or an answer be missing. */
export const MAX_TRIES = 20;

/** What is not repeated, and how the row that tells so is called. */
interface Mark {
  readonly rowKey: string;
  /** The text of the row. */
  readonly result: (appended: readonly Appended[]) => string;
}

export interface Batch {
  readonly orderId: OrderId;
  readonly entity: OrderEntity;
  /** At least one, in their order; together with the mark and the order at most what a transaction holds. */
  readonly originals: readonly StoredEvent[];
  readonly subscription: string;
  readonly mark: Mark;
  readonly token: string;
}

/**
 * Commits a skipped event again, unless that has been done or its letter was discarded meanwhile.
 *
 * @returns what is in force, whoever did it
 * @throws `not-found` if the order is gone from the table, `conflict` if it kept changing, `aborted` if the operation was stopped between two
 *   tries: the last one may be in force, and repeating the command finds out
 */
export async function appendRedrive(context: OperationsContext, original: StoredEvent, subscription: string): Promise<RedriveRecord> {
  const { storage, random = Math.random } = context;
  const { orderId } = original;
  const order = encodeOrderId(orderId);
  const row = redriveRow(subscription, original.id);
  const mark: Mark = { rowKey: row, result: ([appended]) => JSON.stringify(appended) };
  const token = nextEventId(undefined, clockOf(context).now(), random);
  let cause: unknown;
  for (let tries = 0; tries < MAX_TRIES; tries++) {
    const [entity, stored] = await Promise.all([storage.orders.readOrder(order), storage.orders.readIdempotency(order, row)]);
    // Also of an own transaction that got no answer and has landed.
    if (stored !== undefined) return parseRedriveRecord(stored);
    if (entity === undefined) throw new OutboxError("not-found", `order ${printable(orderId)} is not in the table`);
    try {
      const [appended] = await commitReplays(context, { orderId, entity, originals: [original], subscription, mark, token });
      return appended!;
    } catch (error) {
      if (!mayTryAgain(error)) throw error;
      cause = error;
    }
    if (tries === MAX_TRIES - 1) break;
    await pauseBeforeRetry(context, tries);
    assertGoesOn(context, `the redrive of event ${original.id} of order ${printable(orderId)}`);
  }
  throw keptChanging(orderId, cause);
}

/** Another writer was faster, or there was no answer: what is stored tells. */
export function mayTryAgain(error: unknown): boolean {
  return isOutboxError(error, "already-exists", "precondition-failed", "timeout", "unavailable");
}

/**
 * Writers that met once should not meet again. Ends early, without an error, when the operation is to stop.
 *
 * @param tries how many came to nothing before this one
 */
export async function pauseBeforeRetry(context: OperationsContext, tries: number): Promise<void> {
  const { random = Math.random, signal } = context;
  const ms = random() * Math.min(1_000, 10 * 2 ** tries);
  // It rejects with the signal's reason alone, and the caller asks the signal.
  await clockOf(context)
    .sleep(ms, signal)
    .catch(() => undefined);
}

export function keptChanging(orderId: OrderId, cause: unknown): OutboxError {
  const text = `order ${printable(orderId)} kept changing. Repeat the command: what it has done is not done again.`;
  return new OutboxError("conflict", text, { cause });
}

/**
 * One transaction: all events of the batch and its mark, or nothing. Conditional on the entity's etag, so that what was decided about the order
 * as it was read holds when the events are committed.
 *
 * @throws `already-exists` or `precondition-failed` if the order has changed since
 */
export async function commitReplays(context: OperationsContext, batch: Batch): Promise<readonly Appended[]> {
  const { orders, blobs } = context.storage;
  const { transaction, appended, payloads } = prepare(context, batch);
  orders.check(transaction);
  // Payloads of a transaction that then fails are in no outbox: cleanup removes them.
  for (const { name, bytes } of payloads) await blobs.create("payloads", name, bytes, {});
  await orders.commit(transaction);
  return appended;
}

interface Prepared {
  readonly transaction: OrderTransaction;
  readonly appended: readonly Appended[];
  readonly payloads: readonly { readonly name: string; readonly bytes: Uint8Array }[];
}

function prepare(context: OperationsContext, batch: Batch): Prepared {
  const { random = Math.random } = context;
  const { orderId, entity, originals, subscription, mark, token } = batch;
  const order = encodeOrderId(orderId);
  const outbox: OutboxEntity[] = [];
  const payloads: { name: string; bytes: Uint8Array }[] = [];
  let { sequence, lastEventId } = entity;
  for (const { text: _text, dataText, ...head } of originals) {
    const id = nextEventId(lastEventId, clockOf(context).now(), random);
    sequence += 1;
    lastEventId = id;
    // The bytes of the data are those that were committed; only the head is new.
    const text = encodeEvent({ ...head, id, sequence, replayOf: head.replayOf ?? head.id, replayFor: subscription }, dataText);
    const payloadBlob = text.length > MAX_INLINE_EVENT_UNITS ? payloadBlobName(order, id) : undefined;
    if (payloadBlob !== undefined) payloads.push({ name: payloadBlob, bytes: eventBytes(text) });
    outbox.push({ id, sequence, text: payloadBlob === undefined ? text : undefined, payloadBlob });
  }
  const appended = outbox.map((event) => ({ id: event.id, sequence: event.sequence }));
  const transaction: OrderTransaction = {
    order,
    etag: entity.etag,
    entity: { sequence, lastEventId, state: entity.state, commitTokens: appendToken(entity.commitTokens, token) },
    outbox,
    idempotency: { rowKey: mark.rowKey, result: mark.result(appended) },
    entities: [],
  };
  return { transaction, appended, payloads };
}
