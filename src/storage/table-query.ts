/** Queries of the orders table, page by page. A page may be empty and still not be the last. */
import type { TableClient } from "@azure/data-tables";
import { OutboxError } from "../core/errors.ts";
import type { CallOptions } from "../core/ports.ts";
import { callStorage } from "./call.ts";
import { serviceAge } from "./service-age.ts";
import type { AnswerReader } from "./storage-error.ts";

/** An entity as the SDK gives it, its own fields among the properties. */
export type SdkEntity = Readonly<Record<string, unknown>> & {
  readonly etag: string;
  readonly partitionKey?: string;
  readonly rowKey?: string;
  readonly timestamp?: string;
};

export interface TableQuery {
  /** What is being done, for messages. */
  readonly what: string;
  readonly filter: string;
  /** Default: all properties. */
  readonly select?: readonly string[];
  /** Deadline of each page, in milliseconds. */
  readonly timeoutMs: number;
}

export interface TablePage {
  readonly entities: readonly SdkEntity[];
  /** When the service answered, by its own clock. */
  readonly answeredAt: Date | undefined;
  /** Continuation token; undefined after the last page. */
  readonly next: string | undefined;
}

/** One page. Throws `invalid-option` for a continuation token that no query gave. */
export async function queryPage(
  table: TableClient,
  { what, filter, select, timeoutMs }: TableQuery,
  from: string | undefined,
  options: CallOptions | undefined,
): Promise<TablePage> {
  if (from !== undefined && !isContinuationToken(from)) throw new OutboxError("invalid-option", `${what}: no query stopped at this place`);
  let answeredAt: Date | undefined;
  const call = { what, timeoutMs, options, ...(from === undefined ? {} : { read: readRefusedPlace }) };
  const page = await callStorage(call, async (abortSignal) => {
    const listing = table.listEntities({
      abortSignal,
      queryOptions: { filter, ...(select === undefined ? {} : { select: [...select] }) },
      onResponse: ({ headers }) => (answeredAt = dateOf(headers.get("date"))),
    });
    const { value } = await listing.byPage(from === undefined ? {} : { continuationToken: from }).next();
    return value;
  });
  return { entities: page ?? [], answeredAt, next: page?.continuationToken };
}

/** All pages, each with a deadline of its own. */
export async function* queryPages(table: TableClient, query: TableQuery, options: CallOptions | undefined): AsyncGenerator<TablePage> {
  let from: string | undefined;
  do {
    const page = await queryPage(table, query, from, options);
    yield page;
    from = page.next;
  } while (from !== undefined);
}

/** Time since the entity changed last, by the service's clock; milliseconds, at least 0. */
export function entityAge({ answeredAt }: TablePage, { timestamp }: SdkEntity, what: string): number {
  return serviceAge(answeredAt, dateOf(timestamp), what);
}

/** The query itself is known to be good, so a bad request can only mean the place it is to go on at. */
const readRefusedPlace: AnswerReader = ({ status }) => (status === 400 ? "invalid-option" : undefined);

function dateOf(text: string | undefined): Date | undefined {
  return text === undefined ? undefined : new Date(text);
}

/** The SDK's token is the next keys as Base64 JSON; anything else would end in an error of its decoder. */
function isContinuationToken(text: string): boolean {
  try {
    const token: unknown = JSON.parse(Buffer.from(text, "base64").toString("utf8"));
    return typeof token === "object" && token !== null && "nextPartitionKey" in token && typeof token.nextPartitionKey === "string";
  } catch {
    return false;
  }
}
