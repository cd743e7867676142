import { describe, expect, it } from "vitest";
import { OutboxError } from "../../src/core/errors.ts";
import type { Logger } from "../../src/core/logger.ts";
import { silentLogger } from "../../src/core/logger.ts";
import type { CallOptions } from "../../src/core/ports.ts";
import { createCleaner } from "../../src/operations/cleanup.ts";
import { createReconciler } from "../../src/operations/reconcile.ts";
import { startSchedule, type ScheduleOptions } from "../../src/operations/schedule.ts";
import { createSweeper, type SweepResult } from "../../src/operations/sweep.ts";
import { ManualClock, settle } from "../support/manual-clock.ts";
import { createMemoryStorage } from "../support/memory-storage.ts";
import { keyOf, MINUTE_MS, putPending, wakeUps } from "./maintenance-support.ts";
import { transaction } from "../contract/harness.ts";

const SWEPT: SweepResult = { subscriptions: [], foreign: { count: 0, names: [] }, woken: 0, marked: 0, leased: 0, wokenBefore: 0 };
const RECONCILED = { seen: 0, overdue: 0, woken: 0, complete: true };
const CLEANED = { removed: { archive: 0, audit: 0, payloads: 0, idempotency: 0 }, foreign: 0, complete: true };

interface Scene {
  readonly clock: ManualClock;
  readonly options: ScheduleOptions;
  /** `sweep@60` for a sweep that began after 60 seconds. */
  readonly log: string[];
  readonly errors: string[];
}

/** Tasks that only note when they run, unless `sweep` does more; no jitter, first runs at the end of the interval. */
function scene(sweep: (options?: CallOptions) => Promise<void> = async () => {}): Scene {
  const clock = new ManualClock();
  const log: string[] = [];
  const errors: string[] = [];
  const note = (name: string): void => void log.push(`${name}@${Math.round(clock.monotonic() / 1000)}`);
  const logger: Logger = { ...silentLogger, error: (message) => void errors.push(message) };
  const options: ScheduleOptions = {
    sweeper: { sweep: async (callOptions) => (note("sweep"), await sweep(callOptions), SWEPT) },
    reconciler: { reconcile: async () => (note("reconcile"), RECONCILED) },
    cleaner: { clean: async () => (note("clean"), CLEANED) },
    clock,
    random: () => 0,
    logger,
  };
  return { clock, options, log, errors };
}

