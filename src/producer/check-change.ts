/** What a change may not be: refused before any write. */
import { OutboxError, printable } from "../core/errors.ts";
import { serializeJson } from "../core/json.ts";
import { MAX_ENTITY_BYTES, MAX_TRANSACTION_OPERATIONS } from "../core/limits.ts";
import { isReservedRow } from "../core/names.ts";
import type { OrderId } from "../core/order-id.ts";
import type { OrderTransaction } from "../core/ports.ts";
import { validate } from "../core/schema.ts";
import type { AnyWorkflow } from "../core/workflow.ts";

/** @throws `invalid-state`, `too-large` */
export async function serializeState(workflow: AnyWorkflow, orderId: OrderId, state: unknown): Promise<string> {
  const name = printable(orderId);
  await validate(workflow.state, state, `the next state of order ${name}`, "invalid-state");
  const text = serializeJson(state, `state of order ${name}`, "invalid-state");
  if (text.length * 2 > MAX_ENTITY_BYTES) {
    throw new OutboxError(
      "too-large",
      `the state of order ${name} has ${text.length} UTF-16 units as JSON, at most ${MAX_ENTITY_BYTES / 2} fit an entity. Keep documents in blobs of their own.`,
    );
  }
  return text;
}

/** Whose rows, and how many. Throws `invalid-option` for rows that belong to the outbox, `too-large` for too many of them. */
export function checkRows(orderId: OrderId, { outbox, entities, idempotency }: OrderTransaction): void {
  for (const { rowKey } of entities) {
    if (isReservedRow(rowKey))
      throw new OutboxError(
        "invalid-option",
        `row ${printable(rowKey)} of order ${printable(orderId)}: rows from "order" to "outbox;" and "idempotency:" belong to the outbox`,
      );
  }
  const operations = 1 + outbox.length + entities.length + (idempotency === undefined ? 0 : 1);
  if (operations > MAX_TRANSACTION_OPERATIONS) {
    // C5: never split into two.
    throw new OutboxError(
      "too-large",
      `the commit to order ${printable(orderId)} has ${operations} rows (order, events, own rows), at most ${MAX_TRANSACTION_OPERATIONS} fit one transaction`,
    );
  }
}
