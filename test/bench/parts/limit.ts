/** Raw calls per second, and how much of that the product makes of it. */
import type { Emulator } from "../../emulator/emulator.ts";
import { freshPrefix } from "../account.ts";
import { mixOf, type Mix, type Operation } from "../mix.ts";
import { runPipeline, type PipelineRun, type Workload } from "../pipeline.ts";
import { RawBench } from "../raw-bench.ts";
import type { RawRun } from "../raw-run.ts";
import { median, short, type Figure, type PartContext, type PartResult, type Table } from "../result.ts";

interface Case {
  readonly name: string;
  readonly workload: Workload;
  readonly goal: number | undefined;
  /** The workload is done in so many parts, raw calls before and after each: others may use the machine too, and a ratio has to outlive that. */
  readonly slices: number;
  /** No further part is begun after this time: a busy machine gets less done. */
  readonly budgetMs: number;
}

const HOSTS = { producers: 4, lanes: 4, workers: 4, concurrency: 16 } as const;
/** Events of a raw run: a part of the workload is enough for a rate. */
const RAW_EVENTS = 200;
const CASES: readonly Case[] = [
  {
    name: "1,000 orders × 4 events",
    workload: { orders: 125, commits: 4, eventsPerCommit: 1, ...HOSTS },
    goal: 0.8,
    slices: 8,
    budgetMs: 40_000,
  },
  {
    name: "1 order × 1,000 events",
    workload: { orders: 1, commits: 20, eventsPerCommit: 50, ...HOSTS, producers: 1, lanes: 1 },
    goal: 0.8,
    slices: 5,
    budgetMs: 25_000,
  },
  {
    name: "10,000 orders × 1 event",
    workload: { orders: 500, commits: 1, eventsPerCommit: 1, ...HOSTS },
    goal: undefined,
    slices: 20,
    budgetMs: 40_000,
  },
];
const WARM_UP: Workload = { orders: 40, commits: 4, eventsPerCommit: 1, ...HOSTS };

const OPERATION_CALLERS = 16;
const OPERATION_TIMES = 15;
const GROUPS: readonly (readonly Operation[])[] = [
  ["ReadEntity"],
  ["ReadEntity", "CommitTransaction"],
  ["QueryEntities"],
  ["DeleteEntity"],
  ["DeleteTransaction"],
  ["SendMessage"],
  ["UpdateMessage"],
  ["ReceiveMessages"],
  ["DeleteMessage"],
  ["GetBlobProperties"],
  ["LeaseAcquire", "LeaseRelease"],
  ["SetBlobMetadata"],
  ["PutBlob"],
  ["DeleteBlob"],
  ["BlobBatch"],
  ["ListBlobs"],
];

export async function run(emulator: Emulator, { tell }: PartContext): Promise<PartResult> {
  tell("warming up");
  const warm = await runPipeline(emulator.connectionString, WARM_UP);
  const raw = await RawBench.start(emulator);
  const operations = await operationsTable(raw, mixOf(warm.calls, warm.recording, warm.events), tell);
  const measured: Measured[] = [];
  for (const each of CASES) measured.push(await measureCase(emulator, raw, each, tell));
  const figures = measured.flatMap(({ goal, name, efficiency }): Figure[] =>
    goal === undefined ? [] : [{ name: `efficiency, ${name}`, value: efficiency, unit: "", goal: { atLeast: goal } }],
  );
  return {
    figures,
    tables: [efficiencyTable(measured), operations],
    notes: [
      'Efficiency: events/s ÷ (raw calls/s ÷ calls per event). Raw calls: the same operations in the same numbers through the storage room, by as many callers as the product had requests under way on average ("by peak": ever), in turns with the product. It is the median over the parts of a workload ("6 of 8 parts": then its time was over), each with raw calls of its own; the other columns are those of one part. Above 1: the raw calls had a slower moment. Producers and workers share one process, Azurite has another.',
      "A wake-up that is delivered while a round of its order runs adds calls without an event: calls per event move a little from run to run.",
    ],
  };
}

