/** Which event may follow which: producers refuse what can't have happened, before anything is written. */
import { OutboxError, printable } from "../core/errors.ts";
import type { EventInput } from "../core/workflow.ts";
import type { ParcelStatus, ShipmentEventType, ShipmentState, ShipmentWorkflow, ShopStatus } from "./workflow.ts";

type ShipmentEvent = EventInput<ShipmentWorkflow>;

const WITH_CARRIER = ["handed-to-carrier", "picked-up", "in-transit", "out-for-delivery", "delivery-failed"] as const;

interface Step {
  readonly status: ParcelStatus;
  readonly after: readonly ParcelStatus[];
}

/**
 * What each event leads to and what it may follow. Scans get lost, so a parcel may be seen further on than expected; it never goes back to
 * where it has been, except for another delivery attempt, and nothing follows a return or a cancelation. Parcels that the shop ships itself
 * are not instructed by us: of them the first we hear is the handing over, or the delivery.
 */
const STEPS: Readonly<Record<Extract<ShipmentEventType, `shipment.${string}`>, Step>> = {
  "shipment.instructed": { status: "instructed", after: ["awaiting-instruction"] },
  "shipment.handed-to-carrier": { status: "handed-to-carrier", after: ["awaiting-instruction", "instructed"] },
  "shipment.picked-up": { status: "picked-up", after: ["instructed", "handed-to-carrier"] },
  "shipment.in-transit": { status: "in-transit", after: ["instructed", ...WITH_CARRIER] },
  "shipment.out-for-delivery": { status: "out-for-delivery", after: ["instructed", ...WITH_CARRIER] },
  "shipment.delivery-failed": { status: "delivery-failed", after: ["picked-up", "in-transit", "out-for-delivery"] },
  "shipment.delivered": { status: "delivered", after: ["awaiting-instruction", "instructed", ...WITH_CARRIER] },
  "shipment.returned": { status: "returned", after: [...WITH_CARRIER, "delivered"] },
  "shipment.canceled": { status: "canceled", after: ["awaiting-instruction", "instructed", "handed-to-carrier"] },
};

const SHOP_STATUS: Readonly<Record<Extract<ShipmentEventType, `order.${string}`>, ShopStatus>> = {
  "order.purchased": "purchased",
  "order.approved": "approved",
  "order.invoiced": "invoiced",
  "order.unavailable": "unavailable",
  "order.canceled": "canceled",
};

/**
 * The change that records what happened to a shipment, for `outbox.commit`:
 * `outbox.commit(orderId, (state) => recordEvents(orderId, state, [{ type: "shipment.delivered", data: {} }]))`.
 *
 * @throws `invalid-state` if one of the events can't follow the one before it; nothing is written then
 */
export function recordEvents(
  orderId: string,
  state: ShipmentState | undefined,
  events: readonly ShipmentEvent[],
): { readonly state: ShipmentState; readonly events: readonly ShipmentEvent[] } {
  let next: ShipmentState = state ?? { status: "awaiting-instruction" };
  for (const { type } of events) next = stateAfter(orderId, next, type);
  return { state: next, events };
}

function stateAfter(orderId: string, state: ShipmentState, type: ShipmentEventType): ShipmentState {
  if (isShopEvent(type)) return { ...state, shop: SHOP_STATUS[type] };
  const { status, after } = STEPS[type];
  if (!after.includes(state.status)) {
    throw new OutboxError(
      "invalid-state",
      `order ${printable(orderId)}: ${type} can't follow ${state.status}. Possible now: ${possibleAfter(state.status).join(", ") || "nothing"}`,
    );
  }
  return { ...state, status };
}

function isShopEvent(type: ShipmentEventType): type is keyof typeof SHOP_STATUS {
  return Object.hasOwn(SHOP_STATUS, type);
}

function possibleAfter(status: ParcelStatus): string[] {
  return Object.entries(STEPS).flatMap(([type, { after }]) => (after.includes(status) ? [type] : []));
}
