/** `ordered-outbox verify`: is what is stored whole and in order? */
import type { Command } from "commander";
import { counted } from "../core/counted.ts";
import { parseOrderId } from "../core/order-id.ts";
import { verifyAll, verifyOrder, type OrderFinding } from "../operations/verify.ts";
import type { Logger } from "../core/logger.ts";
import { EXIT } from "./exit.ts";
import { addOperation, progressLog, type Answer, type CommandContext, type OperationOptions } from "./operation.ts";
import { table } from "./output.ts";

export function addVerifyCommand(program: Command): void {
  const command = program
    .command("verify")
    .description("audit the stored events of an order, or of all orders: missing, doubled, out of order, stuck; exit status 4 for damage")
    .argument("[order]", "OrderId; default: all orders that storage has a trace of");
  const run = async (context: CommandContext, _options: OperationOptions, orderId: string | undefined): Promise<Answer> => {
    const onFound = foundLog(context.logger);
    const onProgress = progressLog(context.logger, "orders verified");
    const isOne = orderId !== undefined;
    const result = isOne ? await verifyOrder(context, parseOrderId(orderId)) : await verifyAll(context, { onFound, onProgress });
    const shown = isOne ? result.findings : result.findings.filter((each) => !isRetention(each));
    const rows = shown.map((each) => [each.severity, each.kind, each.orderId, each.subscription, each.sequence, each.text]);
    const damage = result.findings.filter(({ severity }) => severity === "damage").length;
    const hidden = result.findings.length - shown.length;
    const retention =
      hidden === 0
        ? ""
        : ` ${counted(hidden, "stream")} ${hidden === 1 ? "is" : "are"} older than the retention of the archive, which is no damage (--json lists them).`;
    const stopped = result.complete ? "" : " Stopped before the end: `verify` begins anew.";
    const verdict = damage === 0 ? "sound" : counted(damage, "damaged place");
    const summary = `${counted(result.orders, "order")} verified: ${verdict}.${retention}${stopped}`;
    const headings = ["SEVERITY", "KIND", "ORDER", "SUBSCRIPTION", "EVENT", "WHAT"];
    return {
      json: result,
      text: rows.length === 0 ? summary : `${table(headings, rows)}\n\n${summary}`,
      status: !result.complete ? EXIT.aborted : result.sound ? EXIT.ok : EXIT.found,
    };
  };
  addOperation(command, run, { stoppable: true });
}

/** One for each stream older than the retention: too many to list, and no damage. */
function isRetention({ kind }: OrderFinding): boolean {
  return kind === "retention";
}

/** Tells how many orders the search has found by now, each time there are a tenth more. */
function foundLog(logger: Logger): (orders: number) => void {
  let told = 0;
  return (orders) => {
    if (orders < Math.max(1_000, told * 1.1)) return;
    told = orders;
    logger.info("orders found", { orders });
  };
}
