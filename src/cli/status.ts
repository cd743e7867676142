/** `ordered-outbox status`: how much waits where. */
import type { Command } from "commander";
import { readStatus } from "../operations/status.ts";
import { addOperation } from "./operation.ts";
import { duration, table } from "./output.ts";

export function addStatusCommand(program: Command): void {
  const command = program.command("status").description("pending, parked, blocked and dead events of each subscription");
  addOperation(command, async (context) => {
    const status = await readStatus(context);
    const rows = status.subscriptions.map((each) => [
      each.subscription,
      each.pending,
      each.orders,
      each.oldestAgeSeconds === undefined ? undefined : duration(each.oldestAgeSeconds),
      each.parked,
      each.blocked,
      each.dead,
      each.paused === 0 ? "no" : each.paused === "all" ? "yes" : `${each.paused} orders`,
    ]);
    const headings = ["SUBSCRIPTION", "PENDING", "ORDERS", "OLDEST", "PARKED", "BLOCKED", "DEAD", "PAUSED"];
    const foreign = status.foreign === 0 ? "" : `\n${status.foreign} blobs below events/ are none of ours: see "ordered-outbox verify".`;
    const total = `Orders with a backlog: ${status.ordersWithBacklog}${foreign}`;
    return {
      json: status,
      text: rows.length === 0 ? `Nothing is pending, dead or paused.${foreign}` : `${table(headings, rows)}\n\n${total}`,
    };
  });
}
