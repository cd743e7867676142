/** Child process: a worker with the three subscriptions of the shipment workflow, which write down every handler call. It may be killed at any moment. */
import { setTimeout as delay } from "node:timers/promises";
import type { Subscription } from "../core/workflow.ts";
import { createAuditLog } from "../shipment/audit-log.ts";
import { createNotifier } from "../shipment/notifier.ts";
import { shipmentWorkflow } from "../shipment/workflow.ts";
import { connectStorage } from "../storage/connect.ts";
import { defineWebhook } from "../webhook/define-webhook.ts";
import { startWorkerHost, type WorkerHost } from "../worker/host.ts";
import { createWorker } from "../worker/worker.ts";
import { PARTNER, PARTNER_TYPES } from "./audited.ts";
import { childLogger } from "./child-logger.ts";
import { HandledLogWriter } from "./handled-log.ts";
import { CALL_REPORT_INTERVAL_MS, type FromWorker, type PartnerAddress, type StartWorker, type ToWorker } from "./messages.ts";
import { connectToParent } from "./parent-channel.ts";
import { WORKER_HEADER } from "./partner.ts";

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

function start({ name, connectionString, handledLog, partner, leaseMs, handlerMs }: StartWorker): Running {
  const storage = connectStorage({ connectionString });
  const log = new HandledLogWriter(handledLog);
  const subscriptions = createSubscriptions(name, log, partner, handlerMs);
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

/** Those of the shipment workflow; instead of a log, a mail gateway and a partner's server there are records for the audit. */
function createSubscriptions(worker: string, log: HandledLogWriter, partner: PartnerAddress, handlerMs: number): Subscription[] {
  const auditLog = createAuditLog((entry) => log.append({ subscription: "audit-log", worker, ...entry }));
  const notifier = createNotifier(async ({ id, orderId }) => {
    log.append({ subscription: "customer-notifier", worker, orderId, id });
    if (handlerMs > 0) await delay(handlerMs);
  });
  const webhook = defineWebhook(shipmentWorkflow, {
    name: PARTNER,
    ...partner,
    events: PARTNER_TYPES,
    headers: { [WORKER_HEADER]: worker },
    allowHttp: true,
    allowPrivateAddresses: true,
    retry: { shortDelayMs: 50, shortStarts: 10 },
  });
  // The kills are the run's own: no event is to blame for them, however many hit it.
  return [auditLog, notifier, webhook].map((own) => ({ ...own, retry: { ...own.retry, maxCrashes: 100 } }));
}

async function stop(): Promise<void> {
  await running?.host.stop();
  await running?.reportCalls();
  process.exit(0);
}
