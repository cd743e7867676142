/** Counts every HTTP request to the account, retries included: storage calls are what this package costs (design §8). */
import type { HttpClient } from "@azure/core-rest-pipeline";

export type StorageService = "table" | "queue" | "blob";

/** How a request is billed. Table and queue requests have one price each; a blob request costs what its class costs. */
export type PriceClass = "table" | "queue" | "blob write" | "blob list" | "blob read" | "blob other" | "blob free";

export interface CallCounts {
  readonly total: number;
  /** Keyed by service and operation: `blob PutBlob`, `table Transaction`. */
  readonly byOperation: Readonly<Record<string, number>>;
  readonly byPriceClass: Readonly<Partial<Record<PriceClass, number>>>;
}

export const NO_CALLS: CallCounts = { total: 0, byOperation: {}, byPriceClass: {} };

/** One request that is about to be sent. */
export interface StorageCall {
  readonly service: StorageService;
  /** `PutBlob`, `Transaction` … */
  readonly operation: string;
  readonly priceClass: PriceClass;
}

export class CallCounter {
  readonly #onCall: ((call: StorageCall) => void) | undefined;
  readonly #calls = new Map<string, { readonly priceClass: PriceClass; count: number }>();

  /** @param onCall is told of every request; must not throw */
  constructor(onCall?: (call: StorageCall) => void) {
    this.#onCall = onCall;
  }

  count(service: StorageService, operation: string): void {
    const priceClass = priceClassOf(service, operation);
    this.#onCall?.({ service, operation, priceClass });
    const name = `${service} ${operation}`;
    const calls = this.#calls.get(name);
    if (calls === undefined) this.#calls.set(name, { priceClass, count: 1 });
    else calls.count += 1;
  }

  /** What was counted since the last {@link reset}. */
  snapshot(): CallCounts {
    const byOperation: Record<string, number> = {};
    const byPriceClass: Partial<Record<PriceClass, number>> = {};
    let total = 0;
    for (const [name, { priceClass, count }] of this.#calls) {
      byOperation[name] = count;
      byPriceClass[priceClass] = (byPriceClass[priceClass] ?? 0) + count;
      total += count;
    }
    return { total, byOperation, byPriceClass };
  }

  reset(): void {
    this.#calls.clear();
  }
}

/** `inner`, with every request counted before it is sent. */
export function countingClient(service: StorageService, inner: HttpClient, counter: CallCounter): HttpClient {
  return {
    sendRequest(request) {
      counter.count(service, operationOf(service, request));
      return inner.sendRequest(request);
    },
  };
}

export function addCounts(a: CallCounts, b: CallCounts): CallCounts {
  return combine(a, b, (x, y) => x + y);
}

/** What was counted between snapshot `earlier` and snapshot `later`; operations without calls are left out. */
export function subtractCounts(later: CallCounts, earlier: CallCounts): CallCounts {
  return combine(later, earlier, (x, y) => x - y);
}

function combine(a: CallCounts, b: CallCounts, operator: (x: number, y: number) => number): CallCounts {
  const combineRecords = (x: Readonly<Record<string, number>>, y: Readonly<Record<string, number>>): Record<string, number> => {
    const keys = new Set([...Object.keys(x), ...Object.keys(y)]);
    return Object.fromEntries(
      [...keys].map((key) => [key, operator(x[key] ?? 0, y[key] ?? 0)] as const).filter(([, count]) => count !== 0),
    );
  };
  return {
    total: operator(a.total, b.total),
    byOperation: combineRecords(a.byOperation, b.byOperation),
    byPriceClass: combineRecords(a.byPriceClass, b.byPriceClass),
  };
}

/** What {@link operationOf} looks at. */
export interface RequestLine {
  readonly method: string;
  readonly url: string;
  readonly headers: { get(name: string): string | undefined };
}

/** The REST operation of a request, or `Other` for one that this package does not make. Works for host-style and path-style URLs. */
export function operationOf(service: StorageService, request: RequestLine): string {
  const { pathname, searchParams } = new URL(request.url);
  if (service === "table") return tableOperation(request.method, pathname);
  if (service === "queue") return queueOperation(request.method, pathname, searchParams);
  return blobOperation(request.method, searchParams, request.headers.get("x-ms-lease-action"));
}

/** How an operation is billed on a general-purpose v2 account (facts: map-rest-apis-transaction-categories). */
export function priceClassOf(service: StorageService, operation: string): PriceClass {
  if (service !== "blob") return service;
  switch (operation) {
    case "PutBlob":
      return "blob write";
    case "ListBlobs":
    case "CreateContainer":
      return "blob list";
    case "GetBlob":
      return "blob read";
    case "DeleteBlob":
      return "blob free";
    default:
      return "blob other";
  }
}

function tableOperation(method: string, pathname: string): string {
  if (pathname.endsWith("/$batch")) return "Transaction";
  if (pathname.endsWith("/Tables")) return method === "POST" ? "CreateTable" : "Other";
  if (pathname.endsWith("()")) return "QueryEntities";
  if (!pathname.endsWith(")")) return method === "POST" ? "InsertEntity" : "Other";
  if (method === "GET") return "ReadEntity";
  if (method === "PUT") return "PutEntity";
  return method === "DELETE" ? "DeleteEntity" : "Other";
}

function queueOperation(method: string, pathname: string, query: URLSearchParams): string {
  const messages = /\/messages(\/[^/]+)?$/.exec(pathname);
  if (messages === null) return method === "PUT" && !query.has("comp") ? "CreateQueue" : "Other";
  if (messages[1] !== undefined) return method === "PUT" ? "UpdateMessage" : "DeleteMessage";
  if (method === "POST") return "SendMessage";
  return method === "GET" && query.get("peekonly") !== "true" ? "ReceiveMessages" : "Other";
}

function blobOperation(method: string, query: URLSearchParams, leaseAction: string | undefined): string {
  const comp = query.get("comp");
  if (comp === "lease") return `Lease${(leaseAction ?? "").replace(/^[a-z]/, (letter) => letter.toUpperCase())}`;
  if (comp === "batch") return "BlobBatch";
  if (comp === "list") return query.get("restype") === "container" ? "ListBlobs" : "Other";
  if (comp === "metadata") return method === "PUT" ? "SetBlobMetadata" : "Other";
  if (comp === "properties" && query.get("restype") === "account") return "GetAccountInformation";
  if (query.get("restype") === "container") return method === "PUT" ? "CreateContainer" : "Other";
  if (comp !== null) return "Other";
  switch (method) {
    case "PUT":
      return "PutBlob";
    case "GET":
      return "GetBlob";
    case "HEAD":
      return "GetBlobProperties";
    case "DELETE":
      return "DeleteBlob";
    default:
      return "Other";
  }
}
