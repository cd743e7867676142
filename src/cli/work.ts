/** `ordered-outbox work`: the worker as a process of its own, for a container or VM, with the schedule of what heals by itself (G5). */
import { Option, type Command } from "commander";
import type { Logger } from "../core/logger.ts";
import { createCleaner } from "../operations/cleanup.ts";
import { createReconciler } from "../operations/reconcile.ts";
import { startSchedule, SWEEP_INTERVAL_MS, type Schedule } from "../operations/schedule.ts";
import { createSweeper } from "../operations/sweep.ts";
import { connectStorage, type ConnectedStorage } from "../storage/connect.ts";
import { recordStorageCall } from "../system/metrics.ts";
import { startHealthServer } from "../worker/health-server.ts";
import { startWorkerHost } from "../worker/host.ts";
import { createWorker } from "../worker/worker.ts";
import { numberOption, spanOption } from "./arguments.ts";
import { addConnectionOptions, resolveConnection, type ConnectionOptions } from "./connection.ts";
import { action, EXIT, type ExitStatus, type OutputOptions } from "./exit.ts";
import { aborted, watchStopSignals } from "../system/stop-signals.ts";
import { loadWorkflowModule, type WorkflowModule } from "./workflow-module.ts";

interface WorkOptions extends ConnectionOptions, OutputOptions {
  readonly workflow: string;
  readonly concurrency?: number;
  readonly healthPort?: number;
  /** False with `--no-schedule`. */
  readonly schedule: boolean;
  readonly sweepInterval?: number;
}

interface Prepared extends WorkflowModule {
  readonly storage: ConnectedStorage;
}

export function addWorkCommand(program: Command): void {
  const command = program
    .command("work")
    .description("handle the events of all orders until SIGTERM or SIGINT; a second signal aborts the running handlers")
    .requiredOption("--workflow <module>", "file or package that exports `workflow` and `subscriptions`")
    .addOption(numberOption("--concurrency <orders>", "orders in work at once", { min: 1, max: 256, default: 16 }))
    .addOption(
      numberOption("--health-port <port>", "serve /health/live and /health/ready at this port, 0 for any that is free", {
        min: 0,
        max: 65_535,
        default: "none is served",
      }),
    )
    .addOption(spanOption("--sweep-interval <span>", "sweep at least so often, like 60s or 5m", SWEEP_INTERVAL_MS, { bareSeconds: true }))
    .addOption(
      new Option("--no-schedule", "leave sweep, reconcile and cleanup to another process; one at least must run them").conflicts(
        "sweepInterval",
      ),
    );
  addConnectionOptions(command)
    .option("--json", "log one JSON object a line")
    .option("--verbose", "log debug entries too")
    .action(action(work));
}

async function work(options: WorkOptions, logger: Logger): Promise<ExitStatus> {
  using signals = watchStopSignals();
  const prepared = await Promise.race([prepare(options), aborted(signals.stop)]);
  if (prepared === undefined) return EXIT.ok; // Nothing has been started yet.
  const { workflow, subscriptions, storage } = prepared;

  const worker = createWorker({ workflow, subscriptions, storage, logger });
  await using host = startWorkerHost({
    worker,
    wakeUps: storage.wakeUps,
    ...(options.concurrency === undefined ? {} : { concurrency: options.concurrency }),
    logger,
  });
  await using schedule = options.schedule ? startOwnSchedule(prepared, options, logger) : undefined;
  await using health =
    options.healthPort === undefined
      ? undefined
      : await startHealthServer({ port: options.healthPort, status: () => host.status(), logger });
  logger.info("the worker runs", { workflow: workflow.name, subscriptions: subscriptions.length, healthPort: health?.port });

  await aborted(signals.stop);
  logger.info("the worker stops: running handlers may finish, a second signal aborts them", { signal: String(signals.stop.reason) });
  const abortNow = (): void => void host.stop({ abortNow: true }); // Never rejects; awaited below as the same stop.
  signals.abort.addEventListener("abort", abortNow, { once: true });
  if (signals.abort.aborted) abortNow();
  // The schedule at the same time: no new wake-ups from here, and a sweep that waits for storage takes nothing of the handlers' time.
  const [{ aborted: abortedRounds, left }] = await Promise.all([host.stop(), schedule?.[Symbol.asyncDispose]()]);
  const { received, handled } = host.status();
  logger.info("the worker has stopped", { received, handled, aborted: abortedRounds, left: left.length });
  for (const orderId of left) logger.warn("a handler ignored its abort signal and is left behind; its event runs again", { orderId });
  return abortedRounds > 0 ? EXIT.aborted : EXIT.ok;
}

function startOwnSchedule({ storage, subscriptions }: Prepared, { sweepInterval }: WorkOptions, logger: Logger): Schedule {
  return startSchedule({
    // Orders of subscriptions that are gone from the module are not woken: no worker could handle their events (F10).
    sweeper: createSweeper({ storage, subscriptions: subscriptions.map(({ name }) => name), logger }),
    reconciler: createReconciler({ storage, logger }),
    cleaner: createCleaner({ storage, logger }),
    ...(sweepInterval === undefined ? {} : { sweepIntervalMs: sweepInterval }),
    logger,
  });
}

async function prepare(options: WorkOptions): Promise<Prepared> {
  const { workflow, subscriptions } = await loadWorkflowModule(options.workflow, process.cwd());
  const connection = await resolveConnection(options, process.env);
  const storage = connectStorage({
    ...connection,
    ...(options.prefix === undefined ? {} : { prefix: options.prefix }),
    onCall: recordStorageCall,
  });
  await storage.checkAccount();
  return { workflow, subscriptions, storage };
}
