/** G2, G3, G4, C14 with real processes, real kills and Azurite: every subscription's own log is audited. */
import { fork, type ChildProcess } from "node:child_process";
import { once } from "node:events";
import { mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { afterEach, beforeEach, expect, inject, test, vi } from "vitest";
import { createCleaner } from "../../src/operations/cleanup.ts";
import { createReconciler } from "../../src/operations/reconcile.ts";
import { startSchedule } from "../../src/operations/schedule.ts";
import { createSweeper } from "../../src/operations/sweep.ts";
import { verifyAll } from "../../src/operations/verify.ts";
import { createOutbox } from "../../src/producer/outbox.ts";
import { systemClock } from "../../src/system/clock.ts";
import { connectTestStorage, type TestStorage } from "../support/azurite-storage.ts";
import { FULL_SIZE } from "../support/full-size.ts";
import { auditStreams, type Start } from "../support/stream-audit.ts";
import { workflow } from "./fixtures/steps.ts";

const WORKER = fileURLToPath(new URL("fixtures/fan-out-process.ts", import.meta.url));
const SIZE = FULL_SIZE
  ? { subscriptions: 10, orders: 50, events: 20, processes: 3, kills: 8, timeoutMs: 1_200_000 }
  : { subscriptions: 4, orders: 6, events: 5, processes: 2, kills: 2, timeoutMs: 120_000 };

/** Events of each order that are committed ahead of what is handled. */
const MAX_AHEAD = 4;

/** The emulator has one thread and may have a lot to do. */
const CALL_TIMEOUT_MS = 60_000;

let folder: string;
let storage: TestStorage;
const children = new Set<ChildProcess>();

beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), "ordered-outbox-"));
  await writeFile(join(folder, "log"), "");
  storage = await connectTestStorage({ callTimeoutMs: CALL_TIMEOUT_MS });
});

afterEach(async () => {
  for (const child of children) await kill(child);
  await rm(folder, { recursive: true });
});

function start(): ChildProcess {
  const args = [storage.prefix, join(folder, "log"), String(SIZE.subscriptions), String(CALL_TIMEOUT_MS)];
  const child = fork(WORKER, args, { env: { ...process.env, TEST_CONNECTION_STRING: inject("azurite") } });
  children.add(child);
  return child;
}

async function kill(child: ChildProcess): Promise<void> {
  children.delete(child);
  const ended = once(child, "exit");
  child.kill("SIGKILL");
  await ended;
}

/** The starts in the log, each with how it ended. A process writes its lines in order, and has one start of an event at a time. */
async function starts(): Promise<Start[]> {
  const lines = (await readFile(join(folder, "log"), "utf8")).split("\n").slice(0, -1);
  const all: Start[] = [];
  const open = new Map<string, Start>();
  for (const line of lines) {
    const [subscription, orderId, sequence, life, what] = JSON.parse(line) as [string, string, number, string, string];
    const key = JSON.stringify([subscription, orderId, sequence, life]);
    if (what === "start") {
      const begun: Start = { subscription, orderId, sequence, life, outcome: "died" };
      open.set(key, begun);
      all.push(begun);
    } else open.get(key)!.outcome = what as Start["outcome"];
  }
  return all;
}

function processOf(begun: Start | undefined): number {
  return Number.parseInt(String(begun?.life), 10);
}

test(
  `${SIZE.subscriptions} subscriptions × ${SIZE.orders} orders × ${SIZE.events} events, ${SIZE.processes} processes, ${SIZE.kills} kills: nothing missing, nothing out of order, nothing doubled but by a kill`,
  { timeout: SIZE.timeoutMs },
  async () => {
    const subscriptions = Array.from({ length: SIZE.subscriptions }, (_, index) => `s-${index}`);
    const orderIds = Array.from({ length: SIZE.orders }, (_, index) => `o-${index}`);
    const outbox = createOutbox({ workflow, storage });
    for (let n = 0; n < SIZE.processes; n++) start();
    const produce = async (): Promise<void> => {
      for (let n = 1; n <= SIZE.events; n++) {
        // Not faster than it is handled: the emulator looks through all blobs there are for every listing.
        const enough = (n - MAX_AHEAD) * SIZE.orders * SIZE.subscriptions;
        await vi.waitFor(async () => expect((await starts()).length).toBeGreaterThanOrEqual(enough), {
          timeout: SIZE.timeoutMs,
          interval: 200,
        });
        await Promise.all(
          orderIds.map((orderId) => outbox.commit(orderId, () => ({ state: { committed: n }, events: [{ type: "step", data: { n } }] }))),
        );
      }
    };
    const total = SIZE.subscriptions * SIZE.orders * SIZE.events;
    const murder = async (): Promise<void> => {
      // Evenly over the run; the one that has started a handler last is in the middle of something.
      for (let n = 1; n <= SIZE.kills; n++) {
        const victim = await vi.waitFor(
          async () => {
            const begun = await starts();
            expect(begun.length).toBeGreaterThanOrEqual((n * total) / (SIZE.kills + 1));
            const busy = [...children].find(({ pid }) => pid === processOf(begun.at(-1)));
            expect(busy).toBeDefined();
            return busy!;
          },
          { timeout: SIZE.timeoutMs, interval: 10 },
        );
        await kill(victim);
        start();
      }
    };
    await Promise.all([produce(), murder()]);
    // With every wake-up used up by a process that was killed, the sweep is what finds an order (G5); it runs beside the workers.
    await using _schedule = startSchedule({
      sweeper: createSweeper({ storage }),
      reconciler: createReconciler({ storage }),
      cleaner: createCleaner({ storage }),
      sweepIntervalMs: 20_000,
    });
    const left = async (): Promise<number> => (await Array.fromAsync(storage.blobs.list("events", ""))).length;
    await vi.waitFor(
      async () => {
        const report = auditStreams(await starts(), subscriptions, orderIds, SIZE.events);
        expect(report.problems).toEqual([]);
        expect(await left()).toBe(0);
      },
      { timeout: SIZE.timeoutMs - 20_000, interval: FULL_SIZE ? 5_000 : 1_000 },
    );
    const { failed, repeated } = auditStreams(await starts(), subscriptions, orderIds, SIZE.events);
    // Each of the killed had work in hand.
    expect(new Set((await starts()).map(processOf)).size).toBeGreaterThan(SIZE.kills);
    // A kill ends at most one start of each stream that was running.
    expect(repeated).toBeLessThanOrEqual(SIZE.kills * SIZE.subscriptions * SIZE.orders);
    if (FULL_SIZE) process.stdout.write(`${(await starts()).length} starts, ${failed} failed, ${repeated} repeated by kills\n`);
    const { findings } = await verifyAll({ storage, clock: systemClock });
    expect(findings.filter(({ kind }) => kind !== "moving")).toEqual([]);
  },
);
