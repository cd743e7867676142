/** What grows with the account: orders in the table, archived events, pending orders, many keys. */
import { encodeBundle, type BundleMember } from "../../../src/core/archive-bundle.ts";
import type { EventId } from "../../../src/core/event-id.ts";
import { createCleaner } from "../../../src/operations/cleanup.ts";
import { inLanes } from "../../../src/operations/lanes.ts";
import { createReconciler } from "../../../src/operations/reconcile.ts";
import { createSweeper } from "../../../src/operations/sweep.ts";
import { RetryableError } from "../../../src/core/retry.ts";
import { createOutbox } from "../../../src/producer/outbox.ts";
import type { ConnectedStorage } from "../../../src/storage/connect.ts";
import { createWorker } from "../../../src/worker/worker.ts";
import { connect, freshPrefix } from "../account.ts";
import { callsOf } from "../contender.ts";
import type { Emulator } from "../../emulator/emulator.ts";
import { usedBytes } from "../memory.ts";
import { runPipeline, type PipelineRun, type Workload } from "../pipeline.ts";
import { short, type Figure, type PartContext, type PartResult, type Table } from "../result.ts";
import { eventText, orderName, steps, subscription, workflow } from "../workflow.ts";

const ORDERS = [1_000, 10_000, 100_000] as const;
/** Each with a blob of its own. The emulator sorts all of them for each page of a listing: it would take minutes for more. */
const ARCHIVED_ALONE = [10, 10_000] as const;
const ARCHIVED_IN_BUNDLES = [100, 100_000] as const;
const BUNDLE = 100;
const PENDING = [1, 1_000] as const;
const LANES = 16;
const PROBE: Workload = { orders: 100, commits: 1, eventsPerCommit: 1, producers: 2, lanes: 4, workers: 2, concurrency: 16 };
const MANY_KEYS: Workload = { ...PROBE, orders: 1_000, producers: 4, workers: 4 };
/** The very order that has the archive, one event after another. */
const ONE_ORDER: Workload = { ...PROBE, orders: 1, commits: 50, producers: 1, lanes: 1, workers: 1 };
const STREAM = `audit/${orderName(0)}/`;
const FINISHED_AT_MS = Date.UTC(2026, 6, 1);
const TEN_MINUTES_MS = 600_000;

interface Upkeep {
  readonly sweep: Cost;
  readonly reconcile: Cost;
  readonly cleanup: Cost;
}

interface Cost {
  readonly calls: number;
  readonly ms: number;
}

interface Row extends Upkeep {
  readonly size: number;
  readonly of: string;
  readonly probe: PipelineRun;
  readonly megabytes: number;
}

export async function run(emulator: Emulator, { tell }: PartContext): Promise<PartResult> {
  tell("warming up");
  await runPipeline(emulator.connectionString, PROBE);
  const orders = await sizes("orders in the table", ORDERS, tell, await ordersScene(emulator));
  const alone = await sizes("archived events of an order, one by one", ARCHIVED_ALONE, tell, await archiveScene(emulator));
  const bundled = await sizes("archived events of an order, in bundles", ARCHIVED_IN_BUNDLES, tell, await bundleScene(emulator));
  const pending = await sizes("orders with a parked event", PENDING, tell, await pendingScene(emulator));
  tell(`${MANY_KEYS.orders} orders with one event each`);
  const many = await runPipeline(emulator.connectionString, MANY_KEYS);
  const flat = (rows: readonly Row[]): Figure => {
    const [first, last] = [rows[0]!, rows.at(-1)!];
    return {
      name: `calls per event, ${whole(last.size)} ${last.of} ÷ ${whole(first.size)}`,
      value: last.probe.callsPerEvent / first.probe.callsPerEvent,
      unit: "×",
      goal: { atMost: 1.1 },
    };
  };
  return {
    figures: [
      ...[orders, alone, bundled, pending].map(flat),
      {
        name: `longest pause, ${whole(MANY_KEYS.orders)} orders × 1 event`,
        value: many.longestPauseMs / 1_000,
        unit: "s",
        goal: { atMost: 2 },
      },
    ],
    tables: [table([...orders, ...alone, ...bundled, ...pending])],
    notes: [
      `${PROBE.orders} orders × 1 event beside what is there already (about archives: 50 events, one after another, of the order that has the archive); then one sweep, reconcile, cleanup. The calls are exact; the milliseconds, and the events a second beside 100,000 archived ones, have in them what the emulator loses with size.`,
      "What grows: a sweep lists pending events and dead letters, 5,000 to a page, and makes two calls for each order that is due; a parked one costs its place in the listing. A cleanup, each hour, lists the archive, 500 blobs to a page: up to 50,000 events if they came in bursts. A reconcile reads up to 10 pages of the table; a real service gives up a page after 5 s of looking, the emulator never does.",
    ],
  };
}

function whole(value: number): string {
  return value.toLocaleString("en-US");
}

interface Scene {
  readonly storage: ConnectedStorage;
  /** Makes it as big as `size`. */
  grow(size: number): Promise<void>;
  probe(): Promise<PipelineRun>;
}

async function sizes(of: string, all: readonly number[], tell: PartContext["tell"], scene: Scene): Promise<readonly Row[]> {
  const rows: Row[] = [];
  for (const size of all) {
    tell(`${whole(size)} ${of}`);
    await scene.grow(size);
    const probe = await scene.probe();
    rows.push({ size, of, probe, ...(await upkeep(scene.storage)), megabytes: usedBytes() / 1_048_576 });
  }
  return rows;
}

