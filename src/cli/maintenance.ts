/** `ordered-outbox sweep`, `reconcile`, `cleanup` and `metrics`: by hand or from a scheduler, what workers do by themselves. */
import type { Command } from "commander";
import { createCleaner, type CleanerOptions } from "../operations/cleanup.ts";
import { createReconciler } from "../operations/reconcile.ts";
import { readStatus, type Status, type SubscriptionStatus } from "../operations/status.ts";
import { createSweeper } from "../operations/sweep.ts";
import { METRICS, type MetricName } from "../system/metrics.ts";
import { durationArgument, wholeNumberArgument } from "./arguments.ts";
import { addDryRunOption, addOperation, type OperationOptions } from "./operation.ts";
import { facts } from "./output.ts";

interface ReconcileOptions extends OperationOptions {
  readonly safetyDelay?: number;
  readonly maxPages?: number;
}

interface CleanupOptions extends OperationOptions, Partial<Omit<CleanerOptions, "storage" | "logger">> {
  readonly maxDeletes?: number;
}

export function addMaintenanceCommands(program: Command): void {
  addSweep(program);
  addReconcile(program);
  addCleanup(program);
  addMetrics(program);
}

function addSweep(program: Command): void {
  const command = program.command("sweep").description("wake all orders with pending events that nobody handles");
  addOperation(
    command,
    async ({ storage, clock, logger, signal }) => {
      const result = await createSweeper({ storage, clock, logger }).sweep({ signal });
      const { woken, marked, leased } = result;
      return { json: result, text: facts({ "Orders woken": woken, "of them with leftovers": marked, "Orders in work": leased }) };
    },
    { stoppable: true },
  );
}

function addReconcile(program: Command): void {
  const command = program
    .command("reconcile")
    .description("wake all orders whose committed events nobody relays; a bounded part of the table a run")
    .option("--safety-delay <span>", "leave younger events to their own wake-up, like 90s or 5m (default: 60s)", durationArgument)
    .option("--max-pages <pages>", "how much of the table to look at (default: 10)", wholeNumberArgument);
  addOperation<ReconcileOptions>(
    command,
    async ({ storage, clock, logger, signal }, { safetyDelay, maxPages }) => {
      const reconciler = createReconciler({ storage, clock, logger, ...(safetyDelay === undefined ? {} : { safetyDelayMs: safetyDelay }) });
      const result = await reconciler.reconcile({ signal, ...(maxPages === undefined ? {} : { maxPages }) });
      const { seen, overdue, woken, complete } = result;
      const text = facts({
        "Events in outboxes": seen,
        Overdue: overdue,
        "Orders woken": woken,
        "End of the table": complete ? "reached" : "not reached: the next run goes on",
      });
      return { json: result, text };
    },
    { stoppable: true },
  );
}

function addCleanup(program: Command): void {
  const days = (name: string): string => `--${name}-days <days>`;
  const command = program
    .command("cleanup")
    .description("remove what is finished and older than its retention; never pending events or dead letters")
    .option(days("archive"), "keep archived events (default: 7)", wholeNumberArgument)
    .option(days("discarded"), "keep archived events that an operator discarded (default: 30)", wholeNumberArgument)
    .option(days("audit"), "keep records of what operators did (default: 30)", wholeNumberArgument)
    .option(days("idempotency"), "keep the results of repeated commands (default: 7)", wholeNumberArgument)
    .option("--max-deletes <count>", "remove at most so many blobs and rows (default: 10000)", wholeNumberArgument);
  addDryRunOption(command);
  addOperation<CleanupOptions>(
    command,
    async ({ storage, logger, signal }, options) => {
      const { archiveDays, discardedDays, auditDays, idempotencyDays, maxDeletes } = options;
      const dryRun = options.dryRun === true;
      const settings = { archiveDays, discardedDays, auditDays, idempotencyDays };
      const cleaner = createCleaner({ storage, logger, ...defined(settings) });
      const result = await cleaner.clean({ signal, dryRun, ...defined({ maxDeletes }) });
      const { removed, foreign, complete } = result;
      const text = facts({
        [dryRun ? "Would be removed" : "Removed"]: Object.entries(removed)
          .map(([what, count]) => `${count} ${what}`)
          .join(", "),
        "Not ours, left alone": foreign,
        "All done": complete ? "yes" : "no: the next run goes on",
      });
      return { json: { ...result, dryRun }, text };
    },
    { stoppable: true },
  );
}

function addMetrics(program: Command): void {
  const command = program.command("metrics").description("the gauges of all subscriptions in the text format of Prometheus");
  addOperation(command, async (context) => {
    const status = await readStatus(context);
    return { json: status, text: prometheusText(status) };
  });
}

/** https://prometheus.io/docs/instrumenting/exposition_formats/ Subscription names need no escaping. */
function prometheusText({ subscriptions, ordersWithBacklog }: Status): string {
  const gauge = (name: MetricName, value: (each: SubscriptionStatus) => number): string[] => [
    `# HELP ${name} ${METRICS[name].meaning}`,
    `# TYPE ${name} gauge`,
    ...subscriptions.map((each) => `${name}{subscription="${each.subscription}"} ${value(each)}`),
  ];
  return [
    ...gauge("outbox_pending_count", ({ pending }) => pending),
    ...gauge("outbox_oldest_age", ({ oldestAgeSeconds }) => oldestAgeSeconds ?? 0),
    ...gauge("outbox_parked_count", ({ parked }) => parked),
    ...gauge("outbox_blocked_count", ({ blocked }) => blocked),
    ...gauge("outbox_dead_count", ({ dead }) => dead),
    "# HELP outbox_backlog_orders Orders with pending events.",
    "# TYPE outbox_backlog_orders gauge",
    `outbox_backlog_orders ${ordersWithBacklog}`,
  ].join("\n");
}

/** Without what is undefined. */
function defined<Value extends object>(value: Value): { [Key in keyof Value]?: Exclude<Value[Key], undefined> } {
  return Object.fromEntries(Object.entries(value).filter(([, each]) => each !== undefined)) as never;
}
