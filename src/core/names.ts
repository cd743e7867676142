/** Where things lie in the account (design §3). Code, tests and the deployment template all take the names from here. */
import { OutboxError } from "./errors.ts";
import { EVENT_ID_LENGTH, isEventId, type EventId } from "./event-id.ts";
import { encodeKeyText, type OrderKey } from "./order-id.ts";

export const CONTAINERS = ["events", "archive", "dead", "audit", "payloads"] as const;
/** Containers that hold blobs of their own; the leases are a port of their own. */
export type Container = (typeof CONTAINERS)[number];

export const LEASE_CONTAINER = "leases";
export const ORDERS_TABLE = "orders";
export const WAKE_UP_QUEUE = "wake-ups";
export const POISON_QUEUE = "wake-ups-poison";

/** Row key of the business entity. */
export const ORDER_ROW = "order";
const OUTBOX_PREFIX = "outbox:";
const IDEMPOTENCY_PREFIX = "idempotency:";
/** One range query from {@link ORDER_ROW} to here (exclusive) reads the order and its outbox, and nothing else. */
export const OUTBOX_END = "outbox;";

/** Row keys from `from` (inclusive) to `to` (exclusive). */
export interface RowRange {
  readonly from: string;
  readonly to: string;
}

/** {@link ORDER_ROW}, and nothing else of ours. */
export const ORDER_RANGE: RowRange = { from: ORDER_ROW, to: `${ORDER_ROW}!` };
export const OUTBOX_RANGE: RowRange = { from: OUTBOX_PREFIX, to: OUTBOX_END };
export const IDEMPOTENCY_RANGE: RowRange = { from: IDEMPOTENCY_PREFIX, to: "idempotency;" };

export function outboxRow(id: EventId): string {
  return `${OUTBOX_PREFIX}${id}`;
}

/** The event id of an outbox row key, or undefined if the row is not one of ours. */
export function outboxRowId(rowKey: string): EventId | undefined {
  const id = rowKey.startsWith(OUTBOX_PREFIX) ? rowKey.slice(OUTBOX_PREFIX.length) : "";
  return isEventId(id) ? id : undefined;
}

export const MAX_IDEMPOTENCY_KEY_LENGTH = 120;

export function idempotencyRow(key: string): string {
  if (typeof key !== "string" || key.length === 0 || key.length > MAX_IDEMPOTENCY_KEY_LENGTH || !key.isWellFormed()) {
    throw new OutboxError("invalid-option", `idempotencyKey must be well-formed text of 1 to ${MAX_IDEMPOTENCY_KEY_LENGTH} UTF-16 units`);
  }
  return `${IDEMPOTENCY_PREFIX}${encodeKeyText(key)}`;
}

/**
 * A row beside the idempotency results, of what an operation has done to the order. The dots are what no key of a producer has in its row, so
 * that neither is ever taken for the other.
 *
 * @param parts the operation, and what tells its rows apart: names, ids
 */
export function operationRow(...parts: readonly string[]): string {
  return `${IDEMPOTENCY_PREFIX}${parts.join(".")}`;
}

/** The parts of an {@link operationRow}, or undefined for a producer's idempotency result. */
export function operationRowParts(rowKey: string): readonly string[] | undefined {
  return rowKey.startsWith(IDEMPOTENCY_PREFIX) && rowKey.includes(".") ? rowKey.slice(IDEMPOTENCY_PREFIX.length).split(".") : undefined;
}

/** True for row keys that this package keeps for itself. */
export function isReservedRow(rowKey: string): boolean {
  return (rowKey >= ORDER_ROW && rowKey < OUTBOX_END) || rowKey.startsWith(IDEMPOTENCY_PREFIX);
}

export const MAX_SUBSCRIPTION_NAME_LENGTH = 50;

/** Subscription names become blob path segments as they are. */
export function assertSubscriptionName(name: string): void {
  if (!/^[a-z][a-z0-9]*(?:-[a-z0-9]+)*$/.test(name) || name.length > MAX_SUBSCRIPTION_NAME_LENGTH) {
    throw new OutboxError(
      "invalid-option",
      `subscription name ${JSON.stringify(name)}: lower-case letters, digits and single dashes, starting with a letter, at most ${MAX_SUBSCRIPTION_NAME_LENGTH} characters`,
    );
  }
}

/** Ends with `/`, so `o-1` never lists `o-10` (W10). */
export function streamPrefix(subscription: string, order: OrderKey): string {
  return `${subscription}/${order}/`;
}

const EVENT_SUFFIX = ".json";
const BUNDLE_SUFFIX = ".ndjson";

export function eventBlobName(subscription: string, order: OrderKey, id: EventId): string {
  return eventNameBelow(streamPrefix(subscription, order), id);
}

/** @param prefix of the stream */
export function eventNameBelow(prefix: string, id: EventId): string {
  return `${prefix}${id}${EVENT_SUFFIX}`;
}

/** In the place of a subscription: the archive of events that no subscription wanted. No subscription can have this name. */
export const UNROUTED = "_unrouted";

/** The event id in a blob name below `prefix`, or undefined for a foreign name (W10). */
export function eventIdOfBlob(name: string, prefix: string): EventId | undefined {
  if (!name.startsWith(prefix) || !name.endsWith(EVENT_SUFFIX)) return undefined;
  const id = name.slice(prefix.length, -EVENT_SUFFIX.length);
  return isEventId(id) ? id : undefined;
}

/** The stream's prefix in the name of a blob. */
export function prefixOf(name: string): string {
  return name.slice(0, name.lastIndexOf("/") + 1);
}

export interface BundleName {
  /** Of the stream, with the slash at its end. */
  readonly prefix: string;
  readonly first: EventId;
  readonly last: EventId;
}

/** Of several archived events of one stream in one blob (W13). */
export function bundleName({ prefix, first, last }: BundleName): string {
  return `${prefix}${first}-${last}${BUNDLE_SUFFIX}`;
}

/** Is it the prefix of a stream, with bundles? What nobody wanted is no stream: it is archived one by one. */
export function mayHaveBundles(prefix: string): boolean {
  return /^[^/]+\/[^/]+\/$/.test(prefix) && !prefix.startsWith(`${UNROUTED}/`);
}

/** Undefined for a name that no bundle has. */
export function parseBundleName(name: string): BundleName | undefined {
  const prefix = prefixOf(name);
  const file = name.slice(prefix.length);
  const first = file.slice(0, EVENT_ID_LENGTH);
  const last = file.slice(EVENT_ID_LENGTH + 1, -BUNDLE_SUFFIX.length);
  if (!mayHaveBundles(prefix) || !isEventId(first) || !isEventId(last) || first >= last) return undefined;
  const parsed = { prefix, first, last };
  return bundleName(parsed) === name ? parsed : undefined;
}

/** A payload too big for the table, written before the commit that refers to it. */
export function payloadBlobName(order: OrderKey, id: EventId): string {
  return eventNameBelow(`${order}/`, id);
}
