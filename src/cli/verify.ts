/** `ordered-outbox verify`: is what is stored whole and in order? */
import type { Command } from "commander";
import { parseOrderId } from "../core/order-id.ts";
import { verifyAll, verifyOrder } from "../operations/verify.ts";
import { EXIT } from "./exit.ts";
import { addOperation, progressLog, type Answer, type CommandContext, type OperationOptions } from "./operation.ts";
import { table } from "./output.ts";

export function addVerifyCommand(program: Command): void {
  const command = program
    .command("verify")
    .description("audit the stored events of an order, or of all orders: missing, doubled, out of order, stuck; exit status 4 for damage")
    .argument("[order]", "OrderId; default: all orders with anything pending, dead or archived");
  const run = async (context: CommandContext, _options: OperationOptions, orderId: string | undefined): Promise<Answer> => {
    const onProgress = progressLog(context.logger, "orders verified");
    const result = orderId === undefined ? await verifyAll(context, { onProgress }) : await verifyOrder(context, parseOrderId(orderId));
    const rows = result.findings.map((each) => [each.severity, each.kind, each.orderId, each.subscription, each.sequence, each.text]);
    const damage = result.findings.filter(({ severity }) => severity === "damage").length;
    const summary = `${result.orders} orders verified: ${damage === 0 ? "sound" : `${damage} damaged places`}.`;
    const headings = ["SEVERITY", "KIND", "ORDER", "SUBSCRIPTION", "EVENT", "WHAT"];
    return {
      json: result,
      text: rows.length === 0 ? summary : `${table(headings, rows)}\n\n${summary}`,
      status: result.sound ? EXIT.ok : EXIT.found,
    };
  };
  addOperation(command, run, { stoppable: true });
}
