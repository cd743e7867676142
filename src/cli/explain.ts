/** `ordered-outbox explain`: why an order does not move, and the one command that moves it. */
import type { Command } from "commander";
import type { Verdict } from "../core/explain.ts";
import { parseOrderId } from "../core/order-id.ts";
import { explain } from "../operations/explain.ts";
import { unknownOrder } from "../operations/order-trace.ts";
import { EXIT } from "./exit.ts";
import { addOperation, type OperationOptions } from "./operation.ts";
import { commandLine } from "./output.ts";
import { loadWorkflowModule } from "./workflow-module.ts";

interface ExplainOptions extends OperationOptions {
  readonly workflow?: string;
}

export function addExplainCommand(program: Command): void {
  const command = program
    .command("explain")
    .description("why an order does not move, and the command that moves it; exit status 4 if it waits for a human or a deployment")
    .argument("<order>", "OrderId")
    .option("--workflow <module>", "what is deployed: file or package that exports `workflow` and `subscriptions`");
  addOperation<ExplainOptions, [string]>(command, async (context, options, orderId) => {
    const deployed = options.workflow === undefined ? undefined : await loadWorkflowModule(options.workflow, process.cwd());
    const order = parseOrderId(orderId);
    const { verdict, others, stuck } = await explain(context, order, deployed === undefined ? {} : { deployed });
    if (verdict.code === "order-unknown") throw unknownOrder(order);
    return {
      json: { verdict: withCommandLine(verdict), others: others.map(withCommandLine), stuck },
      text: [verdict, ...others].map(paragraph).join("\n\n"),
      status: stuck ? EXIT.found : EXIT.ok,
    };
  });
}

function withCommandLine({ command, ...verdict }: Verdict): Record<string, unknown> {
  return { ...verdict, ...(command === undefined ? {} : { command: commandLine(command), arguments: command }) };
}

function paragraph({ code, sentence, command }: Verdict): string {
  return `${code}: ${sentence}${command === undefined ? "" : `\n  ${commandLine(command)}`}`;
}
