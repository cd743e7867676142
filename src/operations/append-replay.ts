/**
 * Committing an archived event again, for one subscription (F9): a new outbox entity with a new id at the end of the order, which names the
 * event it repeats. It takes the ordinary path, so no rule bends: the order's other events keep their places, and this one has its own.
 */
import { appendToken, findToken, lastNumber } from "../core/commit-tokens.ts";
import { isOutboxError, OutboxError, printable } from "../core/errors.ts";
import { encodeEvent, eventBytes, type StoredEvent } from "../core/event.ts";
import { nextEventId, type EventId } from "../core/event-id.ts";
import { MAX_INLINE_EVENT_UNITS } from "../core/limits.ts";
import { idempotencyRow, payloadBlobName } from "../core/names.ts";
import { encodeOrderId } from "../core/order-id.ts";
import type { OrderEntity, OrderTransaction } from "../core/ports.ts";
import { systemClock } from "../system/clock.ts";
import type { OperationsContext } from "./context.ts";

export interface Replayed {
  readonly id: EventId;
  readonly sequence: number;
  /** True if it had been committed before, by an earlier run of the same command. */
  readonly repeated: boolean;
}

/** How often the order may change under us, or an answer be missing. */
const MAX_TRIES = 20;

/**
 * @param command names the command: repeated, it commits nothing more for the same event and subscription. At most 40 characters.
 * @throws `not-found` if the order is gone from the table, `conflict` if it kept changing
 */
export async function appendReplay(
  context: OperationsContext,
  original: StoredEvent,
  subscription: string,
  command: string,
): Promise<Replayed> {
  const { storage, clock = systemClock, random = Math.random } = context;
  const order = encodeOrderId(original.orderId);
  const row = idempotencyRow(`${command}:${subscription}:${original.id}`);
  const token = nextEventId(undefined, clock.now(), random);
  let sent: { readonly base: number; readonly result: Omit<Replayed, "repeated"> } | undefined;
  let cause: unknown;
  for (let tries = 0; tries < MAX_TRIES; tries++) {
    const [entity, stored] = await Promise.all([storage.orders.readOrder(order), storage.orders.readIdempotency(order, row)]);
    if (entity === undefined) throw new OutboxError("not-found", `order ${printable(original.orderId)} is not in the table`);
    // A transaction that got no answer may have landed: then the row is its own.
    if (stored !== undefined) {
      const result = JSON.parse(stored) as Omit<Replayed, "repeated">;
      return { ...result, repeated: sent === undefined || findToken(sent.base, entity.commitTokens, token) !== "mine" };
    }
    const { transaction, result, payload } = prepare(context, entity, original, subscription, { row, token });
    sent = { base: lastNumber(entity.commitTokens), result };
    try {
      storage.orders.check(transaction);
      if (payload !== undefined) await storage.blobs.create("payloads", payload.name, payload.bytes, {});
      await storage.orders.commit(transaction);
      return { ...result, repeated: false };
    } catch (error) {
      if (!isOutboxError(error, "already-exists", "precondition-failed", "timeout", "unavailable")) throw error;
      cause = error;
    }
  }
  throw new OutboxError(
    "conflict",
    `order ${printable(original.orderId)} kept changing. Repeat the command: what it has done is not done again.`,
    {
      cause,
    },
  );
}

function prepare(
  { clock = systemClock, random = Math.random }: OperationsContext,
  entity: OrderEntity,
  original: StoredEvent,
  subscription: string,
  { row, token }: { readonly row: string; readonly token: string },
): {
  readonly transaction: OrderTransaction;
  readonly result: Omit<Replayed, "repeated">;
  readonly payload?: { name: string; bytes: Uint8Array };
} {
  const order = encodeOrderId(original.orderId);
  const { text: _text, dataText, ...head } = original;
  const id = nextEventId(entity.lastEventId, clock.now(), random);
  const sequence = entity.sequence + 1;
  // The bytes of the data are those that were committed; only the head is new.
  const text = encodeEvent({ ...head, id, sequence, replayOf: original.replayOf ?? original.id, replayFor: subscription }, dataText);
  const payload = text.length > MAX_INLINE_EVENT_UNITS ? { name: payloadBlobName(order, id), bytes: eventBytes(text) } : undefined;
  const result = { id, sequence };
  const transaction: OrderTransaction = {
    order,
    etag: entity.etag,
    entity: { sequence, lastEventId: id, state: entity.state, commitTokens: appendToken(entity.commitTokens, token) },
    outbox: [{ id, sequence, text: payload === undefined ? text : undefined, payloadBlob: payload?.name }],
    idempotency: { rowKey: row, result: JSON.stringify(result) },
    entities: [],
  };
  return { transaction, result, ...(payload === undefined ? {} : { payload }) };
}
