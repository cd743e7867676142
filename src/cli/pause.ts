/** `ordered-outbox pause` and `resume`: a subscription, or one order of it (F5). */
import type { Command } from "commander";
import { counted } from "../core/counted.ts";
import { CONTROL_CACHE_MS } from "../core/controls.ts";
import { printable } from "../core/errors.ts";
import { assertSubscriptionName } from "../core/names.ts";
import { parseOrderId } from "../core/order-id.ts";
import { assertKnownSubscription } from "../operations/known-subscriptions.ts";
import { pause, resume, type PauseTarget } from "../operations/pauses.ts";
import { addDryRunOption, addOperation, advising, addOperatorOptions, operatorOf, type OperationOptions } from "./operation.ts";
import { loadWorkflowModule } from "./workflow-module.ts";

interface PauseOptions extends OperationOptions {
  readonly workflow?: string;
  readonly force?: boolean;
}

type Arguments = [subscription: string, orderId: string | undefined];

const AHEAD = "To pause it ahead of its deployment use --force, or --workflow with the module that has it";
const WITHIN = `within ${CONTROL_CACHE_MS / 1000} s`;

export function addPauseCommands(program: Command): void {
  const add = (name: string, description: string): Command => {
    const command = program.command(name).description(description).argument("<subscription>").argument("[order]", "only this order of it");
    return addDryRunOption(addOperatorOptions(command, "required"));
  };

  const pauseCommand = add("pause", `start no more events of a subscription, ${WITHIN}; what runs may finish`);
  pauseCommand
    .option("--workflow <module>", "what is to be deployed: the subscriptions that this file or package exports may be paused too")
    .option("--force", "also a subscription that nothing in storage names, ahead of its deployment");
  addOperation<PauseOptions, Arguments>(pauseCommand, async (context, options, subscription, orderId) => {
    const target = targetOf(subscription, orderId);
    if (options.force !== true && !(await isDeployed(options.workflow, subscription))) {
      await advising(AHEAD, () => assertKnownSubscription(context, subscription));
    }
    const result = await pause(context, target, operatorOf(options), { dryRun: options.dryRun === true });
    const { actor, at, reason } = result.pause;
    const text = {
      paused: `${nameOf(target)} is paused; every worker knows ${WITHIN}.`,
      "would-pause": `${nameOf(target)} would be paused.`,
      "already-paused": `${printable(actor)} paused ${nameOf(target)} at ${printable(at)} already: ${printable(reason)}`,
    };
    return { json: result, text: text[result.outcome] };
  });

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

async function isDeployed(specifier: string | undefined, subscription: string): Promise<boolean> {
  if (specifier === undefined) return false;
  const { subscriptions } = await loadWorkflowModule(specifier, process.cwd());
  return subscriptions.some(({ name }) => name === subscription);
}

function targetOf(subscription: string, orderId: string | undefined): PauseTarget {
  assertSubscriptionName(subscription);
  return { subscription, orderId: orderId === undefined ? undefined : parseOrderId(orderId) };
}

function nameOf({ subscription, orderId }: PauseTarget): string {
  return orderId === undefined ? `Subscription ${subscription}` : `Order ${printable(orderId)} of ${subscription}`;
}
