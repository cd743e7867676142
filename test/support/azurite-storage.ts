/** A fresh corner of the run's Azurite, or of a real account. */
import { randomBytes } from "node:crypto";
import { inject } from "vitest";
import { BlobServiceClient } from "@azure/storage-blob";
import type { HttpClient } from "@azure/core-rest-pipeline";
import { LEASE_CONTAINER } from "../../src/core/names.ts";
import type { OrderKey } from "../../src/core/order-id.ts";
import { connectStorage, type ConnectedStorage, type StorageOptions } from "../../src/storage/connect.ts";

export interface TestStorageOptions {
  readonly httpClient?: HttpClient;
  readonly callTimeoutMs?: number;
  readonly onCall?: StorageOptions["onCall"];
  /** Joins the corner of another connection instead of making a fresh one. */
  readonly prefix?: string;
  /** Default: the run's Azurite. */
  readonly connectionString?: string;
}

export interface TestStorage extends ConnectedStorage {
  readonly prefix: string;
}

/** Connects to a namespace of its own; its table, queues and containers exist. */
export async function connectTestStorage(options: TestStorageOptions = {}): Promise<TestStorage> {
  const prefix = options.prefix ?? randomPrefix();
  const connectionString = options.connectionString ?? inject("azurite");
  // Not through the caller's client: its faults are meant for the test.
  if (options.prefix === undefined) await connectStorage({ connectionString, prefix }).createResources();
  const storage = connectStorage({
    connectionString,
    prefix,
    ...(options.httpClient === undefined ? {} : { httpClient: options.httpClient }),
    ...(options.onCall === undefined ? {} : { onCall: options.onCall }),
    ...(options.callTimeoutMs === undefined ? {} : { callTimeoutMs: options.callTimeoutMs }),
  });
  return { ...storage, prefix };
}

/** Ends a lease at once, as its time would. What operators do takes as long as it lasts. */
export async function endLease(
  { prefix }: { readonly prefix: string },
  order: OrderKey,
  connectionString = inject("azurite"),
): Promise<void> {
  const container = BlobServiceClient.fromConnectionString(connectionString).getContainerClient(`${prefix}-${LEASE_CONTAINER}`);
  await container.getBlobClient(order).getBlobLeaseClient().breakLease(0);
}

export function randomPrefix(): string {
  return `t${randomBytes(8).toString("hex")}`;
}
