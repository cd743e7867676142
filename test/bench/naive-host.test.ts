import { expect, test } from "vitest";
import type { Worker } from "../../src/worker/round-result.ts";
import { ManualClock } from "../support/manual-clock.ts";
import { createMemoryStorage } from "../support/memory-storage.ts";
import { startNaiveHost } from "./naive-host.ts";

test("an error of the naive worker is told, and no further wake-up is begun", async () => {
  const { wakeUps } = createMemoryStorage(new ManualClock());
  await wakeUps.send('"o-1"', 0);
  await wakeUps.send('"o-2"', 0);
  const begun: string[] = [];
  const worker: Worker = {
    handle: (orderId) => {
      begun.push(orderId);
      return Promise.reject(new Error(`no lease of ${orderId}`));
    },
    stopStarting: () => {},
  };
  const host = startNaiveHost(worker, wakeUps, { concurrency: 1, pollMs: 1 });
  await expect(host.failed).rejects.toThrow("no lease of o-1");
  await host.stop();
  expect(begun).toEqual(["o-1"]);
});
