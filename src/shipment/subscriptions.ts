/** The subscriptions that this deployment runs, by its settings. */
import type { Logger } from "../core/logger.ts";
import type { Subscription } from "../core/workflow.ts";
import { webhooksFromSettings } from "../webhook/settings.ts";
import { createAuditLog } from "./audit-log.ts";
import { httpGateway } from "./http-gateway.ts";
import { createNotifier } from "./notifier.ts";
import { shipmentWorkflow } from "./workflow.ts";

/**
 * - `audit-log`, always.
 * - `customer-notifier`, if `SHIPMENT_NOTIFY_URL` names a gateway (`SHIPMENT_NOTIFY_TOKEN`: its bearer token).
 * - one webhook for each partner in `ORDERED_OUTBOX_WEBHOOK_<NAME>_URL` and `…_SECRET`.
 *
 * A subscription whose settings are taken away is gone like one whose code is (F10).
 *
 * @throws `invalid-option`, naming the setting
 */
export function createSubscriptions(settings: Readonly<Record<string, string | undefined>>, logger: Logger): readonly Subscription[] {
  const { SHIPMENT_NOTIFY_URL: url, SHIPMENT_NOTIFY_TOKEN: token } = settings;
  return [
    createAuditLog((entry) => logger.info("shipment event", { ...entry })),
    ...(url === undefined || url === "" ? [] : [createNotifier(httpGateway({ url, token }))]),
    ...webhooksFromSettings(shipmentWorkflow, settings),
  ];
}
