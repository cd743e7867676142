/** `ordered-outbox pause` and `resume`: a subscription, or one order of it (F5). */
import type { Command } from "commander";
import { CONTROL_CACHE_MS } from "../core/controls.ts";
import { printable } from "../core/errors.ts";
import { assertSubscriptionName } from "../core/names.ts";
import { parseOrderId } from "../core/order-id.ts";
import { pause, resume, type PauseTarget } from "../operations/pauses.ts";
import { addDryRunOption, addOperation, addOperatorOptions, operatorOf, type OperationOptions } from "./operation.ts";

type Arguments = [subscription: string, orderId: string | undefined];

const WITHIN = `within ${CONTROL_CACHE_MS / 1000} s`;

export function addPauseCommands(program: Command): void {
  const add = (name: string, description: string): Command => {
    const command = program.command(name).description(description).argument("<subscription>").argument("[order]", "only this order of it");
    return addDryRunOption(addOperatorOptions(command, "required"));
  };

  const pauseCommand = add("pause", `start no more events of a subscription, ${WITHIN}; what runs may finish`);
  addOperation<OperationOptions, Arguments>(pauseCommand, async (context, options, subscription, orderId) => {
    const target = targetOf(subscription, orderId);
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
      resumed: `${nameOf(target)} goes on ${WITHIN}; ${result.woken} orders with a backlog are woken then.`,
      "would-resume": `${nameOf(target)} would go on; ${result.woken} orders with a backlog would be woken.`,
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
