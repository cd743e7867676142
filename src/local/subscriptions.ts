/** What the workers of a run run: the subscriptions of the deployed app, each with a record for the audit, and two that send to this machine only. */
import { setTimeout as delay } from "node:timers/promises";
import type { Subscription } from "../core/workflow.ts";
import { createNotifier } from "../shipment/notifier.ts";
import { createSubscriptions } from "../shipment/subscriptions.ts";
import { shipmentWorkflow } from "../shipment/workflow.ts";
import { defineWebhook } from "../webhook/define-webhook.ts";
import { NOTIFIER, PARTNER, PARTNER_TYPES } from "./audited.ts";
import { childLogger } from "./child-logger.ts";
import type { HandledLogWriter } from "./handled-log.ts";
import { dataDigest } from "./handled-record.ts";
import type { StartWorker } from "./messages.ts";
import { WORKER_HEADER } from "./partner.ts";

/** What would send made-up shipments to a real gateway or partner. */
const SENDING = /^(?:SHIPMENT_NOTIFY_|ORDERED_OUTBOX_WEBHOOK_)/;

/** Those of `src/shipment`, without what only settings add. */
export function deployedSubscriptions(): readonly Subscription[] {
  const settings = Object.fromEntries(Object.entries(process.env).filter(([name]) => !SENDING.test(name)));
  return createSubscriptions(settings, childLogger);
}

/** @param deployed with the name of one of the two that are the run's own: takes its place */
export function createRunSubscriptions(
  deployed: readonly Subscription[],
  { name: worker, partner, handlerMs }: Pick<StartWorker, "name" | "partner" | "handlerMs">,
  log: HandledLogWriter,
): readonly Subscription[] {
  const notifier = createNotifier(async ({ id, orderId }) => {
    log.append({ subscription: NOTIFIER, worker, orderId, id });
    if (handlerMs > 0) await delay(handlerMs);
  });
  // Its records are those of the receiver.
  const webhook = defineWebhook(shipmentWorkflow, {
    name: PARTNER,
    ...partner,
    events: PARTNER_TYPES,
    headers: { [WORKER_HEADER]: worker },
    allowHttp: true,
    allowPrivateAddresses: true,
    retry: { shortDelayMs: 50, shortStarts: 10 },
  });
  const taken = deployed.map((subscription) => recorded(subscription, worker, log));
  const own = [notifier, webhook].filter(({ name }) => taken.every((each) => each.name !== name));
  // The kills are the run's own: no event is to blame for them, however many hit it.
  return [...taken, ...own].map((each) => ({ ...each, retry: { ...each.retry, maxCrashes: 100 } }));
}

function recorded(subscription: Subscription, worker: string, log: HandledLogWriter): Subscription {
  return {
    ...subscription,
    async handle(event, context) {
      await subscription.handle(event, context);
      const { orderId, id, sequence, type, time, dataText } = event;
      log.append({ subscription: subscription.name, worker, orderId, id, sequence, type, time, dataDigest: dataDigest(dataText) });
    },
  };
}
