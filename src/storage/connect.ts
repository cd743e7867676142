/** The front door of this room: one storage account behind the ports of core. */
import type { TokenCredential } from "@azure/core-auth";
import { createDefaultHttpClient, type HttpClient } from "@azure/core-rest-pipeline";
import { TableClient } from "@azure/data-tables";
import { BlobServiceClient, type StoragePipelineOptions } from "@azure/storage-blob";
import { QueueServiceClient } from "@azure/storage-queue";
import { OutboxError, isOutboxError, printable } from "../core/errors.ts";
import { CONTAINERS, LEASE_CONTAINER, ORDERS_TABLE, POISON_QUEUE, WAKE_UP_QUEUE } from "../core/names.ts";
import { wholeNumber } from "../core/options.ts";
import type { CallOptions, Storage } from "../core/ports.ts";
import { AzureBlobs } from "./blobs.ts";
import { withBundles } from "./bundled-archive.ts";
import { CallCounter, countingClient, type StorageCall } from "./call-counter.ts";
import { callStorage } from "./call.ts";
import { legacyHttpClient } from "./legacy-http-client.ts";
import { lineSeparatorPolicy } from "./line-separator-policy.ts";
import { AzureOrderLeases } from "./order-leases.ts";
import { AzureOrdersTable } from "./orders-table.ts";
import { AzureWakeUpQueue } from "./wake-up-queue.ts";

export type StorageOptions = AccountOptions & {
  /**
   * Keeps several deployments apart in one account: table `{prefix}orders`, queue `{prefix}-wake-ups`, containers `{prefix}-events` and so
   * on. Lower-case letters and digits, a letter first, at most 20 characters. Default: none.
   */
  readonly prefix?: string;
  /**
   * Deadline of each storage call in milliseconds, retries included; 1,000 to 120,000, default 10,000. A big payload must get through in
   * this time. Renewing a lease takes 5,000 at most, whatever is set here.
   */
  readonly callTimeoutMs?: number;
  /** Sends the requests; for agents of your own and for tests. Default: that of the SDKs. */
  readonly httpClient?: HttpClient;
  /** Is told of every HTTP request before it is sent, repeats included; must not throw. For metrics. */
  readonly onCall?: (call: StorageCall) => void;
};

/** Which account, and by what right. */
export type AccountOptions =
  | { readonly connectionString: string }
  | {
      readonly accountName: string;
      readonly credential: TokenCredential;
      /** Default `core.windows.net`. */
      readonly endpointSuffix?: string;
    };

export interface ConnectedStorage extends Storage {
  /** Every HTTP request made so far. */
  readonly calls: Pick<CallCounter, "snapshot" | "reset">;
  /** Creates table, queues and containers where they are missing, after {@link checkAccount}; may run at the same time elsewhere. */
  createResources(options?: CallOptions): Promise<void>;
  /**
   * Throws `unsupported-account` for an account with hierarchical namespace: its listings sort differently, and it knows no blob batch.
   * A credential that may not ask is let through.
   */
  checkAccount(options?: CallOptions): Promise<void>;
}

/** Retries inside the SDKs stay well below the deadline of a call. */
const MAX_TRIES = 3;
const RETRY_DELAY_MS = 100;
const MAX_RETRY_DELAY_MS = 1_000;

/** Connects to a storage account. No request is made yet. Throws `invalid-option`. */
export function connectStorage(options: StorageOptions): ConnectedStorage {
  const prefix = checkedPrefix(options.prefix);
  const timeoutMs = wholeNumber("callTimeoutMs", options.callTimeoutMs, { default: 10_000, min: 1_000, max: 120_000 });
  const dashed = (name: string): string => (prefix === "" ? name : `${prefix}-${name}`);

  const calls = new CallCounter(options.onCall);
  const httpClient = options.httpClient ?? createDefaultHttpClient();
  const { table, commits, blobs, leases, queues } = connectClients(options, `${prefix}${ORDERS_TABLE}`, {
    table: countingClient("table", httpClient, calls),
    queue: countingClient("queue", httpClient, calls),
    blob: countingClient("blob", httpClient, calls),
  });
  for (const client of [table, commits]) client.pipeline.addPolicy(lineSeparatorPolicy());
  const leaseContainer = leases.getContainerClient(dashed(LEASE_CONTAINER));

  const storage: ConnectedStorage = {
    orders: new AzureOrdersTable(table, commits, timeoutMs),
    wakeUps: new AzureWakeUpQueue(queues.getQueueClient(dashed(WAKE_UP_QUEUE)), timeoutMs),
    leases: new AzureOrderLeases(leaseContainer, timeoutMs),
    blobs: withBundles(new AzureBlobs(blobs, dashed, timeoutMs)),
    calls,

    async createResources(callOptions) {
      await storage.checkAccount(callOptions);
      const create = async (what: string, request: (signal: AbortSignal) => Promise<unknown>): Promise<void> => {
        try {
          await callStorage({ what: `create ${what}`, timeoutMs, options: callOptions }, request);
        } catch (error) {
          if (!isOutboxError(error, "already-exists")) throw error;
        }
      };
      await Promise.all([
        create(`table ${table.tableName}`, (abortSignal) => table.createTable({ abortSignal })),
        ...[WAKE_UP_QUEUE, POISON_QUEUE]
          .map(dashed)
          .map((name) => create(`queue ${name}`, (abortSignal) => queues.getQueueClient(name).create({ abortSignal }))),
        ...[...CONTAINERS, LEASE_CONTAINER]
          .map(dashed)
          .map((name) => create(`container ${name}`, (abortSignal) => blobs.getContainerClient(name).create({ abortSignal }))),
      ]);
    },

    async checkAccount(callOptions) {
      try {
        const { isHierarchicalNamespaceEnabled } = await callStorage(
          { what: "check the account", timeoutMs, options: callOptions },
          (abortSignal) => blobs.getAccountInfo({ abortSignal }),
        );
        if (isHierarchicalNamespaceEnabled !== true) return;
      } catch (error) {
        if (isOutboxError(error, "forbidden", "storage", "not-found")) return;
        throw error;
      }
      throw new OutboxError(
        "unsupported-account",
        "the storage account has hierarchical namespace (Data Lake Storage) on: use a general-purpose v2 account without it",
      );
    },
  };
  return storage;
}

