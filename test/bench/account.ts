/** A connection of the product to the bench's account, in a corner of its own. */
import { createDefaultHttpClient, type HttpClient } from "@azure/core-rest-pipeline";
import { connectStorage, type ConnectedStorage } from "../../src/storage/connect.ts";

/** The emulator has one thread and may have a lot to do; a call that it is late with is no failure here. */
const CALL_TIMEOUT_MS = 60_000;

let corners = 0;

/** A prefix that no other measurement in this process's account has. */
export function freshPrefix(): string {
  corners += 1;
  return `b${corners}`;
}

export function connect(connectionString: string, prefix: string, httpClient: HttpClient = createDefaultHttpClient()): ConnectedStorage {
  return connectStorage({ connectionString, prefix, httpClient, callTimeoutMs: CALL_TIMEOUT_MS });
}
