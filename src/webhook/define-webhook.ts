import type { AnyWorkflow, EventTypeOf } from "../core/workflow.ts";
import { webhookSubscription, type WebhookDefinition, type WebhookSubscription } from "./webhook-subscription.ts";

/**
 * A subscription that posts every event to a URL, by Standard Webhooks: the body is the CloudEvent exactly as it was committed, `webhook-id`
 * its id (the same for every attempt), `webhook-timestamp` and `webhook-signature` are the attempt's.
 *
 * 2xx: done. 410: the subscription is switched off, with the answer as its reason. 408, 425, 429, 3xx (redirects are not followed), 5xx and
 * everything that is no answer: tried again, not before `Retry-After`. Any other 4xx: see `clientErrors`. A receiver whose name has an address
 * that is not public: no retry, unless `allowPrivateAddresses` is on; a URL with such an address in it is refused at once. Proxies of the environment are not used.
 *
 * @throws `invalid-option`, `unknown-event-type`
 */
export function defineWebhook<W extends AnyWorkflow, Type extends EventTypeOf<W> = EventTypeOf<W>>(
  workflow: W,
  definition: WebhookDefinition<W, Type>,
): WebhookSubscription {
  return webhookSubscription(workflow, definition);
}
