/** The orders table. One partition an order; everything a commit writes is in it. */
import type { TableClient, TransactionAction } from "@azure/data-tables";
import { odata } from "@azure/data-tables";
import { isOutboxError, OutboxError } from "../core/errors.ts";
import type { EventId } from "../core/event-id.ts";
import { MAX_TRANSACTION_OPERATIONS } from "../core/limits.ts";
import { IDEMPOTENCY_RANGE, ORDER_RANGE, ORDER_ROW, OUTBOX_END, OUTBOX_RANGE, outboxRow, type RowRange } from "../core/names.ts";
import { decodeOrderKey, type OrderKey } from "../core/order-id.ts";
import type {
  CallOptions,
  IdempotencyScan,
  ListedEntity,
  OrderAndOutbox,
  OrderEntity,
  OrderScan,
  OrderTransaction,
  OrdersTable,
  OutboxScan,
  StoredEntity,
  TableValue,
} from "../core/ports.ts";
import { callStorage } from "./call.ts";
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
} from "./order-rows.ts";
import { toSdkProperties, type RowOperation } from "./row-operation.ts";
import type { ServiceAnswer } from "./storage-error.ts";
import { entityAge, queryPage, queryPages, type SdkEntity } from "./table-query.ts";
import { assertProperties, fromSdkValue } from "./table-value.ts";

interface Scan {
  readonly rows: readonly ScannedRow[];
  readonly next: string | undefined;
}

export class AzureOrdersTable implements OrdersTable {
  readonly #table: TableClient;
  readonly #commits: TableClient;
  readonly #timeoutMs: number;

  /**
   * @param commits the same table without SDK retries: a call of `commit` is one request, so a refusal is known to be one. The producer
   *   repeats, after asking what became of the request before.
   * @param timeoutMs deadline of each request, SDK retries included
   */
  constructor(table: TableClient, commits: TableClient, timeoutMs: number) {
    this.#table = table;
    this.#commits = commits;
    this.#timeoutMs = timeoutMs;
  }

  async readOrder(order: OrderKey, options?: CallOptions): Promise<OrderEntity | undefined> {
    const row = await this.#readRow(order, ORDER_ROW, options);
    return row && decodeOrder(order, row);
  }

  async readIdempotency(order: OrderKey, rowKey: string, options?: CallOptions): Promise<string | undefined> {
    const row = await this.#readRow(order, rowKey, options);
    return row && decodeIdempotency(order, row);
  }

  async readEntity(order: OrderKey, rowKey: string, options?: CallOptions): Promise<StoredEntity | undefined> {
    assertApplicationRow(order, rowKey);
    const row = await this.#readRow(order, rowKey, options);
    return row && { etag: row.etag, properties: row.properties };
  }

  async readOutbox(order: OrderKey, options?: CallOptions): Promise<OrderAndOutbox> {
    const filter = odata`PartitionKey eq ${order} and RowKey ge ${ORDER_ROW} and RowKey lt ${OUTBOX_END}`;
    const { rows, pages } = await this.#query(`read outbox of order ${order}`, filter, undefined, options);
    const answer = decodeOrderAndOutbox(order, rows);
    const { order: entity } = answer;
    if (pages === 1 || entity === undefined) return answer;
    // Pages are no snapshot together: what was committed after the first page is left for the next look, so that order and outbox agree.
    return { ...answer, outbox: answer.outbox.filter(({ sequence }) => sequence <= entity.sequence) };
  }

  check(transaction: OrderTransaction): void {
    commitOperations(transaction);
  }

  async commit(transaction: OrderTransaction, options?: CallOptions): Promise<void> {
    const { order } = transaction;
    await this.#submit(this.#commits, `commit order ${order}`, order, commitOperations(transaction), options);
  }

