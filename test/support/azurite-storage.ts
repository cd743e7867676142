/** A fresh corner of the run's Azurite, or of a real account. */
import { randomBytes } from "node:crypto";
import { inject } from "vitest";
import type { HttpClient } from "@azure/core-rest-pipeline";
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

export function randomPrefix(): string {
  return `t${randomBytes(8).toString("hex")}`;
}
