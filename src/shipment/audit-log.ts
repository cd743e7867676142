/** Every event as an entry in a log: what a dispute with a carrier is settled with. The data stays out of it. */
import { defineSubscription, type HandledEvent, type Subscription } from "../core/workflow.ts";
import { shipmentWorkflow, type ShipmentWorkflow } from "./workflow.ts";

export type AuditLogEntry = Pick<HandledEvent<ShipmentWorkflow>, "orderId" | "id" | "sequence" | "type" | "time" | "replayOf">;

/** @param write to wherever the log is kept; the event is done when it returns */
export function createAuditLog(write: (entry: AuditLogEntry) => void): Subscription {
  return defineSubscription(shipmentWorkflow, {
    name: "audit-log",
    handle: ({ orderId, id, sequence, type, time, replayOf }) =>
      write({ orderId, id, sequence, type, time, ...(replayOf === undefined ? {} : { replayOf }) }),
  });
}
