/**
 * Many subscriptions in real processes that are killed in the middle of something, on Azurite: each subscription's own log is audited. One way
 * to run it for the small size of every day and for the full size of the proof.
 */
import { fork, type ChildProcess } from "node:child_process";
import { once } from "node:events";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { expect, vi } from "vitest";
import { encodeOrderId, parseOrderId } from "../../src/core/order-id.ts";
import { seededRandom } from "../../src/local/seeded-random.ts";
import { createCleaner } from "../../src/operations/cleanup.ts";
import { createReconciler } from "../../src/operations/reconcile.ts";
import { startSchedule } from "../../src/operations/schedule.ts";
import { createSweeper } from "../../src/operations/sweep.ts";
import type { Finding } from "../../src/operations/finding.ts";
import { verifyAll } from "../../src/operations/verify.ts";
import { createOutbox } from "../../src/producer/outbox.ts";
import { systemClock } from "../../src/system/clock.ts";
import { connectTestStorage, type TestStorage } from "../support/azurite-storage.ts";
import { auditStreams, type StreamAudit } from "../support/stream-audit.ts";
import { FanOutLog } from "./fan-out-log.ts";
import { workflow } from "./fixtures/steps.ts";

const WORKER = fileURLToPath(new URL("fixtures/fan-out-process.ts", import.meta.url));
/** Events of each order that are committed ahead of what is handled: every kill meets both, work in hand and work to come. */
const MAX_AHEAD = 4;
/** The emulator has one thread and may have a lot to do. */
const CALL_TIMEOUT_MS = 60_000;
const LOG_INTERVAL_MS = 10;
const SWEEP_INTERVAL_MS = 20_000;

export interface FanOutSize {
  readonly subscriptions: number;
  readonly orders: number;
  /** Of each order; each subscription gets all of them. */
  readonly events: number;
  readonly processes: number;
  readonly kills: number;
  readonly timeoutMs: number;
}

export interface FanOutReport {
  readonly seed: number;
  readonly seconds: number;
  readonly events: number;
  readonly handlerCalls: number;
  readonly failed: number;
  readonly kills: number;
  /** Holdings that were neither given back nor ended by a kill. */
  readonly lostLeases: number;
  /** Handler calls after the event had been handled: each one's holder was killed or has lost the lease. */
  readonly repeated: number;
  readonly doubled: number;
  readonly outOfOrder: number;
  readonly lost: number;
}

/**
 * Runs it to its end, and expects of it: nothing missing, nothing out of order, nothing doubled but by a kill or a lost lease.
 *
 * @param seed which handler calls fail, how long they take, and when processes are killed
 */
export async function runFanOut(size: FanOutSize, seed: number, connectionString: string): Promise<FanOutReport> {
  const startedAt = Date.now();
  await using scene = await FanOutScene.start(size, seed, connectionString);
  await Promise.all([scene.produce(), scene.murder()]);
  const { audit, unfinished } = await scene.finish();
  const { log } = scene;
  expect(audit.problems).toEqual([]);
  expect(unfinished).toEqual([]);
  expect(log.ghosts).toEqual([]);
  // Each of the killed had work in hand.
  expect(log.pids.size).toBeGreaterThan(size.kills);
  expect(audit.failed).toBeGreaterThan(0);
  // Whoever breaks off has one start of each stream running at most.
  expect(audit.repeated).toBeLessThanOrEqual(log.brokenOff.length * size.subscriptions);
  expect(await scene.findings()).toEqual([]);
  return {
    seed,
    seconds: Math.round((Date.now() - startedAt) / 1_000),
    events: size.orders * size.events,
    handlerCalls: log.starts.length,
    failed: audit.failed,
    kills: scene.killed.size,
    lostLeases: log.brokenOff.filter((pid) => !scene.killed.has(pid)).length,
    repeated: audit.repeated,
    doubled: audit.doubled,
    outOfOrder: audit.outOfOrder,
    lost: audit.lost,
  };
}

class FanOutScene implements AsyncDisposable {
  readonly log: FanOutLog;
  readonly killed = new Set<number>();
  readonly #size: FanOutSize;
  readonly #seed: number;
  readonly #connectionString: string;
  readonly #storage: TestStorage;
  readonly #folder: string;
  readonly #orderIds: readonly string[];
  readonly #children = new Set<ChildProcess>();

