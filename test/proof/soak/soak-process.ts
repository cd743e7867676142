/**
 * Producers, worker hosts, sweeps and operators in one process, for `--minutes`, against the account of ORDERED_OUTBOX_CONNECTION_STRING.
 * Needs `--expose-gc`. Tells samples and totals by IPC.
 */
import { subscribe } from "node:diagnostics_channel";
import type { Socket } from "node:net";
import { parseArgs } from "node:util";
import { setTimeout as delay } from "node:timers/promises";
import { z } from "zod";
import { isOutboxError } from "../../../src/core/errors.ts";
import { PermanentError } from "../../../src/core/retry.ts";
import { defineSubscription, defineWorkflow } from "../../../src/core/workflow.ts";
import { seededRandom } from "../../../src/local/seeded-random.ts";
import { createCleaner } from "../../../src/operations/cleanup.ts";
import { decideMany } from "../../../src/operations/decide-many.ts";
import { explain } from "../../../src/operations/explain.ts";
import { listOrders } from "../../../src/operations/orders.ts";
import { pause, resume } from "../../../src/operations/pauses.ts";
import { createReconciler } from "../../../src/operations/reconcile.ts";
import { startSchedule } from "../../../src/operations/schedule.ts";
import { readStatus } from "../../../src/operations/status.ts";
import { createSweeper } from "../../../src/operations/sweep.ts";
import { createOutbox } from "../../../src/producer/outbox.ts";
import { connectStorage } from "../../../src/storage/connect.ts";
import { startWorkerHost } from "../../../src/worker/host.ts";
import { createWorker } from "../../../src/worker/worker.ts";
import { Load } from "./load.ts";
import type { Sample, SoakMessage } from "./messages.ts";

const PRODUCERS = 2;
const HOSTS = 2;
const SUBSCRIPTIONS = ["carrier", "mail"] as const;
const COMMITS_AN_ORDER = 5;
const MAX_EVENTS_A_COMMIT = 3;
const COMMIT_PAUSE_MS = 300;
const OPERATOR_PAUSE_MS = 5_000;
const SWEEP_MS = 10_000;
const CLEANUP_MS = 60_000;
const SAMPLES = 60;
const MIN_SAMPLE_MS = 2_000;
/** Of handler starts. */
const FAILING = 0.02;
const DYING = 0.005;
const MAX_DRAIN_MS = 180_000;
const MAX_TRIES = 10;
const OPERATOR = { actor: "soak", reason: "mixed load" };

const { values } = parseArgs({ options: { minutes: { type: "string", default: "60" }, seed: { type: "string", default: "1" } } });
const durationMs = Number(values.minutes) * 60_000;
const random = seededRandom(Number(values.seed));
const connectionString = process.env["ORDERED_OUTBOX_CONNECTION_STRING"]!;
const collect = globalThis.gc!;

let calls = 0;
const connect = () => connectStorage({ connectionString, onCall: () => void calls++ });
const workflow = defineWorkflow({
  name: "soak",
  state: z.object({ commits: z.number() }),
  events: { step: z.object({ n: z.number(), text: z.string() }) },
});
const load = new Load(SUBSCRIPTIONS);
const problems: string[] = [];
let operatorActs = 0;

const subscriptions = SUBSCRIPTIONS.map((name) =>
  defineSubscription(workflow, {
    name,
    retry: { shortStarts: 2, shortDelayMs: 100, longDelayMs: 1_000 },
    handle: (event) => {
      const chance = random();
      if (chance < DYING) throw new PermanentError("no such carrier");
      if (chance < FAILING) throw new Error("carrier is down");
      load.onHandled(name, event.orderId, event.sequence);
    },
  }),
);

const ended = new AbortController();
const rest = (ms: number): Promise<boolean> =>
  delay(ms, undefined, { signal: ended.signal }).then(
    () => true,
    () => false,
  );

/** An emulator on a busy machine may be late for longer than a call waits; everything here may be repeated. */
async function patiently<T>(act: () => Promise<T>): Promise<T> {
  for (let tries = 1; ; tries++) {
    try {
      return await act();
    } catch (error) {
      if (!isOutboxError(error, "timeout", "unavailable", "outcome-unknown") || tries === MAX_TRIES || ended.signal.aborted) throw error;
    }
  }
}

