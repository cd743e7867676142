/** What can be compared: something that commits events to orders, and a worker that handles them. */
import type { HttpClient } from "@azure/core-rest-pipeline";
import { addCounts, subtractCounts, type CallCounts } from "../../src/storage/call-counter.ts";
import type { WakeUpQueue } from "../../src/core/ports.ts";
import { createOutbox } from "../../src/producer/outbox.ts";
import type { Worker } from "../../src/worker/round-result.ts";
import { startWorkerHost } from "../../src/worker/host.ts";
import { createWorker } from "../../src/worker/worker.ts";
import { connect, freshPrefix } from "./account.ts";
import { startNaiveHost } from "./naive-host.ts";
import { NaivePipeline, type WhenTaken } from "./naive.ts";
import type { RunningHost } from "./until-handled.ts";
import { steps, subscription, workflow } from "./workflow.ts";

export type Handle = (orderId: string) => Promise<void> | void;

export interface Contender {
  readonly name: string;
  /** One change of an order with so many events. */
  readonly commit: (orderId: string, events: number) => Promise<void>;
  readonly worker: (handle: Handle) => Worker;
  readonly wakeUps: WakeUpQueue;
  /** A host around a worker of its own, as another process would have it. */
  readonly startHost: (handle: Handle, options: { readonly concurrency: number; readonly pollMs: number }) => RunningHost;
  /** Every request so far. */
  readonly calls: () => CallCounts;
}

export async function createProduct(
  connectionString: string,
  httpClient: HttpClient,
  subscriptions: readonly string[] = ["audit"],
): Promise<Contender> {
  const prefix = freshPrefix();
  await connect(connectionString, prefix).createResources();
  const storage = connect(connectionString, prefix, httpClient);
  const outbox = createOutbox({ workflow, storage });
  const worker = (handle: Handle): Worker =>
    createWorker({ workflow, subscriptions: subscriptions.map((name) => subscription(name, ({ orderId }) => handle(orderId))), storage });
  const { wakeUps } = storage;
  return {
    name: "this package",
    commit: async (orderId, events) => void (await outbox.commit(orderId, steps(1, events))),
    worker,
    wakeUps,
    startHost: (handle, { concurrency, pollMs }) => {
      const host = startWorkerHost({ worker: worker(handle), wakeUps, concurrency, pollMinMs: pollMs, pollMaxMs: pollMs });
      return { inFlight: () => host.status().inFlight, stop: () => host.stop({ abortNow: true }) };
    },
    calls: () => storage.calls.snapshot(),
  };
}

export async function createNaive(connectionString: string, httpClient: HttpClient, whenTaken: WhenTaken = "wait"): Promise<Contender> {
  const prefix = freshPrefix();
  await connect(connectionString, prefix).createResources();
  const storage = connect(connectionString, prefix, httpClient);
  const naive = new NaivePipeline(connectionString, prefix, httpClient);
  return {
    name: "naive",
    commit: (orderId, events) => naive.commit(orderId, events),
    worker: (handle) => naive.worker(handle, whenTaken),
    wakeUps: storage.wakeUps,
    startHost: (handle, options) => startNaiveHost(naive.worker(handle, whenTaken), storage.wakeUps, options),
    calls: () => addCounts(naive.calls.snapshot(), storage.calls.snapshot()),
  };
}

/** Serves wake-ups as they are there, one after another, without a pause and without a look too many: the least that a host can do. */
export async function serve({ wakeUps }: Pick<Contender, "wakeUps">, worker: Worker, count: number): Promise<void> {
  for (let served = 0; served < count;) {
    const messages = await wakeUps.receive(Math.min(32, count - served), 30_000);
    for (const { text, receipt } of messages) {
      await worker.handle(JSON.parse(text) as string);
      await wakeUps.delete(receipt);
      served += 1;
    }
  }
}

/** The calls that `work` makes. */
export async function callsOf(contender: Pick<Contender, "calls">, work: () => Promise<void>): Promise<CallCounts> {
  const before = contender.calls();
  await work();
  return subtractCounts(contender.calls(), before);
}
