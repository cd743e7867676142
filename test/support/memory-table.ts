/**
 * The orders table in memory. Rows go through the same encoding as in the account; their age is counted by the given clock's monotonic time,
 * as the service's own.
 */
import type { Clock } from "../../src/core/clock.ts";
import { OutboxError } from "../../src/core/errors.ts";
import { IDEMPOTENCY_RANGE, ORDER_RANGE, ORDER_ROW, OUTBOX_END, OUTBOX_RANGE, outboxRow, type RowRange } from "../../src/core/names.ts";
import { decodeOrderKey, type OrderKey } from "../../src/core/order-id.ts";
import type {
  IdempotencyScan,
  ListedEntity,
  OrderAndOutbox,
  OrderEntity,
  OrderScan,
  OrderTransaction,
  OrdersTable,
  OutboxScan,
  StoredEntity,
} from "../../src/core/ports.ts";
import {
  assertApplicationRow,
  assertIdempotencyRow,
  commitOperations,
  decodeIdempotency,
  decodeOrder,
  decodeOrderAndOutbox,
  textProperties,
  toOrderScan,
  toOutboxScan,
  type Row,
  type ScannedRow,
} from "../../src/storage/order-rows.ts";
import type { RowOperation } from "../../src/storage/row-operation.ts";
import { assertProperties, type Properties } from "../../src/storage/table-value.ts";
import { byCodeUnit, copy, type Etags } from "./memory-basics.ts";

/** As in the account. */
const PAGE_SIZE = 1_000;

interface StoredRow {
  readonly row: Row;
  readonly changedAt: number;
}

export class MemoryTable {
  readonly #clock: Clock;
  readonly #etags: Etags;
  readonly #partitions = new Map<OrderKey, Map<string, StoredRow>>();

  constructor(clock: Clock, etags: Etags) {
    this.#clock = clock;
    this.#etags = etags;
  }

  readOrder(order: OrderKey): OrderEntity | undefined {
    const row = this.#row(order, ORDER_ROW);
    return row && decodeOrder(order, row);
  }

  readIdempotency(order: OrderKey, rowKey: string): string | undefined {
    const row = this.#row(order, rowKey);
    return row && decodeIdempotency(order, row);
  }

  readEntity(order: OrderKey, rowKey: string): StoredEntity | undefined {
    assertApplicationRow(order, rowKey);
    const row = this.#row(order, rowKey);
    return row && { etag: row.etag, properties: row.properties };
  }

  readOutbox(order: OrderKey): OrderAndOutbox {
    return decodeOrderAndOutbox(order, this.range(order, ORDER_ROW, OUTBOX_END));
  }

