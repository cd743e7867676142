/** The product at work: producers and worker hosts in this process, from the first commit until the last event is archived. */
import { addCounts, NO_CALLS, type CallCounts } from "../../src/storage/call-counter.ts";
import { inLanes } from "../../src/operations/lanes.ts";
import { createOutbox } from "../../src/producer/outbox.ts";
import { startWorkerHost } from "../../src/worker/host.ts";
import { createWorker } from "../../src/worker/worker.ts";
import { connect, freshPrefix } from "./account.ts";
import { ownCpuMs } from "../emulator/own-cpu.ts";
import { RecordingClient, type Recording } from "./recording-client.ts";
import { untilHandled } from "./until-handled.ts";
import { orderName, steps, subscription, workflow } from "./workflow.ts";

export interface Workload {
  readonly orders: number;
  /** Of each order, one after another; the orders take turns. */
  readonly commits: number;
  readonly eventsPerCommit: number;
  readonly producers: number;
  /** Commits that a producer has under way at once. */
  readonly lanes: number;
  readonly workers: number;
  /** Of each worker's host. */
  readonly concurrency: number;
  /** Orders are numbered from here. Default 0. */
  readonly firstOrder?: number;
  /** True: workers start when everything is committed, and only their part is measured. */
  readonly afterwards?: boolean;
}

export interface PipelineRun {
  readonly events: number;
  readonly ms: number;
  readonly eventsPerSecond: number;
  readonly calls: CallCounts;
  readonly callsPerEvent: number;
  /** Processor time of this process, an event. */
  readonly cpuMsPerEvent: number;
  /** The longest time in which no handler was called. */
  readonly longestPauseMs: number;
  readonly recording: Recording;
}

/** Far longer than a run takes on a busy machine. */
const DEADLINE_MS = 240_000;

/** @param prefix a corner that has been used already; default: a fresh one */
export async function runPipeline(connectionString: string, workload: Workload, prefix: string = freshPrefix()): Promise<PipelineRun> {
  const client = new RecordingClient();
  await connect(connectionString, prefix).createResources();
  const producers = Array.from({ length: workload.producers }, () => connect(connectionString, prefix, client));
  const workers = Array.from({ length: workload.workers }, () => connect(connectionString, prefix, client));
  const events = workload.orders * workload.commits * workload.eventsPerCommit;

  const produce = (): Promise<unknown> => Promise.all(producers.map((storage, index) => commitAll(storage, workload, index)));
  if (workload.afterwards === true) await produce();

  client.reset();
  for (const { calls } of [...producers, ...workers]) calls.reset();
  const cpuBefore = ownCpuMs();
  return untilHandled({
    name: `${workload.orders} orders × ${workload.commits * workload.eventsPerCommit} events`,
    events,
    deadlineMs: DEADLINE_MS,
    startHosts: (handle) =>
      workers.map((storage) => {
        const host = startWorkerHost({
          worker: createWorker({ workflow, subscriptions: [subscription("audit", handle)], storage }),
          wakeUps: storage.wakeUps,
          concurrency: workload.concurrency,
        });
        return { inFlight: () => host.status().inFlight, stop: () => host.stop({ abortNow: true }) };
      }),
    work: workload.afterwards === true ? async () => {} : produce,
    result: ({ ms, longestPauseMs }) => {
      const calls = [...producers, ...workers].map((storage) => storage.calls.snapshot()).reduce(addCounts, NO_CALLS);
      return {
        events,
        ms,
        eventsPerSecond: (events / ms) * 1_000,
        calls,
        callsPerEvent: calls.total / events,
        cpuMsPerEvent: (ownCpuMs() - cpuBefore) / events,
        longestPauseMs,
        recording: client.recording(),
      };
    },
  });
}

async function commitAll(storage: ReturnType<typeof connect>, workload: Workload, producer: number): Promise<void> {
  const outbox = createOutbox({ workflow, storage });
  const { firstOrder: first = 0, eventsPerCommit } = workload;
  const own = Array.from({ length: workload.orders }, (_, n) => n).filter((n) => n % workload.producers === producer);
  for (let commit = 0; commit < workload.commits; commit++) {
    const change = steps(commit * eventsPerCommit + 1, eventsPerCommit);
    await inLanes(own, workload.lanes, (n) => outbox.commit(orderName(first + n), change));
  }
}
