/** Fills Azurite's database past its services: a big account in no time. Within the emulator's process. */
import { requireOfAzurite } from "../../src/local/azurite-database.ts";

interface Stored {
  readonly $loki?: number;
  readonly meta?: object;
}

interface Row extends Stored {
  readonly PartitionKey: string;
  readonly RowKey: string;
  readonly properties: object;
}

interface Blob extends Stored {
  readonly containerName: string;
  readonly name: string;
}

interface Collection<Document> {
  readonly data: readonly Document[];
  find(query: Readonly<Record<string, unknown>>): Document[];
  insert(documents: readonly object[]): void;
}

interface TableStore {
  getEntityCollection: (this: TableStore, account: string, table: string, context: unknown) => Collection<Row>;
}

interface BlobStore {
  readonly db: { getCollection(name: string): Collection<Blob> };
  createBlob: (this: BlobStore, ...args: unknown[]) => unknown;
}

const ACCOUNT = "devstoreaccount1";
const BLOBS = "$BLOBS_COLLECTION$";

/** The stores, once they have been used. */
const stores: { tables?: TableStore; blobs?: BlobStore } = {};

/** Before Azurite starts. */
export function rememberStores(): void {
  const tables = storeClass<TableStore>("table/persistence/LokiTableMetadataStore").prototype;
  const { getEntityCollection } = tables;
  tables.getEntityCollection = function (...args) {
    stores.tables = this;
    return getEntityCollection.apply(this, args);
  };
  const blobs = storeClass<BlobStore>("blob/persistence/LokiBlobMetadataStore").prototype;
  const { createBlob } = blobs;
  blobs.createBlob = function (...args) {
    stores.blobs = this;
    return createBlob.apply(this, args);
  };
}

function storeClass<Store>(path: string): { readonly prototype: Store } {
  return (requireOfAzurite(`./dist/src/${path}`) as { readonly default: { readonly prototype: Store } }).default;
}

/** Copies the order entity of an order as those of orders `seed-<from>` and on. Returns how many rows there are. */
export function seedOrders(table: string, order: string, from: number, count: number): number {
  const rows = stores.tables!.getEntityCollection(ACCOUNT, table, undefined);
  const template = rows.find({ PartitionKey: order }).find(({ RowKey }) => RowKey === "order")!;
  const { $loki: _id, meta: _meta, ...row } = template;
  rows.insert(
    Array.from({ length: count }, (_, n) => {
      const PartitionKey = `seed-${String(from + n).padStart(7, "0")}`;
      return { ...row, PartitionKey, properties: { ...row.properties, PartitionKey } };
    }),
  );
  return rows.data.length;
}

/** Copies a blob below `prefix` under other ids before its own, as if there had been so many. Returns how many blobs the account has. */
export function seedBlobs(containerName: string, prefix: string, from: number, count: number): number {
  const all = stores.blobs!.db.getCollection(BLOBS);
  const template = all.find({ containerName }).find(({ name }) => name.startsWith(prefix))!;
  const { $loki: _id, meta: _meta, ...blob } = template;
  all.insert(Array.from({ length: count }, (_, n) => ({ ...blob, name: `${prefix}01JZ${String(from + n).padStart(22, "0")}.json` })));
  return all.data.length;
}
