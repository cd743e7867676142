/** The frame of both queue triggers. */
import type { InvocationContext, StorageQueueHandler } from "@azure/functions";
import { application } from "./application.ts";
import { inInvocation, invocationLogger } from "./invocation-logger.ts";
import { aborting, tracked } from "./running.ts";
import type { WakeUpContext, WakeUpMessage } from "./wake-up-round.ts";

/** @param work what it throws brings the message back after `visibilityTimeout` of host.json */
export function onMessage(work: (context: WakeUpContext, message: WakeUpMessage) => Promise<void>): StorageQueueHandler {
  return (entry, context) =>
    inInvocation(context, () =>
      tracked(async () => {
        const { worker, copies } = await application();
        await work({ worker, copies, logger: invocationLogger, random: Math.random, aborting }, { entry, ...metadataOf(context) });
      }),
    );
}

function metadataOf({ triggerMetadata }: InvocationContext): Omit<WakeUpMessage, "entry"> {
  const { id, dequeueCount } = triggerMetadata ?? {};
  return { messageId: String(id), dequeueCount: Number(dequeueCount ?? 1) };
}
