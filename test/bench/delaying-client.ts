/** An HTTP client that is far away: every request takes so much longer. For real latencies, which an emulator on the same machine has not. */
import { setTimeout as delay } from "node:timers/promises";
import { createDefaultHttpClient, type HttpClient } from "@azure/core-rest-pipeline";

export function delayingClient(ms: number, inner: HttpClient = createDefaultHttpClient()): HttpClient {
  return {
    async sendRequest(request) {
      await delay(ms);
      return inner.sendRequest(request);
    },
  };
}
