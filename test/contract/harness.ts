/** What the contract suites need of a storage besides its ports. */
import { randomUUID } from "node:crypto";
import { expect } from "vitest";
import { isOutboxError, type ErrorCode } from "../../src/core/errors.ts";
import type { EventId } from "../../src/core/event-id.ts";
import { encodeOrderId, parseOrderId, type OrderKey } from "../../src/core/order-id.ts";
import type { OrderTransaction, OutboxEntity, Storage, TableValue } from "../../src/core/ports.ts";

export interface Harness {
  readonly storage: Storage;
  /** Writes a row past the port, as another program would; numbers are stored as Int64 if they are bigints. */
  putForeignRow(order: OrderKey, rowKey: string, properties: Readonly<Record<string, TableValue>>): Promise<void>;
  /** Ends the lease at once, without its holder. */
  breakLease(order: OrderKey): Promise<void>;
  deleteLeaseBlob(order: OrderKey): Promise<void>;
}

/** Makes a harness; called once per suite. Tests use an order each. */
export type Connect = () => Promise<Harness> | Harness;

export function newOrder(): OrderKey {
  return encodeOrderId(parseOrderId(`o-${randomUUID()}`));
}

/** `01JZ0000000000000000000001` for 1. */
export function eventId(number: number): EventId {
  return `01JZ${String(number).padStart(22, "0")}` as EventId;
}

export function outboxEntity(sequence: number, text: string = `{"n":${sequence}}`): OutboxEntity {
  return { id: eventId(sequence), sequence, text, payloadBlob: undefined };
}

/** A commit of an order at its first event, or whatever `changes` makes of it. */
export function transaction(order: OrderKey, changes: Partial<OrderTransaction> = {}): OrderTransaction {
  return {
    order,
    etag: undefined,
    entity: { sequence: 1, lastEventId: eventId(1), state: '{"status":"instructed"}', commitTokens: ["token-1"] },
    outbox: [outboxEntity(1)],
    entities: [],
    ...changes,
  };
}

/** `value`, which must be there. */
export function present<Value>(value: Value | undefined): Value {
  if (value === undefined) throw new Error("nothing is there");
  return value;
}

/** Waits for `promise` to fail with one of `codes`; returns the error. */
export async function failure(promise: Promise<unknown>, ...codes: readonly ErrorCode[]): Promise<Error> {
  const error: unknown = await promise.then(
    (value) => expect.fail(`resolved with ${JSON.stringify(value)}, expected ${codes.join(" or ")}`),
    (reason: unknown) => reason,
  );
  if (!isOutboxError(error, ...codes)) throw error;
  return error;
}