/** One order after another, each with several commits. */
async function produce(name: string): Promise<void> {
  const outbox = createOutbox({ workflow, storage: connect() });
  for (let count = 1; !ended.signal.aborted; count++) {
    const orderId = `${name}-${count}`;
    load.begin(orderId);
    for (let commit = 0; commit < COMMITS_AN_ORDER; commit++) {
      const events = Array.from({ length: 1 + Math.floor(random() * MAX_EVENTS_A_COMMIT) }, (_each, n) => ({
        type: "step" as const,
        data: { n, text: "x".repeat(200) },
      }));
      const { sequence } = await patiently(() =>
        outbox.commit(orderId, (state) => ({ state: { commits: (state?.commits ?? 0) + 1 }, events }), { idempotencyKey: String(commit) }),
      );
      load.onCommitted(orderId, sequence);
      if (!(await rest(COMMIT_PAUSE_MS * (0.5 + random())))) break;
    }
    load.close(orderId);
  }
}

/** Looks, pauses and resumes, and runs dead letters again. */
async function operate(): Promise<void> {
  const storage = connect();
  const context = { storage };
  for (let turn = 0; await rest(OPERATOR_PAUSE_MS); turn++) {
    const acts = [
      () => readStatus(context),
      () => listOrders(context),
      () => decideMany(context, "redrive", {}, OPERATOR),
      () => explain(context, "p1-1"),
      () => pause(context, { subscription: "mail" }, OPERATOR),
      () => resume(context, { subscription: "mail" }, OPERATOR),
    ];
    await patiently<unknown>(acts[turn % acts.length]!);
    operatorActs += 1;
  }
  await resume(context, { subscription: "mail" }, OPERATOR).catch(ignoreOurs);
}

function ignoreOurs(error: unknown): void {
  if (!isOutboxError(error)) throw error;
}

/** Dead letters and parked events of the load are finished too. */
async function drain(): Promise<void> {
  const context = { storage: connect() };
  const until = Date.now() + MAX_DRAIN_MS;
  while (load.open > 0 && Date.now() < until) {
    await patiently(() => decideMany(context, "redrive", {}, OPERATOR));
    await delay(1_000);
  }
}

/** Also those that are kept for later, which keep no process alive. */
let sockets = 0;
subscribe("net.client.socket", (message) => {
  sockets += 1;
  (message as { socket: Socket }).socket.once("close", () => void sockets--);
});

let lastCalls = 0;
let lastEvents = 0;
function sample(): Sample {
  collect();
  const { heapUsed, rss } = process.memoryUsage();
  const resources = process.getActiveResourcesInfo();
  const taken = {
    heapBytes: heapUsed,
    rssBytes: rss,
    handles: resources.length,
    sockets,
    timers: resources.filter((name) => name === "Timeout").length,
    calls: calls - lastCalls,
    events: load.committed - lastEvents,
  };
  [lastCalls, lastEvents] = [calls, load.committed];
  return taken;
}

function tell(message: SoakMessage): void {
  process.send!(message);
}

process.on("disconnect", () => process.exit());
await connect().createResources();
await using stack = new AsyncDisposableStack();
for (let index = 0; index < HOSTS; index++) {
  const storage = connect();
  stack.use(startWorkerHost({ worker: createWorker({ workflow, subscriptions, storage }), wakeUps: storage.wakeUps, pollMaxMs: 1_000 }));
}
const swept = connect();
stack.use(
  startSchedule({
    sweeper: createSweeper({ storage: swept }),
    reconciler: createReconciler({ storage: swept }),
    cleaner: createCleaner({ storage: swept }),
    sweepIntervalMs: SWEEP_MS,
    reconcileIntervalMs: SWEEP_MS,
    cleanupIntervalMs: CLEANUP_MS,
  }),
);
const work = Promise.all([...Array.from({ length: PRODUCERS }, (_each, index) => produce(`p${index + 1}`)), operate()]).catch(
  (error: unknown) => {
    problems.push(String((error as Error)?.stack ?? error));
    ended.abort();
  },
);
const intervalMs = Math.max(MIN_SAMPLE_MS, durationMs / SAMPLES);
for (let at = 0; at < durationMs && (await rest(intervalMs)); at += intervalMs) tell({ sample: sample() });
ended.abort();
await work;
await drain();
await stack.disposeAsync();
tell({
  totals: {
    committed: load.committed,
    handled: load.handled,
    operatorActs,
    duplicates: load.duplicates,
    outOfOrder: load.outOfOrder,
    missing: load.missing,
    problems,
  },
});
process.disconnect();
