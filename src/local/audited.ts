/** The subscriptions of a run and what each is to be handed: what the audit expects. Of those known here that is said independently of the pipeline. */
import { decodeEvent, encodeEvent, type StoredEvent } from "../core/event.ts";
import type { EventId } from "../core/event-id.ts";
import { parseOrderId } from "../core/order-id.ts";
import type { Subscription } from "../core/workflow.ts";
import { NOTIFIED_TYPES } from "../shipment/notifier.ts";
import { shipmentWorkflow, type ShipmentEventType } from "../shipment/workflow.ts";
import type { CommittedEvent } from "./audit.ts";

export const NOTIFIER = "customer-notifier";
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

export type WantedEvent = Omit<CommittedEvent, "dataDigest">;

export interface AuditedSubscription {
  readonly name: string;
  readonly wants: (event: WantedEvent) => boolean;
}

const EXPECTED: ReadonlyMap<string, (type: ShipmentEventType) => boolean> = new Map<string, (type: ShipmentEventType) => boolean>([
  ["audit-log", () => true],
  [NOTIFIER, (type) => (NOTIFIED_TYPES as readonly string[]).includes(type)],
  [PARTNER, (type) => PARTNER_TYPES.includes(type)],
]);

/**
 * @param deployed those of `src/shipment`. What the audit knows of one that is not expected here is its own filter; NOTIFIER and PARTNER run in
 *   any case.
 */
export function auditedSubscriptions(deployed: readonly Pick<Subscription, "name" | "wants">[]): readonly AuditedSubscription[] {
  const names = new Set([...deployed.map(({ name }) => name), NOTIFIER, PARTNER]);
  return Array.from(names, (name) => {
    const expected = EXPECTED.get(name);
    if (expected !== undefined) return { name, wants: ({ type }) => expected(type) };
    const { wants } = deployed.find((each) => each.name === name)!;
    return { name, wants: (event) => wants(storedEventOf(event)) };
  });
}

function storedEventOf({ orderId, id, sequence, type, time, dataText }: WantedEvent): StoredEvent {
  const head = { id: id as EventId, orderId: parseOrderId(orderId), sequence, type, source: shipmentWorkflow.source, time };
  return decodeEvent(encodeEvent(head, dataText));
}
