/** `ordered-outbox work`: the worker as a process of its own, for a container or VM. */
import { InvalidArgumentError, type Command } from "commander";
import type { Logger } from "../core/logger.ts";
import { connectStorage, type ConnectedStorage } from "../storage/connect.ts";
import { startHealthServer } from "../worker/health-server.ts";
import { startWorkerHost } from "../worker/host.ts";
import { createWorker } from "../worker/worker.ts";
import { addConnectionOptions, resolveConnection, type ConnectionOptions } from "./connection.ts";
import { action, EXIT, type ExitStatus, type OutputOptions } from "./exit.ts";
import { aborted, watchStopSignals } from "../system/stop-signals.ts";
import { loadWorkflowModule, type WorkflowModule } from "./workflow-module.ts";

interface WorkOptions extends ConnectionOptions, OutputOptions {
  readonly workflow: string;
  readonly concurrency?: number;
  readonly healthPort?: number;
}

export function addWorkCommand(program: Command): void {
  const command = program
    .command("work")
    .description("handle the events of all orders until SIGTERM or SIGINT; a second signal aborts the running handlers")
    .requiredOption("--workflow <module>", "file or package that exports `workflow` and `subscriptions`")
    .option("--concurrency <orders>", "orders in work at once, 1 to 256 (default: 16)", wholeNumberArgument)
    .option("--health-port <port>", "serve /health/live and /health/ready at this port", wholeNumberArgument);
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
  const { aborted: abortedRounds, left } = await host.stop();
  const { received, handled } = host.status();
  logger.info("the worker has stopped", { received, handled, aborted: abortedRounds, left: left.length });
  for (const orderId of left) logger.warn("a handler ignored its abort signal and is left behind; its event runs again", { orderId });
  return abortedRounds > 0 ? EXIT.aborted : EXIT.ok;
}

async function prepare(options: WorkOptions): Promise<WorkflowModule & { readonly storage: ConnectedStorage }> {
  const { workflow, subscriptions } = await loadWorkflowModule(options.workflow, process.cwd());
  const connection = await resolveConnection(options, process.env);
  const storage = connectStorage({ ...connection, ...(options.prefix === undefined ? {} : { prefix: options.prefix }) });
  await storage.checkAccount();
  return { workflow, subscriptions, storage };
}

/** Bounds are checked where the value is used. */
function wholeNumberArgument(text: string): number {
  if (!/^[0-9]{1,9}$/.test(text)) throw new InvalidArgumentError("A whole number is needed.");
  return Number(text);
}
