/** One worker host: how much it does by its concurrency, what an order in work takes of memory, and where the processor time goes. */
import { Session } from "node:inspector/promises";
import { inLanes } from "../../../src/operations/lanes.ts";
import { createOutbox } from "../../../src/producer/outbox.ts";
import { createWorker } from "../../../src/worker/worker.ts";
import { connect, freshPrefix } from "../account.ts";
import type { Emulator } from "../../emulator/emulator.ts";
import { usedBytes } from "../memory.ts";
import { runPipeline, type PipelineRun, type Workload } from "../pipeline.ts";
import { summarizeProfile, type CpuProfile, type ProfileSummary, type Share } from "../profile-summary.ts";
import { short, type PartContext, type PartResult, type Table } from "../result.ts";
import { orderName, steps, subscription, workflow } from "../workflow.ts";

const CONCURRENCIES = [1, 4, 16, 64] as const;
const HOST: Workload = {
  orders: 200,
  commits: 1,
  eventsPerCommit: 1,
  producers: 1,
  lanes: 16,
  workers: 1,
  concurrency: 16,
  afterwards: true,
};
const PROFILED: Workload = { orders: 100, commits: 4, eventsPerCommit: 1, producers: 4, lanes: 4, workers: 4, concurrency: 16 };
const IN_WORK = 256;
const COMMIT_LANES = 16;
const SAMPLE_EVERY_MICROS = 250;

export async function run({ connectionString }: Emulator, { tell }: PartContext): Promise<PartResult> {
  tell("warming up");
  await runPipeline(connectionString, HOST);
  const rows: string[][] = [];
  for (const concurrency of CONCURRENCIES) {
    tell(`concurrency ${concurrency}`);
    const each = await runPipeline(connectionString, { ...HOST, concurrency });
    rows.push([
      String(concurrency),
      short(each.eventsPerSecond),
      each.callsPerEvent.toFixed(2),
      short(each.cpuMsPerEvent),
      `${Math.round((each.cpuMsPerEvent * each.eventsPerSecond) / 10)} %`,
    ]);
  }
  tell("memory of orders in work");
  const bytes = await bytesInWork(connectionString);
  tell("a CPU profile");
  const { summary, pipeline } = await profile(connectionString);
  return {
    figures: [],
    tables: [
      {
        title: "One host, by concurrency (worker's part alone)",
        columns: ["concurrency", "events/s", "calls/event", "CPU ms/event", "of a core"],
        rows,
      },
      profileTable(summary),
    ],
    notes: [
      `An order in work takes ${short(bytes / 1_024)} KiB of memory (${IN_WORK} at once, each within its handler, after garbage collection).`,
      `Where the processor time goes (producers and workers together, ${short(pipeline.cpuMsPerEvent)} ms an event): ${summary.groups
        .map(({ name, share }) => `${name} ${percent(share)}`)
        .join(", ")}. The dearest function: ${dearest(summary)}.`,
    ],
  };
}

/** Heap and buffers that an order takes while its handler runs. */
async function bytesInWork(connectionString: string): Promise<number> {
  const prefix = freshPrefix();
  const storage = connect(connectionString, prefix);
  await storage.createResources();
  const outbox = createOutbox({ workflow, storage });
  const names = Array.from({ length: IN_WORK }, (_, n) => orderName(n));
  await inLanes(names, COMMIT_LANES, (name) => outbox.commit(name, steps(1, 1)));

  const open = Promise.withResolvers<void>();
  const allStarted = Promise.withResolvers<void>();
  let started = 0;
  const worker = createWorker({
    workflow,
    storage,
    subscriptions: [
      subscription("audit", async () => {
        started += 1;
        if (started === IN_WORK) allStarted.resolve();
        await open.promise;
      }),
    ],
  });
  const before = usedBytes();
  const rounds = names.map((name) => worker.handle(name, { capacity: IN_WORK }));
  await allStarted.promise;
  const during = usedBytes();
  open.resolve();
  await Promise.all(rounds);
  return (during - before) / IN_WORK;
}

async function profile(connectionString: string): Promise<{ readonly summary: ProfileSummary; readonly pipeline: PipelineRun }> {
  const session = new Session();
  session.connect();
  try {
    await session.post("Profiler.enable");
    await session.post("Profiler.setSamplingInterval", { interval: SAMPLE_EVERY_MICROS });
    await session.post("Profiler.start");
    const pipeline = await runPipeline(connectionString, PROFILED);
    const { profile: taken } = await session.post("Profiler.stop");
    return { summary: summarizeProfile(taken as CpuProfile), pipeline };
  } finally {
    session.disconnect();
  }
}

function profileTable({ functions }: ProfileSummary): Table {
  return {
    title: "Where the processor time goes",
    detail: true,
    columns: ["function", "share"],
    rows: functions.slice(0, 12).map(({ name, share }: Share) => [name, percent(share)]),
  };
}

function dearest({ functions: [first] }: ProfileSummary): string {
  return first === undefined ? "none" : `${first.name}, ${percent(first.share)}`;
}

function percent(share: number): string {
  return `${(share * 100).toFixed(1)} %`;
}
