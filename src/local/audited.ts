/** The three subscriptions of a run and what each is to be handed: what the audit expects, said independently of the pipeline. */
import { NOTIFIED_TYPES } from "../shipment/notifier.ts";
import type { ShipmentEventType } from "../shipment/workflow.ts";

/** The partner hears of parcels, not of the shop's own affairs. */
export const PARTNER = "partner";
export const PARTNER_TYPES: readonly ShipmentEventType[] = [
  "shipment.instructed",
  "shipment.handed-to-carrier",
  "shipment.picked-up",
  "shipment.in-transit",
  "shipment.out-for-delivery",
  "shipment.delivery-failed",
  "shipment.delivered",
  "shipment.returned",
  "shipment.canceled",
];

export interface AuditedSubscription {
  readonly name: string;
  readonly wants: (type: ShipmentEventType) => boolean;
}

export const AUDITED: readonly AuditedSubscription[] = [
  { name: "audit-log", wants: () => true },
  { name: "customer-notifier", wants: (type) => (NOTIFIED_TYPES as readonly string[]).includes(type) },
  { name: PARTNER, wants: (type) => PARTNER_TYPES.includes(type) },
];
