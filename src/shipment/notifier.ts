/** What the customer is told. A text that comes a day late helps nobody, so this subscription gives up soon and goes on. */
import { defineSubscription, type HandledEvent, type Subscription } from "../core/workflow.ts";
import { shipmentWorkflow, type ShipmentWorkflow } from "./workflow.ts";

export interface Notification {
  /** The event's id: a gateway that has seen it need not send again (G3). */
  readonly id: string;
  readonly orderId: string;
  readonly text: string;
}

/** Hands a notification to whatever sends it (mail, text message). What it throws means what it means in a handler. */
export type SendNotification = (notification: Notification, signal: AbortSignal) => Promise<void>;

/** What the customer is told of. */
export const NOTIFIED_TYPES = [
  "shipment.instructed",
  "shipment.out-for-delivery",
  "shipment.delivery-failed",
  "shipment.delivered",
  "shipment.returned",
  "shipment.canceled",
] as const;

/** Tells the customer what matters to them; scans on the way are not told. */
export function createNotifier(send: SendNotification): Subscription {
  return defineSubscription(shipmentWorkflow, {
    name: "customer-notifier",
    events: NOTIFIED_TYPES,
    retry: { onDead: "skip", longRetries: 4, timeoutMs: 10_000 },
    handle: (event, { signal }) => send({ id: event.id, orderId: event.orderId, text: textOf(event) }, signal),
  });
}

/** The data's type follows from the event's. */
function textOf(event: HandledEvent<ShipmentWorkflow, (typeof NOTIFIED_TYPES)[number]>): string {
  switch (event.type) {
    case "shipment.instructed":
      return `Your order will be sent with ${event.data.carrier}${event.data.parcels > 1 ? `, in ${event.data.parcels} parcels` : ""}.`;
    case "shipment.out-for-delivery":
      return "Your parcel is out for delivery today.";
    case "shipment.delivery-failed":
      return `Your parcel could not be delivered: ${event.data.reason}. The carrier will try again.`;
    case "shipment.delivered":
      return event.data.signedBy === undefined
        ? "Your parcel was delivered."
        : `Your parcel was delivered and accepted by ${event.data.signedBy}.`;
    case "shipment.returned":
      return `Your parcel goes back to the sender: ${event.data.reason}.`;
    case "shipment.canceled":
      return `Your order will not be sent: ${event.data.reason}.`;
  }
}
