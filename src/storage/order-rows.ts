/** How an order, its outbox and its idempotency results lie in table rows (design §3), and how they are read back. Pure. */
import { OutboxError, printable } from "../core/errors.ts";
import { isEventId, type EventId } from "../core/event-id.ts";
import { MAX_PROPERTY_UNITS, chunkText } from "../core/limits.ts";
import { IDEMPOTENCY_RANGE, ORDER_ROW, isReservedRow, outboxRow, outboxRowId } from "../core/names.ts";
import { decodeOrderKey, type OrderKey } from "../core/order-id.ts";
import type {
  ApplicationEntity,
  Etag,
  OrderAndOutbox,
  OrderEntity,
  OrderScan,
  OrderTransaction,
  OutboxEntity,
  OutboxScan,
} from "../core/ports.ts";
import { assertTransactionFits, type RowOperation } from "./row-operation.ts";
import { assertProperties, type Properties } from "./table-value.ts";

/** A row as it was read. */
export interface Row {
  readonly rowKey: string;
  readonly etag: Etag;
  readonly properties: Properties;
}

/** A row that a scan of all partitions came across. */
export interface ScannedRow {
  readonly order: OrderKey;
  readonly rowKey: string;
  /** By the clock of the service, at least 0. */
  readonly ageMs: number;
}

/**
 * The operations of a commit, the order entity first: its etag is the condition of the whole (C1), and its refusal is the one to be told.
 * Throws `invalid-state` or `too-large` for what the table would drop, change or refuse.
 */
export function commitOperations(transaction: OrderTransaction): readonly RowOperation[] {
  const { order, etag, entity, outbox, idempotency, entities } = transaction;
  const properties = orderProperties(entity);
  const operations: RowOperation[] = [
    etag === undefined ? { action: "insert", rowKey: ORDER_ROW, properties } : { action: "replace", rowKey: ORDER_ROW, etag, properties },
    ...outbox.map((event): RowOperation => ({ action: "insert", rowKey: outboxRow(event.id), properties: outboxProperties(event) })),
  ];
  if (idempotency !== undefined) {
    operations.push({ action: "insert", rowKey: idempotency.rowKey, properties: textProperties("result", idempotency.result) });
  }
  for (const row of entities) operations.push(applicationOperation(order, row));
  assertDistinct(order, operations);
  assertTransactionFits(order, operations);
  return operations;
}

function orderProperties({ sequence, lastEventId, state, commitTokens }: OrderTransaction["entity"]): Properties {
  return {
    sequence: BigInt(sequence),
    ...(lastEventId === undefined ? {} : { lastEventId }),
    deleted: state === undefined,
    commitTokens: JSON.stringify(commitTokens),
    ...(state === undefined ? {} : textProperties("state", state)),
  };
}

function outboxProperties({ id, sequence, text, payloadBlob }: OutboxEntity): Properties {
  if ((text === undefined) === (payloadBlob === undefined)) {
    throw new OutboxError("bug", `event ${id} must have either a text or a payload blob`);
  }
  return {
    sequence: BigInt(sequence),
    ...(text === undefined ? {} : textProperties("event", text)),
    ...(payloadBlob === undefined ? {} : { payload: payloadBlob }),
  };
}

function applicationOperation(order: OrderKey, { action, rowKey, etag, properties = {} }: ApplicationEntity): RowOperation {
  assertApplicationRow(order, rowKey);
  const where = `row ${rowKey} of order ${order}`;
  assertProperties(properties, where);
  switch (action) {
    case "insert":
    case "upsert":
      return { action, rowKey, properties };
    case "update":
      // Without it the SDK would overwrite whatever is there (C04).
      if (etag === undefined || etag === "" || etag === "*") {
        throw new OutboxError("invalid-state", `${where}: an update needs the etag it was read at`);
      }
      return { action: "replace", rowKey, etag, properties };
    case "delete":
      return { action, rowKey };
    default:
      throw new OutboxError("invalid-state", `${where}: unknown action ${printable(String(action), 40)}`);
  }
}

const MAX_KEY_LENGTH = 512;

