/** `ordered-outbox audit list`: who changed what, when and why (G6). */
import type { Command } from "commander";
import { parseOrderId } from "../core/order-id.ts";
import { AUDIT_LIMIT, listAudit } from "../operations/list-audit.ts";
import { numberOption, spanOption } from "./arguments.ts";
import { addOperation, type OperationOptions } from "./operation.ts";
import { escaped, table } from "./output.ts";

interface AuditOptions extends OperationOptions {
  readonly since?: number;
  readonly order?: string;
  readonly limit?: number;
}

const SINCE = { min: 0, max: 3_650 * 86_400_000, default: "all that is kept" } as const;

export function addAuditCommand(program: Command): void {
  const audit = program.command("audit").description("what operators did, and why");
  const list = audit
    .command("list")
    .description("who changed what, when and why, the newest first: the records in the container `audit`")
    .addOption(spanOption("--since <span>", "only the last 15m, 2h or 7d", SINCE))
    .option("--order <id>", "only what was done to this order")
    .addOption(numberOption("--limit <count>", "at most so many", AUDIT_LIMIT));
  addOperation<AuditOptions>(list, async (context, { since, order, limit }) => {
    const orderId = order === undefined ? undefined : parseOrderId(order);
    const listed = await listAudit(context, { sinceMs: since, orderId, limit });
    const rows = listed.records.map(({ at, action, outcome, actor, target, reason }) => [
      at,
      action,
      escaped(outcome),
      actor,
      target.subscription,
      target.orderId,
      target.eventId ?? target.run,
      reason,
    ]);
    const headings = ["AT", "ACTION", "OUTCOME", "BY", "SUBSCRIPTION", "ORDER", "EVENT / RUN", "REASON"];
    const text = rows.length === 0 ? "No such records." : table(headings, rows);
    return { json: listed, text: listed.complete ? text : `${text}\n\nThere are older ones: see --limit.` };
  });
}
