/** `ordered-outbox pause` and `resume`: a subscription, or one order of it (F5). */
import type { Command } from "commander";
import { counted } from "../core/counted.ts";
import { CONTROL_CACHE_MS } from "../core/controls.ts";
import { printable } from "../core/errors.ts";
import { assertSubscriptionName } from "../core/names.ts";
import { parseOrderId } from "../core/order-id.ts";
import { pause, resume, type PauseTarget } from "../operations/pauses.ts";
import {
  addDryRunOption,
  addOperation,
  addOperatorOptions,
  operatorOf,
  type Answer,
  type CommandContext,
  type OperationOptions,
} from "./operation.ts";
import { loadWorkflowModule } from "./workflow-module.ts";

interface PauseOptions extends OperationOptions {
  readonly workflow?: string;
  readonly force?: boolean;
}

type Arguments = [subscription: string, orderId: string | undefined];

const AHEAD = "to pause it all the same, ahead of its deployment or its first event, use --force";
const WITHIN = `within ${CONTROL_CACHE_MS / 1000} s`;

export function addPauseCommands(program: Command): void {
  const add = (name: string, description: string): Command => {
    const command = program.command(name).description(description).argument("<subscription>").argument("[order]", "only this order of it");
    return addDryRunOption(addOperatorOptions(command, "required"));
  };

  const pauseCommand = add("pause", `start no more events of a subscription, ${WITHIN}; what runs may finish`);
  pauseCommand
    .option("--workflow <module>", "what is to be deployed: the subscriptions that this file or package exports may be paused too")
    .option("--force", "also a subscription or an order that nothing in storage names, ahead of its deployment or first event");
  const runPause = async (context: CommandContext, options: PauseOptions, ...[subscription, orderId]: Arguments): Promise<Answer> => {
    const target = targetOf(subscription, orderId);
    const { workflow, force = false, dryRun = false } = options;
    const deployed = workflow === undefined ? {} : { deployed: await loadWorkflowModule(workflow, process.cwd()) };
    const result = await pause(context, target, operatorOf(options), { force, dryRun, ...deployed });
    const { actor, at, reason } = result.pause;
    const text = {
      paused: `${nameOf(target)} is paused; every worker knows ${WITHIN}.`,
      "would-pause": `${nameOf(target)} would be paused.`,
      "already-paused": `${nameOf(target)} is paused already, by ${printable(actor)} at ${printable(at)}: ${printable(reason)}`,
    };
    return { json: result, text: text[result.outcome] };
  };
  addOperation<PauseOptions, Arguments>(pauseCommand, runPause, { hints: { "not-found": AHEAD } });

  const resumeCommand = add("resume", "let a paused subscription go on");
  addOperation<OperationOptions, Arguments>(resumeCommand, async (context, options, subscription, orderId) => {
    const target = targetOf(subscription, orderId);
    const result = await resume(context, target, operatorOf(options), { dryRun: options.dryRun === true });
    const text = {
      resumed: `${nameOf(target)} goes on ${WITHIN}; ${counted(result.woken, "order")} with a backlog ${result.woken === 1 ? "is" : "are"} woken then.`,
      "would-resume": `${nameOf(target)} would go on; ${counted(result.woken, "order")} with a backlog would be woken.`,
      "not-paused": `${nameOf(target)} is not paused${orderId === undefined ? "; single orders of it may be" : "; its subscription as a whole may be"}.`,
    };
    return { json: result, text: text[result.outcome] };
  });
}

function targetOf(subscription: string, orderId: string | undefined): PauseTarget {
  assertSubscriptionName(subscription);
  return { subscription, orderId: orderId === undefined ? undefined : parseOrderId(orderId) };
}

function nameOf({ subscription, orderId }: PauseTarget): string {
  return orderId === undefined ? `Subscription ${subscription}` : `Order ${printable(orderId)} of ${subscription}`;
}
