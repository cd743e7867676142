/**
 * Makes Azurite's database as fast with a hundred thousand blobs or rows as with ten; the answers are the same. For tests in which an Azurite has a
 * process of its own: the one that a whole run shares stays as it comes.
 *
 * As it comes it looks through all blobs of the account for each one, because the query names the account first; through all orders for the row
 * of one, because the query names the row key first; and through all rows for the outbox of an order. It sorts every index anew after each
 * removal.
 */
import { removeSingleDocumentsCheaply, requireOfAzurite } from "../../src/local/azurite-database.ts";

type Query = Readonly<Record<string, unknown>>;
type Condition = (row: unknown) => boolean;

interface LokiResultset {
  readonly filterInitialized: boolean;
  find: (this: LokiResultset, query: Query | undefined, firstOnly?: boolean) => LokiResultset;
  where: (this: LokiResultset, condition: Condition) => LokiResultset;
}

interface TableQueries {
  generateQueryForPersistenceLayer: (this: TableQueries, options: { readonly filter?: string }, context: unknown) => Condition;
}

/** Conditions on these leave the fewest documents; the first one in a query is answered by an index. */
const SELECTIVE = ["name", "messageId", "PartitionKey", "queueName", "containerName"] as const;

/** What the package asks about one order. */
const OF_ONE_ORDER = /^PartitionKey eq '((?:[^']|'')*)' and RowKey g[et] '(?:[^']|'')*' and RowKey l[et] '(?:[^']|'')*'$/;

export function makeDatabaseFast(): void {
  removeSingleDocumentsCheaply();
  const { Resultset } = requireOfAzurite("lokijs") as { readonly Resultset: { readonly prototype: LokiResultset } };
  const { find, where } = Resultset.prototype;
  Resultset.prototype.find = function (query, firstOnly) {
    return find.call(this, selectiveFirst(query), firstOnly);
  };

  /** The partition that a condition on rows is about. */
  const partitions = new WeakMap<Condition, string>();
  const queries = requireOfAzurite("./dist/src/table/persistence/LokiTableStoreQueryGenerator") as { readonly default: TableQueries };
  const { generateQueryForPersistenceLayer } = queries.default;
  queries.default.generateQueryForPersistenceLayer = function (options, context) {
    const condition = generateQueryForPersistenceLayer.call(this, options, context);
    const partition = partitionOf(options.filter);
    if (partition !== undefined) partitions.set(condition, partition);
    return condition;
  };
  Resultset.prototype.where = function (condition) {
    const partition = partitions.get(condition);
    const found = partition === undefined || this.filterInitialized ? this : find.call(this, { PartitionKey: partition });
    return where.call(found, condition);
  };
}

/** Of a filter that asks for rows of one order. */
export function partitionOf(filter: string | undefined): string | undefined {
  return OF_ONE_ORDER.exec(filter ?? "")?.[1]?.replaceAll("''", "'");
}

/** The same query, its most selective condition first, and as one that an index can answer. */
export function selectiveFirst(query: Query | undefined): Query | undefined {
  if (typeof query !== "object") return query;
  const first = SELECTIVE.find((name) => Object.hasOwn(query, name));
  if (first === undefined) return query;
  const { [first]: condition, ...rest } = query;
  const prefix = first === "name" ? prefixOf(condition) : undefined;
  return { [first]: prefix === undefined ? condition : { $between: [prefix, `${prefix}\uFFFF`] }, ...rest };
}

/** Of a listing's condition, which is an escaped text after `^`. */
function prefixOf(condition: unknown): string | undefined {
  if (typeof condition !== "object" || condition === null || !("$regex" in condition)) return undefined;
  const { $regex } = condition;
  return typeof $regex === "string" && $regex.startsWith("^") ? $regex.slice(1).replace(/\\(.)/g, "$1") : undefined;
}
