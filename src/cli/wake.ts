/** `ordered-outbox wake` and `unlock`: an order that should move and does not. */
import type { Command } from "commander";
import { printable } from "../core/errors.ts";
import { parseOrderId } from "../core/order-id.ts";
import { unlockOrder } from "../operations/unlock.ts";
import { wakeOrder } from "../operations/wake.ts";
import {
  addDryRunOption,
  addOperation,
  addOperatorOptions,
  operatorOf,
  type Answer,
  type CommandContext,
  type OperationOptions,
} from "./operation.ts";

interface WakeCommandOptions extends OperationOptions {
  readonly force?: boolean;
}

export function addWakeCommands(program: Command): void {
  const wake = program.command("wake").description("send a wake-up; one too many does no harm").argument("<order>", "OrderId");
  addDryRunOption(addOperatorOptions(wake, "optional")).option("--force", "also for an order that nothing in storage speaks of");
  const runWake = async (context: CommandContext, options: WakeCommandOptions, text: string): Promise<Answer> => {
    const orderId = parseOrderId(text);
    const { dryRun = false, force = false } = options;
    const result = await wakeOrder(context, orderId, operatorOf(options), { dryRun, force });
    const is = result.outcome === "woken" ? "is" : "would be";
    return { json: result, text: `A wake-up ${is} sent for order ${printable(orderId)}.` };
  };
  addOperation<WakeCommandOptions, [string]>(wake, runWake, { hints: { "not-found": "to send a wake-up all the same use --force" } });

  const unlock = program
    .command("unlock")
    .description("let the lease of an order whose worker hangs run out, within a minute; what that worker runs may then run a second time")
    .argument("<order>", "OrderId");
  addDryRunOption(addOperatorOptions(unlock, "required"));
  addOperation<OperationOptions, [string]>(unlock, async (context, options, text) => {
    const orderId = parseOrderId(text);
    const result = await unlockOrder(context, orderId, operatorOf(options), { dryRun: options.dryRun === true });
    const seconds = Math.ceil((result.endsInMs ?? 0) / 1000);
    const said = {
      broken: `The lease of order ${printable(orderId)} is broken: it ends in ${seconds} s, then a wake-up lets another worker take the order. Beware: ${result.warning}.`,
      "would-break": `The lease of order ${printable(orderId)} would be broken. Beware: ${result.warning}.`,
      "not-held": `No worker holds the lease of order ${printable(orderId)}: nothing was changed.`,
    };
    return { json: result, text: said[result.outcome] };
  });
}