async function upkeep(storage: ConnectedStorage): Promise<Upkeep> {
  const contender = { calls: () => storage.calls.snapshot() };
  const cost = async (work: () => Promise<unknown>): Promise<Cost> => {
    const startedAt = performance.now();
    const { total } = await callsOf(contender, async () => void (await work()));
    return { calls: total, ms: performance.now() - startedAt };
  };
  return {
    sweep: await cost(() => createSweeper({ storage }).sweep()),
    reconcile: await cost(() => createReconciler({ storage }).reconcile()),
    cleanup: await cost(() => createCleaner({ storage }).clean()),
  };
}

/** Orders whose numbers go on from probe to probe. */
function prober(emulator: Emulator, prefix: string, workload: Workload): () => Promise<PipelineRun> {
  let firstOrder = 1_000_000;
  return () => {
    firstOrder += workload.orders;
    return runPipeline(emulator.connectionString, { ...workload, firstOrder }, prefix);
  };
}

async function startScene(emulator: Emulator): Promise<{ readonly prefix: string; readonly storage: ConnectedStorage }> {
  const prefix = freshPrefix();
  const storage = connect(emulator.connectionString, prefix);
  await storage.createResources();
  await createOutbox({ workflow, storage }).commit(orderName(0), steps(1, 1));
  await createWorker({ workflow, storage, subscriptions: [subscription("audit", () => {})] }).handle(orderName(0));
  return { prefix, storage };
}

async function ordersScene(emulator: Emulator): Promise<Scene> {
  const { prefix, storage } = await startScene(emulator);
  let seeded = 0;
  return {
    storage,
    grow: async (size) => {
      await emulator.seedOrders(`${prefix}orders`, orderName(0), seeded, size - seeded);
      seeded = size;
    },
    probe: prober(emulator, prefix, PROBE),
  };
}

async function archiveScene(emulator: Emulator): Promise<Scene> {
  const { prefix, storage } = await startScene(emulator);
  let seeded = 0;
  return {
    storage,
    grow: async (size) => {
      await emulator.seedBlobs(`${prefix}-archive`, STREAM, seeded, size - seeded);
      seeded = size;
    },
    probe: () => runPipeline(emulator.connectionString, ONE_ORDER, prefix),
  };
}

async function bundleScene(emulator: Emulator): Promise<Scene> {
  const { prefix, storage } = await startScene(emulator);
  let seeded = 0;
  return {
    storage,
    grow: async (size) => {
      const firsts = Array.from({ length: (size - seeded) / BUNDLE }, (_, n) => seeded + n * BUNDLE);
      await inLanes(firsts, LANES, async (first) => {
        const { name, bytes, metadata } = encodeBundle(
          STREAM,
          Array.from({ length: BUNDLE }, (_, n) => archivedMember(first + n)),
        );
        await storage.blobs.create("archive", name, bytes, metadata);
      });
      seeded = size;
    },
    probe: () => runPipeline(emulator.connectionString, ONE_ORDER, prefix),
  };
}

/** The n-th event, from 0, of the time before the order's own ones. */
function archivedMember(n: number): BundleMember {
  const id = `01JZ${String(n).padStart(22, "0")}` as EventId;
  const bytes = new TextEncoder().encode(eventText(id, orderName(0), n + 1));
  return { id, sequence: n + 1, previous: n, attempts: 0, finishedAtMs: FINISHED_AT_MS, bytes };
}

/** Orders that wait for their next attempt in ten minutes. */
async function pendingScene(emulator: Emulator): Promise<Scene> {
  const { prefix, storage } = await startScene(emulator);
  const outbox = createOutbox({ workflow, storage });
  const worker = createWorker({
    workflow,
    storage,
    breaker: false,
    subscriptions: [
      subscription("audit", () => {
        throw new RetryableError("not now", TEN_MINUTES_MS);
      }),
    ],
  });
  let parked = 0;
  return {
    storage,
    grow: async (size) => {
      const names = Array.from({ length: size - parked }, (_, n) => `parked-${parked + n}`);
      await inLanes(names, LANES, async (name) => {
        await outbox.commit(name, steps(1, 1));
        await worker.handle(name);
      });
      parked = size;
      // Their own wake-ups, which found them parked.
      for (
        let messages = await storage.wakeUps.receive(32, 1_000);
        messages.length > 0;
        messages = await storage.wakeUps.receive(32, 1_000)
      ) {
        await Promise.all(messages.map(({ receipt }) => storage.wakeUps.delete(receipt)));
      }
    },
    probe: prober(emulator, prefix, PROBE),
  };
}

function table(rows: readonly Row[]): Table {
  const cost = ({ calls, ms }: Cost): string => `${calls} (${short(ms)} ms)`;
  return {
    title: "By what is there already",
    columns: ["what is there", "events/s", "calls/event", "sweep: calls", "reconcile: calls", "cleanup: calls", "memory, MB"],
    rows: rows.map(({ size, of, probe, sweep, reconcile, cleanup, megabytes }) => [
      `${whole(size)} ${of}`,
      short(probe.eventsPerSecond),
      probe.callsPerEvent.toFixed(2),
      cost(sweep),
      cost(reconcile),
      cost(cleanup),
      short(megabytes),
    ]),
  };
}
