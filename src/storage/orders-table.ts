/** The orders table. One partition an order; everything a commit writes is in it. */
import type { TableClient, TransactionAction } from "@azure/data-tables";
import { odata } from "@azure/data-tables";
import { isOutboxError, OutboxError } from "../core/errors.ts";
import type { EventId } from "../core/event-id.ts";
import { MAX_TRANSACTION_OPERATIONS } from "../core/limits.ts";
import { ORDER_ROW, OUTBOX_END, outboxRow } from "../core/names.ts";
import type { OrderKey } from "../core/order-id.ts";
import type { CallOptions, OrderAndOutbox, OrderEntity, OrderTransaction, OrdersTable, StoredEntity, TableValue } from "../core/ports.ts";
import { callStorage } from "./call.ts";
import { assertApplicationRow, commitOperations, decodeIdempotency, decodeOrder, decodeOrderAndOutbox, type Row } from "./order-rows.ts";
import { toSdkProperties, type RowOperation } from "./row-operation.ts";
import type { ServiceAnswer } from "./storage-error.ts";
import { fromSdkValue } from "./table-value.ts";

/** An entity as the SDK gives it, its own fields among the properties. */
type SdkEntity = Readonly<Record<string, unknown>> & { readonly etag: string; readonly rowKey?: string };

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

  async deleteOutbox(order: OrderKey, ids: readonly EventId[], options?: CallOptions): Promise<void> {
    const rowKeys = [...new Set(ids.map(outboxRow))].sort();
    for (let start = 0; start < rowKeys.length; start += MAX_TRANSACTION_OPERATIONS) {
      await this.#deleteRows(order, rowKeys.slice(start, start + MAX_TRANSACTION_OPERATIONS), options);
    }
  }

  /** Deletes up to one transaction's worth of rows; `rowKeys` are sorted. One row that is gone already fails the whole transaction. */
  async #deleteRows(order: OrderKey, rowKeys: readonly string[], options: CallOptions | undefined): Promise<void> {
    const [only] = rowKeys;
    if (rowKeys.length === 1 && only !== undefined) return this.#deleteRow(order, only, options);
    const operations = rowKeys.map((rowKey): RowOperation => ({ action: "delete", rowKey }));
    try {
      await this.#submit(this.#table, `delete ${rowKeys.length} outbox entities of order ${order}`, order, operations, options);
    } catch (error) {
      if (!isOutboxError(error, "precondition-failed")) throw error;
      const left = await this.#existing(order, rowKeys, options);
      if (left.length === 0) return;
      if (left.length < rowKeys.length) return this.#deleteRows(order, left, options);
      for (const rowKey of left) await this.#deleteRow(order, rowKey, options);
    }
  }

  async #deleteRow(order: OrderKey, rowKey: string, options: CallOptions | undefined): Promise<void> {
    try {
      await callStorage(
        { what: `delete row ${rowKey} of order ${order}`, timeoutMs: this.#timeoutMs, options, read: readMissingRow },
        (abortSignal) => this.#table.deleteEntity(order, rowKey, { abortSignal }),
      );
    } catch (error) {
      if (!isOutboxError(error, "precondition-failed")) throw error;
    }
  }

  /** Those of `rowKeys` (sorted, at least one) that exist. */
  async #existing(order: OrderKey, rowKeys: readonly string[], options: CallOptions | undefined): Promise<readonly string[]> {
    const filter = odata`PartitionKey eq ${order} and RowKey ge ${rowKeys[0]} and RowKey le ${rowKeys.at(-1)}`;
    const { rows } = await this.#query(`look for outbox entities of order ${order}`, filter, ["rowKey"], options);
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
    select: string[] | undefined,
    options: CallOptions | undefined,
  ): Promise<{ readonly rows: readonly Row[]; readonly pages: number }> {
    const rows: Row[] = [];
    let continuationToken: string | undefined;
    let pages = 0;
    do {
      const settings = continuationToken === undefined ? {} : { continuationToken };
      const page = await callStorage({ what, timeoutMs: this.#timeoutMs, options }, async (abortSignal) => {
        const queryOptions = { filter, ...(select === undefined ? {} : { select }) };
        const { value } = await this.#table.listEntities({ abortSignal, queryOptions }).byPage(settings).next();
        return value;
      });
      for (const entity of page ?? []) rows.push(toRow(entity, entity.rowKey ?? ""));
      continuationToken = page?.continuationToken;
      pages += 1;
    } while (continuationToken !== undefined);
    return { rows, pages };
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