/** Checks the row key of an application's own row. Throws `invalid-state`. */
export function assertApplicationRow(order: OrderKey, rowKey: string): void {
  const refuse = (what: string): never => {
    throw new OutboxError("invalid-state", `row key ${JSON.stringify(printable(rowKey, 60))} of order ${order} ${what}`);
  };
  if (rowKey.length === 0 || rowKey.length > MAX_KEY_LENGTH)
    refuse(`has ${rowKey.length} UTF-16 units: 1 to ${MAX_KEY_LENGTH} are allowed`);
  if (!rowKey.isWellFormed()) refuse("contains half of a surrogate pair");
  // The service refuses / \ # ? and control characters; SDK and emulator stumble over % { } in transactions.
  if (/[/\\#?%{}\p{Cc}]/u.test(rowKey)) refuse("contains a control character or one of / \\ # ? % { }, which keys can't hold");
  if (isReservedRow(rowKey)) refuse("belongs to the outbox itself");
}

function assertDistinct(order: OrderKey, operations: readonly RowOperation[]): void {
  const seen = new Set<string>();
  for (const { rowKey } of operations) {
    if (seen.has(rowKey)) throw new OutboxError("invalid-state", `row ${rowKey} of order ${order} occurs twice in one commit`);
    seen.add(rowKey);
  }
}

/** `text` over as many properties as it needs: `name`, `name1`, `name2` … */
export function textProperties(name: string, text: string): Properties {
  const [first = "", ...more] = chunkText(text, MAX_PROPERTY_UNITS);
  return { [name]: first, ...Object.fromEntries(more.map((chunk, index) => [`${name}${index + 1}`, chunk])) };
}

/** The text that {@link textProperties} spread, or undefined if there is none. */
function textOf(properties: Properties, name: string): string | undefined {
  const first = properties[name];
  if (typeof first !== "string") return undefined;
  let text = first;
  for (let index = 1; ; index++) {
    const chunk = properties[`${name}${index}`];
    if (typeof chunk !== "string") return text;
    text += chunk;
  }
}

/** Checks that a row key is that of an idempotency result. Throws `bug`. */
export function assertIdempotencyRow(order: OrderKey, rowKey: string): void {
  if (rowKey > IDEMPOTENCY_RANGE.from && rowKey < IDEMPOTENCY_RANGE.to) return;
  throw new OutboxError("bug", `row ${printable(rowKey, 60)} of order ${order} is no idempotency result`);
}

/** Those of the rows that are outbox entities of an order; foreign ones in the range are left out (G6: left alone, told by `readOutbox`). */
export function toOutboxScan(rows: readonly ScannedRow[]): OutboxScan["entities"] {
  return rows.flatMap(({ order, rowKey, ageMs }) => {
    const id = outboxRowId(rowKey);
    return id === undefined || decodeOrderKey(order) === undefined ? [] : { order, id, ageMs };
  });
}

/** The orders of the rows that are order entities; partitions that no order has are left out. */
export function toOrderScan(rows: readonly ScannedRow[]): OrderScan["orders"] {
  return rows.flatMap(({ order, rowKey }) => (rowKey === ORDER_ROW && decodeOrderKey(order) !== undefined ? order : []));
}

/** Reads the order's row. Throws `corrupt` for anything that {@link commitOperations} did not write. */
export function decodeOrder(order: OrderKey, { etag, properties }: Row): OrderEntity {
  const corrupt = (what: string): OutboxError =>
    new OutboxError("corrupt", `the row of order ${order} ${what}: it was written or changed by something else`);
  const sequence = sequenceOf(properties["sequence"]);
  if (sequence === undefined) throw corrupt("has no valid sequence");
  const { lastEventId, deleted } = properties;
  if (!(lastEventId === undefined ? sequence === 0 : typeof lastEventId === "string" && isEventId(lastEventId))) {
    throw corrupt("has no valid lastEventId");
  }
  const state = textOf(properties, "state");
  if (typeof deleted !== "boolean" || deleted !== (state === undefined))
    throw corrupt("has a state that does not go with its deleted flag");
  const commitTokens = tokensOf(properties["commitTokens"]);
  if (commitTokens === undefined) throw corrupt("has no valid commitTokens");
  return { etag, sequence, lastEventId: lastEventId as EventId | undefined, state, commitTokens };
}

/** The result in an idempotency row. Throws `corrupt`. */
export function decodeIdempotency(order: OrderKey, { rowKey, properties }: Row): string {
  const result = textOf(properties, "result");
  if (result === undefined)
    throw new OutboxError("corrupt", `row ${rowKey} of order ${order} has no result: it was written or changed by something else`);
  return result;
}

/** Sorts the rows of the range from the order to the end of its outbox. Throws `corrupt` for an unreadable order row, never for other rows. */
export function decodeOrderAndOutbox(orderKey: OrderKey, rows: readonly Row[]): OrderAndOutbox {
  let order: OrderEntity | undefined;
  const outbox: OutboxEntity[] = [];
  const unreadable: string[] = [];
  for (const row of rows) {
    if (row.rowKey === ORDER_ROW) {
      order = decodeOrder(orderKey, row);
      continue;
    }
    const event = decodeOutboxEntity(row);
    if (event === undefined) unreadable.push(row.rowKey);
    else outbox.push(event);
  }
  return { order, outbox, unreadable };
}

function decodeOutboxEntity({ rowKey, properties }: Row): OutboxEntity | undefined {
  const id = outboxRowId(rowKey);
  const sequence = sequenceOf(properties["sequence"]);
  const text = textOf(properties, "event");
  const { payload } = properties;
  const payloadBlob = typeof payload === "string" ? payload : undefined;
  if (id === undefined || sequence === undefined || sequence === 0 || (text === undefined) === (payloadBlob === undefined))
    return undefined;
  return { id, sequence, text, payloadBlob };
}

function sequenceOf(value: unknown): number | undefined {
  return typeof value === "bigint" && value >= 0n && value <= BigInt(Number.MAX_SAFE_INTEGER) ? Number(value) : undefined;
}

function tokensOf(value: unknown): readonly string[] | undefined {
  if (typeof value !== "string") return undefined;
  try {
    const tokens: unknown = JSON.parse(value);
    return Array.isArray(tokens) && tokens.every((token) => typeof token === "string") ? tokens : undefined;
  } catch {
    return undefined;
  }
}
