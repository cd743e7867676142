/** The shipment workflow: what an order looks like, which events it has, and which status each event leads to. */
import { z } from "zod";
import type { Schema } from "../core/schema.ts";
import { defineWorkflow, type Workflow } from "../core/workflow.ts";

/** Data from shops has a free form: what is known has a type, the rest is carried along. */
export interface FreeForm {
  readonly [key: string]: unknown;
}

/** The data of each event type. */
export interface ShipmentEventData {
  "order.purchased": FreeForm;
  "order.approved": FreeForm;
  "order.invoiced": FreeForm;
  "order.canceled": FreeForm;
  "order.unavailable": FreeForm;
  "shipment.instructed": FreeForm & { readonly carrier: string; readonly parcels: number };
  "shipment.handed-to-carrier": FreeForm;
  "shipment.picked-up": FreeForm & { readonly depot: string };
  "shipment.in-transit": FreeForm & { readonly hub: string };
  "shipment.out-for-delivery": FreeForm;
  "shipment.delivery-failed": FreeForm & { readonly reason: string };
  "shipment.delivered": FreeForm & { readonly late?: boolean; readonly signedBy?: string };
  "shipment.returned": FreeForm & { readonly reason: string };
  "shipment.canceled": FreeForm & { readonly reason: string };
}

export type ShipmentEventType = keyof ShipmentEventData;

const SHIPMENT_STATUSES = [
  "purchased",
  "approved",
  "invoiced",
  "unavailable",
  "canceled",
  "instructed",
  "handed-to-carrier",
  "picked-up",
  "in-transit",
  "out-for-delivery",
  "delivery-failed",
  "delivered",
  "returned",
] as const;

export type ShipmentStatus = (typeof SHIPMENT_STATUSES)[number];

export interface ShipmentState {
  readonly status: ShipmentStatus;
}

export type ShipmentWorkflow = Workflow<Schema<ShipmentState>, { readonly [Type in ShipmentEventType]: Schema<ShipmentEventData[Type]> }>;

const freeForm = z.looseObject({});
const withReason = z.looseObject({ reason: z.string().min(1) });

export const shipmentWorkflow: ShipmentWorkflow = defineWorkflow({
  name: "shipment",
  state: z.object({ status: z.enum(SHIPMENT_STATUSES) }),
  events: {
    "order.purchased": freeForm,
    "order.approved": freeForm,
    "order.invoiced": freeForm,
    "order.canceled": freeForm,
    "order.unavailable": freeForm,
    "shipment.instructed": z.looseObject({ carrier: z.string().min(1), parcels: z.int().min(1) }),
    "shipment.handed-to-carrier": freeForm,
    "shipment.picked-up": z.looseObject({ depot: z.string().min(1) }),
    "shipment.in-transit": z.looseObject({ hub: z.string().min(1) }),
    "shipment.out-for-delivery": freeForm,
    "shipment.delivery-failed": withReason,
    "shipment.delivered": z.looseObject({ late: z.boolean().exactOptional(), signedBy: z.string().exactOptional() }),
    "shipment.returned": withReason,
    "shipment.canceled": withReason,
  },
});

const STATUS_AFTER: Readonly<Record<ShipmentEventType, ShipmentStatus>> = {
  "order.purchased": "purchased",
  "order.approved": "approved",
  "order.invoiced": "invoiced",
  "order.canceled": "canceled",
  "order.unavailable": "unavailable",
  "shipment.instructed": "instructed",
  "shipment.handed-to-carrier": "handed-to-carrier",
  "shipment.picked-up": "picked-up",
  "shipment.in-transit": "in-transit",
  "shipment.out-for-delivery": "out-for-delivery",
  "shipment.delivery-failed": "delivery-failed",
  "shipment.delivered": "delivered",
  "shipment.returned": "returned",
  "shipment.canceled": "canceled",
};

/** The order's state once an event of this type has happened. */
export function stateAfter(type: ShipmentEventType): ShipmentState {
  return { status: STATUS_AFTER[type] };
}

export function isShipmentEventType(type: string): type is ShipmentEventType {
  return Object.hasOwn(STATUS_AFTER, type);
}