  async listEntities(order: OrderKey, { from, to }: RowRange, options?: CallOptions): Promise<readonly ListedEntity[]> {
    const what = `list rows ${from} to ${to} of ${order}`;
    const filter = odata`PartitionKey eq ${order} and RowKey ge ${from} and RowKey lt ${to}`;
    const rows: ListedEntity[] = [];
    for await (const page of queryPages(this.#table, { what, filter, timeoutMs: this.#timeoutMs }, options)) {
      for (const entity of page.entities) rows.push({ ...toRow(entity, entity.rowKey ?? ""), ageMs: entityAge(page, entity, what) });
    }
    return rows;
  }

  async putEntity(order: OrderKey, rowKey: string, properties: Readonly<Record<string, TableValue>>, options?: CallOptions): Promise<void> {
    assertApplicationRow(order, rowKey);
    assertProperties(properties, `row ${rowKey} of ${order}`);
    const entity = { partitionKey: order, rowKey, ...toSdkProperties(properties) };
    await callStorage({ what: `put row ${rowKey} of ${order}`, timeoutMs: this.#timeoutMs, options }, (abortSignal) =>
      this.#table.upsertEntity(entity, "Replace", { abortSignal }),
    );
  }

  async insertEntity(
    order: OrderKey,
    rowKey: string,
    properties: Readonly<Record<string, TableValue>>,
    options?: CallOptions,
  ): Promise<void> {
    assertApplicationRow(order, rowKey);
    assertProperties(properties, `row ${rowKey} of ${order}`);
    const entity = { partitionKey: order, rowKey, ...toSdkProperties(properties) };
    await callStorage({ what: `insert row ${rowKey} of ${order}`, timeoutMs: this.#timeoutMs, options }, (abortSignal) =>
      this.#table.createEntity(entity, { abortSignal }),
    );
  }

  async deleteEntity(order: OrderKey, rowKey: string, options?: CallOptions): Promise<boolean> {
    assertApplicationRow(order, rowKey);
    return this.#deleteRow(order, rowKey, options);
  }

  async scanOutbox(from: string | undefined, maxPages: number, options?: CallOptions): Promise<OutboxScan> {
    const { rows, next } = await this.#scan("scan outbox entities", OUTBOX_RANGE, from, maxPages, options);
    return { entities: toOutboxScan(rows), next };
  }

  async scanOrders(from: string | undefined, maxPages: number, options?: CallOptions): Promise<OrderScan> {
    const { rows, next } = await this.#scan("scan order entities", ORDER_RANGE, from, maxPages, options);
    return { orders: toOrderScan(rows), next };
  }

  async scanIdempotency(from: string | undefined, maxPages: number, options?: CallOptions): Promise<IdempotencyScan> {
    const { rows, next } = await this.#scan("scan idempotency rows", IDEMPOTENCY_RANGE, from, maxPages, options);
    return { entities: rows.filter(({ order }) => decodeOrderKey(order) !== undefined), next };
  }

  async insertIdempotency(order: OrderKey, rowKey: string, result: string, options?: CallOptions): Promise<void> {
    assertIdempotencyRow(order, rowKey);
    const entity = { partitionKey: order, rowKey, ...textProperties("result", result) };
    await callStorage({ what: `insert row ${rowKey} of order ${order}`, timeoutMs: this.#timeoutMs, options }, (abortSignal) =>
      this.#table.createEntity(entity, { abortSignal }),
    );
  }

  async deleteIdempotency(order: OrderKey, rowKeys: readonly string[], options?: CallOptions): Promise<void> {
    for (const rowKey of rowKeys) assertIdempotencyRow(order, rowKey);
    await this.#deleteAll(order, rowKeys, options);
  }

  async deleteOutbox(order: OrderKey, ids: readonly EventId[], options?: CallOptions): Promise<void> {
    await this.#deleteAll(order, ids.map(outboxRow), options);
  }

  async #deleteAll(order: OrderKey, all: readonly string[], options: CallOptions | undefined): Promise<void> {
    const rowKeys = [...new Set(all)].sort();
    for (let start = 0; start < rowKeys.length; start += MAX_TRANSACTION_OPERATIONS) {
      await this.#deleteRows(order, rowKeys.slice(start, start + MAX_TRANSACTION_OPERATIONS), options);
    }
  }

  /** Deletes up to one transaction's worth of rows; `rowKeys` are sorted. One row that is gone already fails the whole transaction. */
  async #deleteRows(order: OrderKey, rowKeys: readonly string[], options: CallOptions | undefined): Promise<void> {
    const [only] = rowKeys;
    if (rowKeys.length === 1 && only !== undefined) return void (await this.#deleteRow(order, only, options));
    const operations = rowKeys.map((rowKey): RowOperation => ({ action: "delete", rowKey }));
    try {
      await this.#submit(this.#table, `delete ${rowKeys.length} rows of order ${order}`, order, operations, options);
    } catch (error) {
      if (!isOutboxError(error, "precondition-failed")) throw error;
      const left = await this.#existing(order, rowKeys, options);
      if (left.length === 0) return;
      if (left.length < rowKeys.length) return this.#deleteRows(order, left, options);
      for (const rowKey of left) await this.#deleteRow(order, rowKey, options);
    }
  }

  /** False if it was gone already. */
  async #deleteRow(order: OrderKey, rowKey: string, options: CallOptions | undefined): Promise<boolean> {
    try {
      await callStorage(
        { what: `delete row ${rowKey} of order ${order}`, timeoutMs: this.#timeoutMs, options, read: readMissingRow },
        (abortSignal) => this.#table.deleteEntity(order, rowKey, { abortSignal }),
      );
      return true;
    } catch (error) {
      if (!isOutboxError(error, "precondition-failed")) throw error;
      return false;
    }
  }

  /** Those of `rowKeys` (sorted, at least one) that exist. */
  async #existing(order: OrderKey, rowKeys: readonly string[], options: CallOptions | undefined): Promise<readonly string[]> {
    const filter = odata`PartitionKey eq ${order} and RowKey ge ${rowKeys[0]} and RowKey le ${rowKeys.at(-1)}`;
    const { rows } = await this.#query(`look for rows of order ${order}`, filter, ["rowKey"], options);
    const found = new Set(rows.map(({ rowKey }) => rowKey));
    return rowKeys.filter((rowKey) => found.has(rowKey));
  }

  async #readRow(order: OrderKey, rowKey: string, options: CallOptions | undefined): Promise<Row | undefined> {
    try {
      const entity = await callStorage(
        { what: `read row ${rowKey} of order ${order}`, timeoutMs: this.#timeoutMs, options, read: readMissingRow },
        (abortSignal) => this.#table.getEntity(order, rowKey, { abortSignal }),
      );
      return toRow(entity, rowKey);
    } catch (error) {
      if (isOutboxError(error, "precondition-failed")) return undefined;
      throw error;
    }
  }

  /** All rows of a query, page by page; pages may be empty. Each page has a deadline of its own. */
  async #query(
    what: string,
    filter: string,
    select: readonly string[] | undefined,
    options: CallOptions | undefined,
  ): Promise<{ readonly rows: readonly Row[]; readonly pages: number }> {
    const rows: Row[] = [];
    let pages = 0;
    const query = { what, filter, timeoutMs: this.#timeoutMs, ...(select === undefined ? {} : { select }) };
    for await (const page of queryPages(this.#table, query, options)) {
      for (const entity of page.entities) rows.push(toRow(entity, entity.rowKey ?? ""));
      pages += 1;
    }
    return { rows, pages };
  }

  /** Keys and ages of rows of all partitions, up to `maxPages` pages of them. */
  async #scan(what: string, { from, to }: RowRange, start: string | undefined, maxPages: number, options?: CallOptions): Promise<Scan> {
    const filter = odata`RowKey ge ${from} and RowKey lt ${to}`;
    const query = { what, filter, select: ["partitionKey", "rowKey", "timestamp"], timeoutMs: this.#timeoutMs };
    const rows: ScannedRow[] = [];
    let next = start;
    for (let pages = 0; pages === 0 || (pages < maxPages && next !== undefined); pages++) {
      const page = await queryPage(this.#table, query, next, options);
      for (const entity of page.entities) {
        const { partitionKey = "", rowKey = "" } = entity;
        rows.push({ order: partitionKey as OrderKey, rowKey, ageMs: entityAge(page, entity, what) });
      }
      next = page.next;
    }
    return { rows, next };
  }

  async #submit(
    table: TableClient,
    what: string,
    order: OrderKey,
    operations: readonly RowOperation[],
    options: CallOptions | undefined,
  ): Promise<void> {
    const actions = operations.map((operation) => toAction(order, operation));
    const { subResponses } = await callStorage({ what, timeoutMs: this.#timeoutMs, options, read: readMissingRow }, (abortSignal) =>
      table.submitTransaction(actions, { abortSignal }),
    );
    // The SDK takes a 202 for success unless it can read an error inside (C03).
    if (subResponses.length !== actions.length || subResponses.some(({ status }) => status < 200 || status >= 300)) {
      throw new OutboxError("unavailable", `${what}: the answer does not confirm every operation`);
    }
  }
}

/** A missing row is a condition that does not hold; a missing table stays `not-found`. */
function readMissingRow({ status, serviceCode }: ServiceAnswer): "precondition-failed" | undefined {
  return status === 404 && (serviceCode === "ResourceNotFound" || serviceCode === "EntityNotFound") ? "precondition-failed" : undefined;
}

/** Only the fourth element's etag is a condition; one inside the entity would be ignored and the row overwritten (C04). */
function toAction(partitionKey: OrderKey, operation: RowOperation): TransactionAction {
  const { rowKey } = operation;
  if (operation.action === "delete") return ["delete", { partitionKey, rowKey }];
  const entity = { partitionKey, rowKey, ...toSdkProperties(operation.properties) };
  if (operation.action === "replace") return ["update", entity, "Replace", { etag: operation.etag }];
  return operation.action === "insert" ? ["create", entity] : ["upsert", entity, "Replace"];
}

/** What the SDK mixes into the properties: `Timestamp` is renamed, other service fields start with `odata.`. */
const SDK_FIELDS: ReadonlySet<string> = new Set(["partitionKey", "rowKey", "timestamp", "etag"]);

function toRow(entity: SdkEntity, rowKey: string): Row {
  const properties: Record<string, TableValue> = {};
  for (const [name, sdkValue] of Object.entries(entity)) {
    if (SDK_FIELDS.has(name) || name.startsWith("odata.")) continue;
    const value = fromSdkValue(sdkValue);
    if (value !== undefined) properties[name] = value;
  }
  return { rowKey, etag: entity.etag, properties };
}