describe("schedule", () => {
  it("G5: sweeps and reconciles each minute, cleans up each hour", async () => {
    const { clock, options, log } = scene();
    await using _schedule = startSchedule(options);
    await clock.advance(60 * MINUTE_MS);
    expect(log.filter((entry) => entry.startsWith("sweep")).slice(0, 3)).toEqual(["sweep@0", "sweep@60", "sweep@120"]);
    expect(log.filter((entry) => entry.startsWith("reconcile")).slice(0, 3)).toEqual(["reconcile@0", "reconcile@60", "reconcile@120"]);
    expect(log.filter((entry) => entry.startsWith("clean"))).toEqual(["clean@0", "clean@3600"]);
  });

  it.each([0, 0.3, 0.999])("G5: jitter (%d) never makes the time between two sweeps longer than the interval", async (random) => {
    const { clock, options, log } = scene();
    await using _schedule = startSchedule({ ...options, random: () => random, sweepIntervalMs: 100_000 });
    await clock.advance(1_000_000);
    const times = log.filter((entry) => entry.startsWith("sweep")).map((entry) => Number(entry.split("@")[1]));
    const steps = times.map((time, index) => time - (times[index - 1] ?? 0));
    expect(times.length).toBeGreaterThan(9);
    expect(Math.max(...steps)).toBeLessThanOrEqual(100);
    if (random > 0) expect(Math.min(...steps.slice(1))).toBeLessThan(100);
  });

  it("a task never runs twice at once, and a slow one does not hold up the others", async () => {
    let running = 0;
    let most = 0;
    const { clock, options, log } = scene(async ({ signal } = {}) => {
      most = Math.max(most, ++running);
      await clock.sleep(150_000, signal);
      running -= 1;
    });
    await using _schedule = startSchedule({ ...options, reconcileIntervalMs: 300_000 });
    await clock.advance(600_000);
    expect(most).toBe(1);
    // A short rest after each: 6 seconds are a tenth of the interval.
    expect(log.filter((entry) => entry.startsWith("sweep"))).toEqual(["sweep@0", "sweep@156", "sweep@312", "sweep@468"]);
    expect(log.filter((entry) => entry.startsWith("reconcile"))).toEqual(["reconcile@0", "reconcile@300", "reconcile@600"]);
  });

  it("a run that fails is logged and done again at its next time; the others go on", async () => {
    let failures = 2;
    const { clock, options, log, errors } = scene(async () => {
      if (failures-- > 0) throw new OutboxError("unavailable", "the queue is down");
    });
    await using _schedule = startSchedule(options);
    await clock.advance(300_000);
    expect(errors).toHaveLength(2);
    expect(log.filter((entry) => entry.startsWith("sweep"))).toHaveLength(6);
    expect(log).toContain("reconcile@300");
  });

  it("disposing aborts what runs, waits for it, logs no error and leaves no timer", async () => {
    const seen: string[] = [];
    const { clock, options, errors } = scene(async ({ signal } = {}) => {
      await clock.sleep(1e9, signal).finally(() => seen.push("ended"));
    });
    const schedule = startSchedule(options);
    await clock.advance(1_000);
    await schedule[Symbol.asyncDispose]();
    expect(seen).toEqual(["ended"]);
    expect(errors).toEqual([]);
    expect(clock.pending()).toBe(0);
    await schedule[Symbol.asyncDispose]();
  });

  it("disposing resolves only when a task that is slow to end has ended", async () => {
    const end = Promise.withResolvers<void>();
    const { clock, options } = scene(() => end.promise);
    const schedule = startSchedule(options);
    await clock.advance(1_000);
    let disposed = false;
    const disposing = Promise.resolve(schedule[Symbol.asyncDispose]()).then(() => (disposed = true));
    await settle();
    expect(disposed).toBe(false);
    end.resolve();
    await disposing;
  });

  it("disposing before the first run runs nothing", async () => {
    const { clock, options, log } = scene();
    const schedule = startSchedule({ ...options, random: () => 0.5 });
    await schedule[Symbol.asyncDispose]();
    await clock.advance(1e7);
    expect(log).toEqual([]);
  });

  it("G5: with the wake-up lost for good, the order is woken within 60 seconds", async () => {
    const clock = new ManualClock();
    const storage = createMemoryStorage(clock);
    await putPending(storage, "o-1");
    const tasks = {
      sweeper: createSweeper({ storage, clock }),
      reconciler: createReconciler({ storage, clock }),
      cleaner: createCleaner({ storage }),
    };
    await using _schedule = startSchedule({ ...tasks, clock, random: () => 0.999 });
    await clock.advance(MINUTE_MS);
    expect(wakeUps(storage)).toEqual([["o-1", 0]]);
  });

  it("C4: an event that was never relayed is found too", async () => {
    const clock = new ManualClock();
    const storage = createMemoryStorage(clock);
    await storage.orders.commit(transaction(keyOf("o-1")));
    const tasks = {
      sweeper: createSweeper({ storage, clock }),
      reconciler: createReconciler({ storage, clock }),
      cleaner: createCleaner({ storage }),
    };
    await using _schedule = startSchedule({ ...tasks, clock, random: () => 0.999 });
    // Older than the safety delay, and a reconcile after that.
    await clock.advance(2 * MINUTE_MS + 1_000);
    expect(wakeUps(storage)).toEqual([["o-1", 0]]);
  });

  it.each(["sweepIntervalMs", "reconcileIntervalMs", "cleanupIntervalMs"] as const)("refuses a bad %s and starts nothing", (name) => {
    const { clock, options } = scene();
    expect(() => startSchedule({ ...options, [name]: 999 })).toThrow(name);
    expect(clock.pending()).toBe(0);
  });
});
