/** `ordered-outbox orders list` and `orders show`: the orders behind the numbers. */
import { Option, type Command } from "commander";
import { parseOrderId } from "../core/order-id.ts";
import type { PendingState } from "../core/pending-event.ts";
import { listOrders } from "../operations/orders.ts";
import { showOrder, type ShownEvent } from "../operations/show-order.ts";
import { addOperation, type OperationOptions } from "./operation.ts";
import { duration, facts, table } from "./output.ts";

interface ListOptions extends OperationOptions {
  readonly pending?: boolean;
  readonly parked?: boolean;
  readonly blocked?: boolean;
  readonly subscription?: string;
}

export function addOrdersCommands(program: Command): void {
  const orders = program.command("orders").description("orders with pending events, and the timeline of one");
  const list = orders
    .command("list")
    .description("orders with pending events, the oldest first")
    .addOption(new Option("--pending", "only those whose head may run").conflicts(["parked", "blocked"]))
    .addOption(new Option("--parked", "only those whose head waits for its next attempt").conflicts(["pending", "blocked"]))
    .addOption(new Option("--blocked", "only those whose head is a dead letter").conflicts(["pending", "parked"]))
    .option("--subscription <name>", "only this subscription");
  addOperation<ListOptions>(list, async (context, options) => {
    const { subscription } = options;
    const listed = await listOrders(context, { state: stateOf(options), subscription });
    const rows = listed.map(({ orderId, subscription: name, backlog, head, lease }) => [
      orderId,
      name,
      backlog,
      head.sequence,
      duration(head.ageSeconds),
      head.decision === undefined ? head.state : `${head.state}, ${head.decision.action} decided`,
      head.attempts,
      head.nextAttemptAt,
      lease === "taken" ? "held" : "free",
      head.lastError,
    ]);
    const headings = ["ORDER", "SUBSCRIPTION", "BACKLOG", "HEAD", "AGE", "STATE", "ATTEMPTS", "NEXT ATTEMPT", "LEASE", "LAST ERROR"];
    return { json: { orders: listed }, text: rows.length === 0 ? "No such orders." : table(headings, rows) };
  });

  const show = orders.command("show").description("every event of an order that storage still knows").argument("<order>", "OrderId");
  addOperation<OperationOptions, [string]>(show, async (context, _options, orderId) => {
    const shown = await showOrder(context, parseOrderId(orderId));
    const head = facts({
      Order: shown.orderId,
      "Last event": shown.sequence === undefined ? "there is no such order" : `${shown.sequence}${shown.deleted ? ", deleted" : ""}`,
      Lease: shown.lease === "taken" ? "held by a worker" : "free",
    });
    return { json: shown, text: shown.timeline.length === 0 ? head : `${head}\n\n${timeline(shown.timeline)}` };
  });
}

function timeline(entries: readonly ShownEvent[]): string {
  const headings = [
    "SEQUENCE",
    "TYPE",
    "SUBSCRIPTION",
    "STATE",
    "ATTEMPTS",
    "OCCURRED AT",
    "FINISHED / NEXT ATTEMPT",
    "LAST ERROR",
    "EVENT",
  ];
  const rows = entries.map((entry) => [
    entry.sequence,
    entry.type,
    entry.subscription,
    entry.decision === undefined ? entry.state : `${entry.state} (${entry.decision.action} by ${entry.decision.actor})`,
    entry.attempts,
    entry.occurredAt,
    entry.finishedAt ?? entry.nextAttemptAt,
    entry.lastError,
    entry.id,
  ]);
  return table(headings, rows);
}

function stateOf({ pending, parked, blocked }: ListOptions): PendingState["status"] | undefined {
  if (pending === true) return "pending";
  if (parked === true) return "parked";
  return blocked === true ? "blocked" : undefined;
}