interface Clients {
  readonly table: TableClient;
  /** Without SDK retries: see orders-table.ts. */
  readonly commits: TableClient;
  readonly queues: QueueServiceClient;
  readonly blobs: BlobServiceClient;
  /** Without SDK retries: see order-leases.ts. */
  readonly leases: BlobServiceClient;
}

function connectClients(
  options: AccountOptions,
  tableName: string,
  http: { readonly table: HttpClient; readonly queue: HttpClient; readonly blob: HttpClient },
): Clients {
  const tableOptions = {
    httpClient: http.table,
    retryOptions: { maxRetries: MAX_TRIES - 1, retryDelayInMs: RETRY_DELAY_MS, maxRetryDelayInMs: MAX_RETRY_DELAY_MS },
  };
  const commitOptions = { ...tableOptions, retryOptions: { maxRetries: 0 } };
  const retryOptions = { maxTries: MAX_TRIES, retryDelayInMs: RETRY_DELAY_MS, maxRetryDelayInMs: MAX_RETRY_DELAY_MS };
  const queueOptions = { httpClient: legacyHttpClient(http.queue), retryOptions };
  const blobOptions: StoragePipelineOptions = { httpClient: legacyHttpClient(http.blob), retryOptions };
  const leaseOptions: StoragePipelineOptions = { ...blobOptions, retryOptions: { maxTries: 1 } };

  if ("connectionString" in options) {
    const { connectionString } = options;
    const allowInsecureConnection = isInsecure(connectionString);
    return refusingBadConnectionString(connectionString, () => ({
      table: TableClient.fromConnectionString(connectionString, tableName, { ...tableOptions, allowInsecureConnection }),
      commits: TableClient.fromConnectionString(connectionString, tableName, { ...commitOptions, allowInsecureConnection }),
      queues: QueueServiceClient.fromConnectionString(connectionString, queueOptions),
      blobs: BlobServiceClient.fromConnectionString(connectionString, blobOptions),
      leases: BlobServiceClient.fromConnectionString(connectionString, leaseOptions),
    }));
  }
  const { credential } = options;
  const account = checkedAccountName(options.accountName);
  const suffix = checkedSuffix(options.endpointSuffix);
  const endpoint = (service: string): string => `https://${account}.${service}.${suffix}`;
  if (typeof credential?.getToken !== "function") {
    throw new OutboxError("invalid-option", "credential is no TokenCredential: use one of @azure/identity, or a connectionString instead");
  }
  return {
    table: new TableClient(endpoint("table"), tableName, credential, tableOptions),
    commits: new TableClient(endpoint("table"), tableName, credential, commitOptions),
    queues: new QueueServiceClient(endpoint("queue"), credential, queueOptions),
    blobs: new BlobServiceClient(endpoint("blob"), credential, blobOptions),
    leases: new BlobServiceClient(endpoint("blob"), credential, leaseOptions),
  };
}

/** The SDKs' own complaints may quote the string: neither message nor cause is kept. */
function refusingBadConnectionString<Result>(connectionString: unknown, connect: () => Result): Result {
  if (typeof connectionString === "string" && connectionString !== "") {
    try {
      return connect();
    } catch {
      // Told below.
    }
  }
  throw new OutboxError(
    "invalid-option",
    "connectionString is no connection string of a storage account (not shown): copy it from the account's access keys, or use UseDevelopmentStorage=true",
  );
}

/** True for emulators: the table client wants to be told that http is meant. */
function isInsecure(connectionString: string): boolean {
  return /(?:^|;)\s*(?:DefaultEndpointsProtocol=http\s*(?:;|$)|TableEndpoint=http:|UseDevelopmentStorage=true)/i.test(connectionString);
}

function checkedPrefix(prefix: string | undefined): string {
  if (prefix === undefined || (typeof prefix === "string" && /^[a-z][a-z0-9]{0,19}$/.test(prefix))) return prefix ?? "";
  throw new OutboxError(
    "invalid-option",
    `prefix is ${printable(JSON.stringify(prefix) ?? "undefined", 60)}: lower-case letters and digits, a letter first, at most 20 characters are allowed`,
  );
}

function checkedAccountName(accountName: string): string {
  if (typeof accountName === "string" && /^[a-z0-9]{3,24}$/.test(accountName)) return accountName;
  throw new OutboxError(
    "invalid-option",
    `accountName is ${printable(JSON.stringify(accountName) ?? "undefined", 60)}: 3 to 24 lower-case letters and digits are allowed`,
  );
}

function checkedSuffix(suffix: string = "core.windows.net"): string {
  if (typeof suffix === "string" && /^[a-z0-9-]+(?:\.[a-z0-9-]+)+$/i.test(suffix)) return suffix;
  throw new OutboxError(
    "invalid-option",
    `endpointSuffix is ${printable(JSON.stringify(suffix) ?? "undefined", 60)}: a domain name such as core.windows.net is allowed`,
  );
}
