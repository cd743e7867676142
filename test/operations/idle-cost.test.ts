/** What a worker process costs that has nothing to do (design §8). The README publishes these numbers. */
import { expect, test } from "vitest";
import { createCleaner } from "../../src/operations/cleanup.ts";
import { createReconciler } from "../../src/operations/reconcile.ts";
import { startSchedule } from "../../src/operations/schedule.ts";
import { createSweeper } from "../../src/operations/sweep.ts";
import { startWorkerHost } from "../../src/worker/host.ts";
import { createWorker } from "../../src/worker/worker.ts";
import { workflow } from "../producer/fixtures/workflow.ts";
import { defineSubscription } from "../../src/core/workflow.ts";
import { ManualClock } from "../support/manual-clock.ts";
import { createMemoryStorage } from "../support/memory-storage.ts";

const HOUR_MS = 3_600_000;

test("§8: an idle worker with its schedule makes at most 1,850 calls an hour, 130 of them listings, and never asks for pauses", async () => {
  const clock = new ManualClock();
  const storage = createMemoryStorage(clock);
  /** The mean of what jitter does. */
  const random = (): number => 0.5;
  const subscriptions = [defineSubscription(workflow, { name: "audit", handle: () => {} })];
  const worker = createWorker({ workflow, subscriptions, storage, clock, random });
  await using _host = startWorkerHost({ worker, wakeUps: storage.wakeUps, clock, random });
  await using _schedule = startSchedule({
    sweeper: createSweeper({ storage, clock }),
    reconciler: createReconciler({ storage, clock }),
    cleaner: createCleaner({ storage }),
    clock,
    random,
  });
  await clock.advance(HOUR_MS);
  const counts = storage.callCounts();

  const polls = counts["wakeUps.receive"] ?? 0;
  const [sweeps, reconciles] = [counts["orders.listEntities"] ?? 0, counts["orders.scanOutbox"] ?? 0];
  // 3,600 s / 2.55 s, somewhat faster in the beginning.
  expect(Math.abs(polls - 1_412)).toBeLessThan(10);
  // 3,600 s / 57 s.
  expect([sweeps, reconciles]).toEqual([63, 63]);
  expect(counts).toEqual({
    "wakeUps.receive": polls,
    "blobs.list": 2 * sweeps + 4,
    "orders.listEntities": sweeps,
    "orders.readEntity": reconciles + 1,
    "orders.scanOutbox": reconciles,
    "orders.scanIdempotency": 1,
    "orders.deleteEntity": reconciles + 1,
  });
  expect(Object.values(counts).reduce((sum, count) => sum + count, 0)).toBeLessThanOrEqual(1_850);
});
