/** Child process: a worker whose handler only passes on what it gets, to a receiver that outlives it. It may be killed or frozen at any moment. */
import { defineSubscription } from "../../../src/core/workflow.ts";
import { dataDigest } from "../../../src/local/handled-record.ts";
import { connectToParent } from "../../../src/local/parent-channel.ts";
import { shipmentWorkflow } from "../../../src/shipment/workflow.ts";
import { connectStorage } from "../../../src/storage/connect.ts";
import { startWorkerHost, type WorkerHost } from "../../../src/worker/host.ts";
import { createWorker } from "../../../src/worker/worker.ts";
import type { FromWorker, StartWorker, ToWorker } from "./messages.ts";
import type { ReceivedRecord } from "./receiver.ts";

export const SUBSCRIPTION = "recorder";

const POLL_MAX_MS = 500;
const STOP_GRACE_MS = 10_000;

let host: WorkerHost | undefined;

const send = connectToParent<ToWorker, FromWorker>((message) => {
  if (message.kind === "start") host = start(message);
  else void stop();
});

function start({ name, connectionString, receiver, leaseMs, concurrency }: StartWorker): WorkerHost {
  const storage = connectStorage({ connectionString });
  const recorder = defineSubscription(shipmentWorkflow, {
    name: SUBSCRIPTION,
    // The kills are the proof's own: no event is to blame for them.
    retry: { maxCrashes: 100, longDelayMs: 1_000, longRetries: 1_000, longMaxDelayMs: 10_000 },
    handle: async ({ orderId, id, sequence, type, time, dataText }, { signal }) => {
      const record: ReceivedRecord = {
        subscription: SUBSCRIPTION,
        worker: name,
        orderId,
        id,
        sequence,
        type,
        time,
        dataDigest: dataDigest(dataText),
      };
      const answer = await fetch(receiver, { method: "POST", body: JSON.stringify(record), signal });
      await answer.arrayBuffer();
      if (!answer.ok) throw new Error(`the receiver answered ${answer.status}`);
    },
  });
  const worker = createWorker({ workflow: shipmentWorkflow, subscriptions: [recorder], storage, lease: { durationMs: leaseMs } });
  const started = startWorkerHost({
    worker,
    wakeUps: storage.wakeUps,
    concurrency,
    visibilityMs: leaseMs,
    pollMaxMs: POLL_MAX_MS,
    stopGraceMs: STOP_GRACE_MS,
  });
  void send({ kind: "started" });
  return started;
}

async function stop(): Promise<void> {
  await host?.stop();
  process.exit(0);
}
