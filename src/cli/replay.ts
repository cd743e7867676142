/** `ordered-outbox replay` and `backfill`: archived events again, for one subscription (F9). */
import type { Command } from "commander";
import { counted } from "../core/counted.ts";
import { OutboxError, printable } from "../core/errors.ts";
import { parseOrderId } from "../core/order-id.ts";
import type { Subscription } from "../core/workflow.ts";
import { backfill } from "../operations/backfill.ts";
import type { ReplayedOrder } from "../operations/replay-order.ts";
import type { ReplayResult } from "../operations/replay-totals.ts";
import { replay } from "../operations/replay.ts";
import { numberOption } from "./arguments.ts";
import { EXIT, type ExitStatus } from "./exit.ts";
import { addDryRunOption, addOperation, addOperatorOptions, operatorOf, type Answer, type OperationOptions } from "./operation.ts";
import { escaped, facts, table } from "./output.ts";
import { loadWorkflowModule } from "./workflow-module.ts";

interface ReplayCommandOptions extends OperationOptions {
  readonly order: string;
  readonly subscription: string;
  readonly from?: number;
  readonly to?: number;
  readonly workflow?: string;
  readonly run?: string;
}

interface BackfillCommandOptions extends OperationOptions {
  readonly subscription: string;
  readonly workflow: string;
  readonly since?: string;
  readonly run?: string;
}

const SEQUENCES = { min: 1, max: 1_000_000_000 } as const;
const RUN_OPTION = "--run <name>";
/** Progress is told about so often. */
const PROGRESS_ORDERS = 100;
/** Of orders and subscriptions that nothing in storage names. */
const UNKNOWN = "`ordered-outbox orders list` and `status` have names; what a subscription never had is replayed with --workflow";
/** For people; `--json` has more. */
const MAX_ROWS = 50;

export function addReplayCommands(program: Command): void {
  const one = program
    .command("replay")
    .description("commit archived events of an order again, for one subscription: new events at its end, in their order")
    .requiredOption("--order <id>", "OrderId")
    .requiredOption("--subscription <name>", "for whom; nobody else gets them")
    .addOption(numberOption("--from <sequence>", "first event", { ...SEQUENCES, default: 1 }))
    .addOption(numberOption("--to <sequence>", "last event", { ...SEQUENCES, default: "the order's last when the run begins" }))
    .option("--workflow <module>", "also events that the subscription never had and its filter, exported from there, wants")
    .option(RUN_OPTION, "repeated, a run goes on or does nothing: to replay once more, name another (default: made of order and range)");
  addDryRunOption(addOperatorOptions(one, "required"));
  addOperation<ReplayCommandOptions>(
    one,
    async (context, options) => {
      const { order, subscription, from, to, workflow, run } = options;
      const wants = workflow === undefined ? undefined : (await loadSubscription(workflow, subscription)).wants;
      const target = { orderId: parseOrderId(order), subscription, from, to, wants };
      return answer(await replay(context, target, operatorOf(options), { run, dryRun: options.dryRun === true }));
    },
    { stoppable: true, hints: { "not-found": UNKNOWN } },
  );

  const all = program
    .command("backfill")
    .description("commit for a new subscription what others have had before it was there, order by order")
    .requiredOption("--subscription <name>", "the new one; deploy it on all workers first")
    .requiredOption("--workflow <module>", "file or package that exports `subscriptions`: the filter decides")
    .option("--since <time>", "of each order, from the first event on that happened at this time or later, like 2026-01-31T00:00:00Z")
    .option(RUN_OPTION, "repeated, a run goes on or does nothing: to look again, name another (default: backfill)");
  addDryRunOption(addOperatorOptions(all, "required"));
  addOperation<BackfillCommandOptions>(
    all,
    async (context, options) => {
      const { since, run } = options;
      const subscription = await loadSubscription(options.workflow, options.subscription);
      let told = 0;
      const onProgress = (done: { readonly orders: number; readonly events: number }): void => {
        if (done.orders - told < PROGRESS_ORDERS) return;
        told = done.orders;
        context.logger.info("orders looked at to backfill", done);
      };
      const given = { run, dryRun: options.dryRun === true, onProgress };
      return answer(await backfill(context, { subscription, since }, operatorOf(options), given));
    },
    { stoppable: true },
  );
}

async function loadSubscription(module: string, name: string): Promise<Subscription> {
  const { subscriptions } = await loadWorkflowModule(module, process.cwd());
  const found = subscriptions.find((subscription) => subscription.name === name);
  if (found !== undefined) return found;
  const known = subscriptions.map((subscription) => subscription.name).join(", ") || "none";
  const next = "give one of these, or add it to the module's `subscriptions` and deploy it on all workers first";
  const has = `the module ${printable(module)} does not have it; its subscriptions: ${known}`;
  throw new OutboxError("invalid-option", `--subscription is ${printable(name, 60)}: ${has}; ${next}`);
}

const STATUS: Readonly<Record<ReplayResult["outcome"], ExitStatus>> = {
  done: EXIT.ok,
  "would-replay": EXIT.ok,
  "done-before": EXIT.ok,
  left: EXIT.aborted,
  incomplete: EXIT.failed,
  stopped: EXIT.aborted,
};

const ALL_DONE: Partial<Readonly<Record<ReplayResult["outcome"], string>>> = {
  incomplete: "no: the same command goes on",
  stopped: "no: the same command goes on",
  left: "no: the same command goes on, once nothing is unfinished or under way (`ordered-outbox orders show` tells)",
};

function answer(result: ReplayResult): Answer {
  const status = STATUS[result.outcome];
  if (result.outcome === "done-before") {
    const text = `Run ${result.run} was finished at ${printable(result.finishedAt ?? "?")}: nothing is replayed twice. To replay the same once more, give it a name of its own with --run.`;
    return { json: result, text, status };
  }
  const rows = result.details.slice(0, MAX_ROWS);
  const more = result.details.length + result.untold - rows.length;
  const list = rows.length === 0 ? "" : `${ordersTable(rows)}${more === 0 ? "" : `\n… and ${counted(more, "more order")}`}\n\n`;
  return { json: result, text: `${list}${summary(result)}`, status };
}

function ordersTable(orders: readonly ReplayedOrder[]): string {
  return table(
    ["ORDER", "OUTCOME", "EVENTS", "FIRST", "LAST", "SKIPPED", "WHY"],
    orders.map(({ orderId, outcome, events, firstSequence, lastSequence, skipped, message }) => [
      orderId,
      outcome,
      events,
      firstSequence,
      lastSequence,
      countsText(skipped) || undefined,
      escaped(message),
    ]),
  );
}

function summary(result: ReplayResult): string {
  const { run, outcome, orders, events, ordersWithEvents, before, skipped, deleted, gone, failed, left } = result;
  return facts({
    Run: run,
    [outcome === "would-replay" ? "Would be replayed" : "Replayed"]: `${counted(events, "event")} of ${counted(ordersWithEvents, "order")}`,
    "By this run before": before,
    "Orders looked at": orders,
    Skipped: countsText(skipped) || "0",
    "Left alone": `${counted(deleted, "deleted order")}, ${counted(gone, "order")} gone from the table`,
    Failed: failed,
    ...(outcome === "would-replay" ? {} : { "All done": ALL_DONE[outcome] ?? "yes" }),
    ...(outcome === "left" ? { "Left for later": `${counted(left, "order")} with events that are still to run or to be relayed` } : {}),
  });
}

function countsText(counts: Readonly<Record<string, number>>): string {
  return Object.entries(counts)
    .map(([reason, count]) => `${count} ${reason}`)
    .join(", ");
}
