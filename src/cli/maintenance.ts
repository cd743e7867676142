/** `ordered-outbox sweep`, `reconcile`, `cleanup` and `metrics`: by hand or from a scheduler, what workers do by themselves. */
import type { Command } from "commander";
import { counted } from "../core/counted.ts";
import { audited } from "../operations/audit-log.ts";
import { CLEANUP_BOUNDS, createCleaner, type CleanerOptions, type CleanupResult } from "../operations/cleanup.ts";
import { createReconciler, RECONCILE_BOUNDS } from "../operations/reconcile.ts";
import { readStatus, type Status, type SubscriptionStatus } from "../operations/status.ts";
import { createSweeper } from "../operations/sweep.ts";
import { METRICS, type MetricName } from "../system/metrics.ts";
import { numberOption, spanOption } from "./arguments.ts";
import { addDryRunOption, addOperation, addOperatorOptions, operatorOf, type OperationOptions } from "./operation.ts";
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
  addDryRunOption(command);
  addOperation<OperationOptions>(
    command,
    async ({ storage, clock, logger, signal }, { dryRun = false }) => {
      const result = await createSweeper({ storage, clock, logger }).sweep({ signal, dryRun });
      const { woken, marked, leased } = result;
      const text = facts({ [wokenHeading(dryRun)]: woken, "of them with leftovers": marked, "Orders in work": leased });
      return { json: { ...result, dryRun }, text };
    },
    { stoppable: true },
  );
}

function wokenHeading(dryRun: boolean): string {
  return dryRun ? "Orders that would be woken" : "Orders woken";
}

function addReconcile(program: Command): void {
  const command = program
    .command("reconcile")
    .description("wake all orders whose committed events nobody relays; a bounded part of the table a run")
    .addOption(
      spanOption("--safety-delay <span>", "leave younger events to their own wake-up, like 90s or 5m", RECONCILE_BOUNDS.safetyDelayMs, {
        bareSeconds: true,
      }),
    )
    .addOption(numberOption("--max-pages <pages>", "pages of the table to look at", RECONCILE_BOUNDS.maxPages));
  addDryRunOption(command);
  addOperation<ReconcileOptions>(
    command,
    async ({ storage, clock, logger, signal }, { safetyDelay, maxPages, dryRun = false }) => {
      const reconciler = createReconciler({ storage, clock, logger, ...(safetyDelay === undefined ? {} : { safetyDelayMs: safetyDelay }) });
      const result = await reconciler.reconcile({ signal, dryRun, ...(maxPages === undefined ? {} : { maxPages }) });
      const { seen, overdue, woken, complete } = result;
      const text = facts({
        "Events in outboxes": seen,
        Overdue: overdue,
        [wokenHeading(dryRun)]: woken,
        "End of the table": complete ? "reached" : "not reached: the next run goes on",
      });
      return { json: { ...result, dryRun }, text };
    },
    { stoppable: true },
  );
}

function addCleanup(program: Command): void {
  const bounds = CLEANUP_BOUNDS;
  const command = program
    .command("cleanup")
    .description("remove what is finished and older than its retention; never pending events or dead letters")
    .addOption(numberOption("--archive-days <days>", "keep archived events", bounds.archiveDays))
    .addOption(numberOption("--discarded-days <days>", "keep archived events that an operator discarded", bounds.discardedDays))
    .addOption(numberOption("--audit-days <days>", "keep records of what operators did", bounds.auditDays))
    .addOption(numberOption("--idempotency-days <days>", "keep the results of repeated commands", bounds.idempotencyDays))
    .addOption(numberOption("--max-deletes <count>", "remove at most so many blobs and rows", bounds.maxDeletes));
  addDryRunOption(addOperatorOptions(command, "optional"));
  addOperation<CleanupOptions>(
    command,
    async (context, options) => {
      const { storage, logger, signal } = context;
      const { archiveDays, discardedDays, auditDays, idempotencyDays, maxDeletes, dryRun = false } = options;
      const settings = { archiveDays, discardedDays, auditDays, idempotencyDays };
      const cleaner = createCleaner({ storage, logger, ...defined(settings) });
      const clean = async (): Promise<CleanupResult & { readonly outcome: string }> => {
        const result = await cleaner.clean({
          signal,
          dryRun,
          onProgress: (progress) => logger.debug("removed so far", { ...progress }),
          ...defined({ maxDeletes }),
        });
        return { ...result, outcome: `removed ${removedText(result)}` };
      };
      // By hand it may remove what its retention would keep, so who did it is recorded (G6).
      const done = dryRun ? await clean() : await audited(context, { ...operatorOf(options), action: "cleanup", target: {} }, clean);
      const { outcome: _outcome, ...result } = done;
      const text = facts({
        [dryRun ? "Would be removed" : "Removed"]: removedText(result),
        "Not ours, left alone": result.foreign,
        "All done": result.complete ? "yes" : "no: the next run goes on",
      });
      return { json: { ...result, dryRun }, text };
    },
    { stoppable: true },
  );
}

function removedText({ removed }: CleanupResult): string {
  const { idempotency, payloads, audit, archive } = removed;
  return [
    counted(idempotency, "idempotency result"),
    counted(payloads, "payload"),
    counted(audit, "audit record"),
    counted(archive, "archive blob"),
  ].join(", ");
}

function addMetrics(program: Command): void {
  const command = program.command("metrics").description("the gauges of all subscriptions in the text format of Prometheus");
  addOperation(command, async (context) => {
    // It may be called each minute: the table is not looked through. The reconcile of a worker tells of unrelayed events in its log.
    const { unrelayed: _unrelayed, ...status } = await readStatus(context, { maxPages: 0 });
    return { json: status, text: prometheusText(status) };
  });
}

/** https://prometheus.io/docs/instrumenting/exposition_formats/ Subscription names need no escaping. */
function prometheusText({ subscriptions, ordersWithBacklog }: Omit<Status, "unrelayed">): string {
  const head = (name: MetricName): string[] => [`# HELP ${name} ${METRICS[name].meaning}`, `# TYPE ${name} gauge`];
  const gauge = (name: MetricName, value: (each: SubscriptionStatus) => number): string[] => [
    ...head(name),
    ...subscriptions.map((each) => `${name}{subscription="${each.subscription}"} ${value(each)}`),
  ];
  return [
    ...gauge("outbox_pending_count", ({ pending }) => pending),
    ...gauge("outbox_oldest_age", ({ oldestAgeSeconds }) => oldestAgeSeconds ?? 0),
    ...gauge("outbox_parked_count", ({ parked }) => parked),
    ...gauge("outbox_blocked_count", ({ blocked }) => blocked),
    ...gauge("outbox_dead_count", ({ dead }) => dead),
    ...head("outbox_backlog_orders"),
    `outbox_backlog_orders ${ordersWithBacklog}`,
  ].join("\n");
}

/** Without what is undefined. */
function defined<Value extends object>(value: Value): { [Key in keyof Value]?: Exclude<Value[Key], undefined> } {
  return Object.fromEntries(Object.entries(value).filter(([, each]) => each !== undefined)) as never;
}
