/** Child process: a worker with the subscriptions of the run, which write down what they have handled. It may be killed at any moment. */
import { shipmentWorkflow } from "../shipment/workflow.ts";
import { connectStorage } from "../storage/connect.ts";
import { startWorkerHost, type WorkerHost } from "../worker/host.ts";
import { createWorker } from "../worker/worker.ts";
import { childLogger } from "./child-logger.ts";
import { HandledLogWriter } from "./handled-log.ts";
import { CALL_REPORT_INTERVAL_MS, type FromWorker, type StartWorker, type ToWorker } from "./messages.ts";
import { connectToParent } from "./parent-channel.ts";
import { createRunSubscriptions, deployedSubscriptions } from "./subscriptions.ts";

/** A run is watched by somebody: new events shall not wait for the seconds that an idle host may take to look again. */
const POLL_MAX_MS = 500;
const STOP_GRACE_MS = 10_000;

interface Running {
  readonly host: WorkerHost;
  reportCalls(): Promise<void>;
}

let running: Running | undefined;

const send = connectToParent<ToWorker, FromWorker>((message) => {
  if (message.kind === "stop") void stop();
  else running = start(message);
});

function start(settings: StartWorker): Running {
  const { connectionString, handledLog, leaseMs } = settings;
  const storage = connectStorage({ connectionString });
  const subscriptions = createRunSubscriptions(deployedSubscriptions(), settings, new HandledLogWriter(handledLog));
  const worker = createWorker({
    workflow: shipmentWorkflow,
    subscriptions,
    storage,
    lease: { durationMs: leaseMs },
    logger: childLogger,
  });
  const host = startWorkerHost({
    worker,
    wakeUps: storage.wakeUps,
    // A killed worker's wake-ups and leases come back at about the same time.
    visibilityMs: leaseMs,
    pollMaxMs: POLL_MAX_MS,
    stopGraceMs: STOP_GRACE_MS,
    logger: childLogger,
  });
  const reportCalls = (): Promise<void> => send({ kind: "calls", calls: storage.calls.snapshot() });
  setInterval(() => void reportCalls(), CALL_REPORT_INTERVAL_MS).unref();
  void send({ kind: "started" });
  return { host, reportCalls };
}

async function stop(): Promise<void> {
  await running?.host.stop();
  await running?.reportCalls();
  process.exit(0);
}