  static async start(size: FanOutSize, seed: number, connectionString: string): Promise<FanOutScene> {
    const storage = await connectTestStorage({ connectionString, callTimeoutMs: CALL_TIMEOUT_MS });
    const folder = await mkdtemp(join(tmpdir(), "ordered-outbox-"));
    await writeFile(join(folder, "log"), "");
    const scene = new FanOutScene(size, seed, { connectionString, storage, folder });
    for (let n = 0; n < size.processes; n++) scene.#startWorker();
    return scene;
  }

  private constructor(
    size: FanOutSize,
    seed: number,
    { connectionString, storage, folder }: { readonly connectionString: string; readonly storage: TestStorage; readonly folder: string },
  ) {
    this.#size = size;
    this.#seed = seed;
    this.#connectionString = connectionString;
    this.#storage = storage;
    this.#folder = folder;
    this.#orderIds = Array.from({ length: size.orders }, (_, index) => `o-${index}`);
    this.log = new FanOutLog(join(folder, "log"));
  }

  async [Symbol.asyncDispose](): Promise<void> {
    for (const child of this.#children) await this.#kill(child);
    await rm(this.#folder, { recursive: true });
  }

  /** Commits all events, order by order at the same time. */
  async produce(): Promise<void> {
    const { events, orders, subscriptions, timeoutMs } = this.#size;
    const outbox = createOutbox({ workflow, storage: this.#storage });
    for (let n = 1; n <= events; n++) {
      const enough = (n - MAX_AHEAD) * orders * subscriptions;
      await vi.waitUntil(() => this.log.read().starts.length >= enough, { timeout: timeoutMs, interval: 100 });
      await Promise.all(
        this.#orderIds.map((orderId) =>
          outbox.commit(orderId, () => ({ state: { committed: n }, events: [{ type: "step", data: { n } }] })),
        ),
      );
    }
  }

  /** Kills over the whole run; the one that has started a handler last is in the middle of something. */
  async murder(): Promise<void> {
    const { subscriptions, orders, events, kills, timeoutMs } = this.#size;
    const total = subscriptions * orders * events;
    const random = seededRandom(this.#seed);
    for (let n = 0; n < kills; n++) {
      const at = ((n + 0.5 + random() / 2) * total) / (kills + 1);
      const busy = (): ChildProcess | undefined => [...this.#children].find(({ pid }) => pid === this.log.busy);
      const victim = await vi.waitUntil(() => (this.log.read().starts.length >= at ? busy() : undefined), {
        timeout: timeoutMs,
        interval: LOG_INTERVAL_MS,
      });
      this.killed.add(victim.pid!);
      await this.#kill(victim);
      this.#startWorker();
    }
  }

  /**
   * Waits until all is handled and archived, or for too long. With every wake-up used up by processes that were killed, the sweep is what finds
   * an order (G5).
   */
  async finish(): Promise<{ readonly audit: StreamAudit; readonly unfinished: readonly string[] }> {
    const { subscriptions, events, timeoutMs } = this.#size;
    await using _schedule = startSchedule({
      sweeper: createSweeper({ storage: this.#storage }),
      reconciler: createReconciler({ storage: this.#storage }),
      cleaner: createCleaner({ storage: this.#storage }),
      sweepIntervalMs: SWEEP_INTERVAL_MS,
    });
    const names = Array.from({ length: subscriptions }, (_, index) => `s-${index}`);
    const orders = this.#orderIds.map((orderId) => encodeOrderId(parseOrderId(orderId)));
    const audit = (): StreamAudit => auditStreams(this.log.read().starts, names, orders, events);
    const unfinished = async (): Promise<readonly string[]> =>
      (await Array.fromAsync(this.#storage.blobs.list("events", ""))).map(({ name }) => name);
    const isDone = async (): Promise<boolean> => audit().problems.length === 0 && (await unfinished()).length === 0;
    await vi.waitUntil(isDone, { timeout: timeoutMs, interval: 1_000 }).catch(() => undefined);
    return { audit: audit(), unfinished: await unfinished() };
  }

  async findings(): Promise<readonly Finding[]> {
    const { findings } = await verifyAll({ storage: this.#storage, clock: systemClock });
    return findings.filter(({ kind }) => kind !== "moving");
  }

  #startWorker(): void {
    const args = [this.#storage.prefix, join(this.#folder, "log"), this.#size.subscriptions, CALL_TIMEOUT_MS, this.#seed].map(String);
    this.#children.add(fork(WORKER, args, { execArgv: [], env: { ...process.env, TEST_CONNECTION_STRING: this.#connectionString } }));
  }

  async #kill(child: ChildProcess): Promise<void> {
    this.#children.delete(child);
    const ended = once(child, "exit");
    child.kill("SIGKILL");
    await ended;
  }
}