interface Measured extends Case {
  readonly product: PipelineRun;
  readonly room: RawRun;
  readonly efficiency: number;
  readonly efficiencyAtPeak: number;
}

async function measureCase({ connectionString }: Emulator, raw: RawBench, each: Case, tell: PartContext["tell"]): Promise<Measured> {
  const { workload, slices, budgetMs } = each;
  const endsAt = performance.now() + budgetMs;
  const prefix = freshPrefix();
  const products: PipelineRun[] = [];
  const ratios: number[] = [];
  const runRaw = ({ calls, recording, events }: PipelineRun, callers: number): Promise<RawRun> =>
    raw.mix(Math.max(1, Math.ceil(callers)), mixOf(calls, recording, events), RAW_EVENTS);
  const warm = await runPipeline(connectionString, { ...workload, orders: Math.min(workload.orders, 40) });
  let before = await runRaw(warm, warm.recording.parallelism.mean);
  for (let n = 0; n < slices && (n === 0 || performance.now() < endsAt); n++) {
    tell(`${each.name}: the product, ${n + 1} of ${slices}`);
    const product = await runPipeline(connectionString, { ...workload, firstOrder: n * workload.orders }, prefix);
    tell(`${each.name}: raw calls, ${n + 1} of ${slices}`);
    const after = await runRaw(product, product.recording.parallelism.mean);
    products.push(product);
    ratios.push(callsPerSecond(product) / ((before.callsPerSecond + after.callsPerSecond) / 2));
    before = after;
  }
  const product = products.toSorted((left, right) => left.eventsPerSecond - right.eventsPerSecond)[Math.floor(products.length / 2)]!;
  const { peak } = product.recording.parallelism;
  const room = before;
  const atPeak = await runRaw(product, peak);
  const efficiency = median(ratios);
  const efficiencyAtPeak = Math.min(efficiency, efficiency * (room.callsPerSecond / atPeak.callsPerSecond));
  const name = products.length === slices ? each.name : `${each.name} (${products.length} of ${slices} parts)`;
  return { ...each, name, product, room, efficiency, efficiencyAtPeak };
}

function callsPerSecond({ calls, ms }: PipelineRun): number {
  return (calls.total / ms) * 1_000;
}

async function operationsTable(raw: RawBench, mix: Mix, tell: PartContext["tell"]): Promise<Table> {
  const rows: string[][] = [];
  for (const group of GROUPS) {
    tell(`raw calls: ${group.join(", ")}`);
    const { callsPerSecond: rate, cpuMsPerCall } = await raw.operations(OPERATION_CALLERS, group, OPERATION_TIMES, mix);
    rows.push([group.join(" + "), short(rate), cpuMsPerCall.toFixed(2)]);
  }
  return {
    title: `Raw calls per second, ${OPERATION_CALLERS} callers`,
    detail: true,
    columns: ["operation", "calls/s", "CPU, ms a call"],
    rows,
  };
}

function efficiencyTable(measured: readonly Measured[]): Table {
  return {
    title: "The product against raw storage calls",
    columns: ["workload", "events/s", "calls/event", "under way, mean (peak)", "raw calls/s", "efficiency", "by peak", "CPU ms/call (raw)"],
    rows: measured.map(({ name, product, room, efficiency, efficiencyAtPeak }) => [
      name,
      short(product.eventsPerSecond),
      product.callsPerEvent.toFixed(2),
      `${short(product.recording.parallelism.mean)} (${product.recording.parallelism.peak})`,
      short(room.callsPerSecond),
      efficiency.toFixed(2),
      efficiencyAtPeak.toFixed(2),
      `${(product.cpuMsPerEvent / product.callsPerEvent).toFixed(2)} (${room.cpuMsPerCall.toFixed(2)})`,
    ]),
  };
}
