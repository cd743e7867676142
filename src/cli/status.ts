/** `ordered-outbox status`: how much waits where. */
import type { Command } from "commander";
import { readStatus, type UnrelayedStatus } from "../operations/status.ts";
import type { Pause } from "../core/controls.ts";
import { counted } from "../core/counted.ts";
import { outboxPagesOption, STOPPED_EARLY } from "./arguments.ts";
import { addOperation, type OperationOptions } from "./operation.ts";
import { duration, table } from "./output.ts";

interface StatusOptions extends OperationOptions {
  readonly maxPages?: number;
}

export function addStatusCommand(program: Command): void {
  const command = program
    .command("status")
    .description("pending, parked, blocked and dead events of each subscription, and what is not relayed yet")
    .addOption(outboxPagesOption());
  addOperation<StatusOptions>(command, async (context, { maxPages }) => {
    const status = await readStatus(context, maxPages === undefined ? {} : { maxPages });
    const rows = status.subscriptions.map((each) => [
      each.subscription,
      each.pending,
      each.orders,
      each.oldestAgeSeconds === undefined ? undefined : duration(each.oldestAgeSeconds),
      each.parked,
      each.blocked,
      each.dead,
      each.paused === 0 ? "no" : each.paused === "all" ? "yes" : counted(each.paused, "order"),
    ]);
    const headings = ["SUBSCRIPTION", "PENDING", "ORDERS", "OLDEST", "PARKED", "BLOCKED", "DEAD", "PAUSED"];
    const foreign =
      status.foreign === 0 ? "" : `\nBlobs below events/ that are none of ours: ${status.foreign}, see "ordered-outbox verify".`;
    const rest = `${unrelayedText(status.unrelayed)}${foreign}`;
    const overview =
      rows.length === 0
        ? status.unrelayed.events === 0
          ? "Nothing is pending, dead or paused."
          : "No relayed event waits, and nothing is dead or paused."
        : `${table(headings, rows)}\n\nOrders with a backlog: ${status.ordersWithBacklog}`;
    return { json: status, text: `${overview}\n${rest}${pausesText(status.pauses)}` };
  });
}

function pausesText(pauses: readonly Pause[]): string {
  if (pauses.length === 0) return "";
  const rows = pauses.map(({ subscription, orderId, actor, at, reason }) => [subscription, orderId, actor, at, reason]);
  return `\n\nPaused (an order alone, or without one all of the subscription):\n${table(["SUBSCRIPTION", "ORDER", "BY", "SINCE", "REASON"], rows)}`;
}

function unrelayedText({ events, orders, oldestAgeSeconds, complete }: UnrelayedStatus): string {
  const what =
    oldestAgeSeconds === undefined
      ? "none"
      : `${counted(events, "event")} of ${counted(orders, "order")}, the oldest for ${duration(oldestAgeSeconds)}`;
  return `Not relayed yet: ${what}.${complete ? "" : ` ${STOPPED_EARLY}`}`;
}