  commit(transaction: OrderTransaction): void {
    const { order } = transaction;
    const partition = new Map(this.#partitions.get(order));
    for (const [operationIndex, operation] of commitOperations(transaction).entries()) this.#apply(partition, operation, operationIndex);
    this.#partitions.set(order, partition);
  }

  deleteOutbox(order: OrderKey, ids: Parameters<OrdersTable["deleteOutbox"]>[1]): void {
    for (const id of ids) this.deleteRow(order, outboxRow(id));
  }

  listEntities(order: OrderKey, { from, to }: RowRange): readonly ListedEntity[] {
    const now = this.#clock.monotonic();
    return this.#sorted(order, from, to).map(({ row, changedAt }) => ({ ...row, ageMs: now - changedAt }));
  }

  putEntity(order: OrderKey, rowKey: string, properties: Properties): void {
    assertApplicationRow(order, rowKey);
    assertProperties(properties, `row ${rowKey} of ${order}`);
    this.put(order, rowKey, properties);
  }

  insertEntity(order: OrderKey, rowKey: string, properties: Properties): void {
    if (this.#row(order, rowKey) !== undefined) throw new OutboxError("already-exists", `row ${rowKey}`, { details: { status: 409 } });
    this.putEntity(order, rowKey, properties);
  }

  deleteEntity(order: OrderKey, rowKey: string): boolean {
    assertApplicationRow(order, rowKey);
    return this.deleteRow(order, rowKey);
  }

  scanOutbox(from: string | undefined, maxPages: number): OutboxScan {
    const { rows, next } = this.#scan(OUTBOX_RANGE, from, maxPages);
    return { entities: toOutboxScan(rows), next };
  }

  scanOrders(from: string | undefined, maxPages: number): OrderScan {
    const { rows, next } = this.#scan(ORDER_RANGE, from, maxPages);
    return { orders: toOrderScan(rows), next };
  }

  scanIdempotency(from: string | undefined, maxPages: number): IdempotencyScan {
    const { rows, next } = this.#scan(IDEMPOTENCY_RANGE, from, maxPages);
    return { entities: rows.filter(({ order }) => decodeOrderKey(order) !== undefined), next };
  }

  insertIdempotency(order: OrderKey, rowKey: string, result: string): void {
    assertIdempotencyRow(order, rowKey);
    if (this.#row(order, rowKey) !== undefined) throw new OutboxError("already-exists", `row ${rowKey}`, { details: { status: 409 } });
    this.put(order, rowKey, textProperties("result", result));
  }

  deleteIdempotency(order: OrderKey, rowKeys: readonly string[]): void {
    for (const rowKey of rowKeys) assertIdempotencyRow(order, rowKey);
    for (const rowKey of rowKeys) this.deleteRow(order, rowKey);
  }

  range(order: OrderKey, from: string, end: string | undefined): readonly Row[] {
    return this.#sorted(order, from, end).map(({ row }) => row);
  }

  put(order: OrderKey, rowKey: string, properties: Properties): void {
    const partition = this.#partitions.get(order) ?? new Map<string, StoredRow>();
    this.#partitions.set(order, partition);
    partition.set(rowKey, this.#stored(rowKey, properties));
  }

  deleteRow(order: OrderKey, rowKey: string): boolean {
    return this.#partitions.get(order)?.delete(rowKey) ?? false;
  }

  #row(order: OrderKey, rowKey: string): Row | undefined {
    return this.#partitions.get(order)?.get(rowKey)?.row;
  }

  #stored(rowKey: string, properties: Properties): StoredRow {
    return { row: { rowKey, etag: this.#etags.next(), properties: copy(properties) }, changedAt: this.#clock.monotonic() };
  }

  #sorted(order: OrderKey, from: string, end: string | undefined): readonly StoredRow[] {
    const rows = [...(this.#partitions.get(order)?.values() ?? [])];
    return rows
      .filter(({ row: { rowKey } }) => rowKey >= from && (end === undefined || rowKey < end))
      .sort((a, b) => byCodeUnit(a.row.rowKey, b.row.rowKey));
  }

  /** The place where a scan stops is the keys of the next row, encoded. */
  #scan({ from, to }: RowRange, start: string | undefined, maxPages: number): { rows: readonly ScannedRow[]; next: string | undefined } {
    const now = this.#clock.monotonic();
    const [startOrder, startRow] = start === undefined ? ["", ""] : decodePlace(start);
    const rows = [...this.#partitions.keys()]
      .filter((order) => order >= startOrder)
      .sort(byCodeUnit)
      .flatMap((order) =>
        this.#sorted(order, from, to).map(({ row, changedAt }) => ({ order, rowKey: row.rowKey, ageMs: now - changedAt })),
      )
      .filter(({ order, rowKey }) => order > startOrder || rowKey >= startRow);
    const following = rows[Math.max(1, maxPages) * PAGE_SIZE];
    return {
      rows: rows.slice(0, Math.max(1, maxPages) * PAGE_SIZE),
      next: following && Buffer.from(JSON.stringify([following.order, following.rowKey])).toString("base64"),
    };
  }

  #apply(partition: Map<string, StoredRow>, operation: RowOperation, operationIndex: number): void {
    const { rowKey } = operation;
    const present = partition.get(rowKey)?.row;
    const refuse = (code: "already-exists" | "precondition-failed", status: number): never => {
      throw new OutboxError(code, `row ${rowKey} refused`, { details: { status, operationIndex } });
    };
    switch (operation.action) {
      case "insert":
        if (present !== undefined) refuse("already-exists", 409);
        break;
      case "replace":
        if (present === undefined) refuse("precondition-failed", 404);
        if (present?.etag !== operation.etag) refuse("precondition-failed", 412);
        break;
      case "delete":
        if (!partition.delete(rowKey)) refuse("precondition-failed", 404);
        return;
      case "upsert":
        break;
    }
    partition.set(rowKey, this.#stored(rowKey, operation.properties));
  }
}

function decodePlace(place: string): readonly [order: string, rowKey: string] {
  try {
    const [order, rowKey] = JSON.parse(Buffer.from(place, "base64").toString("utf8")) as [string, string];
    if (typeof order === "string" && typeof rowKey === "string") return [order, rowKey];
  } catch {
    // Told below.
  }
  throw new OutboxError("invalid-option", "no scan stopped at this place");
}
