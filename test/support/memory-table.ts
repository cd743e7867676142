/** The orders table in memory. Rows go through the same encoding as in the account. */
import { OutboxError } from "../../src/core/errors.ts";
import { ORDER_ROW, OUTBOX_END, outboxRow } from "../../src/core/names.ts";
import type { OrderKey } from "../../src/core/order-id.ts";
import type { OrderAndOutbox, OrderEntity, OrderTransaction, OrdersTable, StoredEntity } from "../../src/core/ports.ts";
import {
  assertApplicationRow,
  commitOperations,
  decodeIdempotency,
  decodeOrder,
  decodeOrderAndOutbox,
  type Row,
} from "../../src/storage/order-rows.ts";
import type { RowOperation } from "../../src/storage/row-operation.ts";
import type { Properties } from "../../src/storage/table-value.ts";
import { byCodeUnit, copy, type Etags } from "./memory-basics.ts";

export class MemoryTable {
  readonly #etags: Etags;
  readonly #partitions = new Map<OrderKey, Map<string, Row>>();

  constructor(etags: Etags) {
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

  range(order: OrderKey, from: string, end: string | undefined): readonly Row[] {
    const rows = [...(this.#partitions.get(order)?.values() ?? [])];
    return rows
      .filter(({ rowKey }) => rowKey >= from && (end === undefined || rowKey < end))
      .sort((a, b) => byCodeUnit(a.rowKey, b.rowKey));
  }

  put(order: OrderKey, rowKey: string, properties: Properties): void {
    const partition = this.#partitions.get(order) ?? new Map<string, Row>();
    this.#partitions.set(order, partition);
    partition.set(rowKey, { rowKey, etag: this.#etags.next(), properties: copy(properties) });
  }

  deleteRow(order: OrderKey, rowKey: string): void {
    this.#partitions.get(order)?.delete(rowKey);
  }

  #row(order: OrderKey, rowKey: string): Row | undefined {
    return this.#partitions.get(order)?.get(rowKey);
  }

  #apply(partition: Map<string, Row>, operation: RowOperation, operationIndex: number): void {
    const { rowKey } = operation;
    const present = partition.get(rowKey);
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
    partition.set(rowKey, { rowKey, etag: this.#etags.next(), properties: copy(operation.properties) });
  }
}
