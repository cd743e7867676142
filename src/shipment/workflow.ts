/** The shipment workflow: what an order looks like and which events it has. This room is the one to edit for a workflow of your own. */
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

const PARCEL_STATUSES = [
  "awaiting-instruction",
  "instructed",
  "handed-to-carrier",
  "picked-up",
  "in-transit",
  "out-for-delivery",
  "delivery-failed",
  "delivered",
  "returned",
  "canceled",
] as const;

/** Where the parcel is, by its last event. */
export type ParcelStatus = (typeof PARCEL_STATUSES)[number];

const SHOP_STATUSES = ["purchased", "approved", "invoiced", "unavailable", "canceled"] as const;

/** What the shop has said last about the order. Its reports come late and in any order, so they move no parcel. */
export type ShopStatus = (typeof SHOP_STATUSES)[number];

export interface ShipmentState {
  readonly status: ParcelStatus;
  readonly shop?: ShopStatus;
}

export type ShipmentWorkflow = Workflow<Schema<ShipmentState>, { readonly [Type in ShipmentEventType]: Schema<ShipmentEventData[Type]> }>;

const freeForm = z.looseObject({});
const withReason = z.looseObject({ reason: z.string().min(1) });

export const shipmentWorkflow: ShipmentWorkflow = defineWorkflow({
  name: "shipment",
  state: z.object({ status: z.enum(PARCEL_STATUSES), shop: z.enum(SHOP_STATUSES).exactOptional() }),
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

export function isShipmentEventType(type: string): type is ShipmentEventType {
  return Object.hasOwn(shipmentWorkflow.events, type);
}
