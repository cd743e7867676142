import { describe, expect, test } from "vitest";
import { isOutboxError } from "../../src/core/errors.ts";
import { rawJson } from "../../src/core/json.ts";
import { recordEvents } from "../../src/shipment/transitions.ts";
import { shipmentWorkflow, type ShipmentEventType, type ShipmentState } from "../../src/shipment/workflow.ts";

function record(state: ShipmentState | undefined, ...types: readonly ShipmentEventType[]): ShipmentState {
  return recordEvents(
    "o-1",
    state,
    types.map((type) => ({ type, data: rawJson("{}") })),
  ).state;
}

function refusal(state: ShipmentState | undefined, ...types: readonly ShipmentEventType[]): string {
  try {
    record(state, ...types);
  } catch (error) {
    if (isOutboxError(error, "invalid-state")) return error.message;
    throw error;
  }
  throw new Error("it was not refused");
}

describe("shipments that happen", () => {
  test.each<[readonly ShipmentEventType[], string]>([
    [
      [
        "shipment.instructed",
        "shipment.picked-up",
        "shipment.in-transit",
        "shipment.in-transit",
        "shipment.out-for-delivery",
        "shipment.delivered",
      ],
      "delivered",
    ],
    [["shipment.instructed", "shipment.in-transit", "shipment.delivered"], "delivered"],
    [["shipment.instructed", "shipment.canceled"], "canceled"],
    [["shipment.handed-to-carrier", "shipment.delivered"], "delivered"],
    [
      ["shipment.instructed", "shipment.out-for-delivery", "shipment.delivery-failed", "shipment.out-for-delivery", "shipment.delivered"],
      "delivered",
    ],
    [["shipment.instructed", "shipment.picked-up", "shipment.delivery-failed", "shipment.returned"], "returned"],
    [["shipment.instructed", "shipment.picked-up", "shipment.delivered", "shipment.returned"], "returned"],
  ])("%j", (types, status) => {
    expect(record(undefined, ...types)).toEqual({ status });
  });

  test("what the shop reports late moves no parcel", () => {
    expect(record({ status: "in-transit" }, "order.purchased", "order.approved")).toEqual({ status: "in-transit", shop: "approved" });
    expect(record(undefined, "order.canceled", "shipment.handed-to-carrier")).toEqual({ status: "handed-to-carrier", shop: "canceled" });
  });
});

describe("shipments that can't happen are refused", () => {
  test.each<[ShipmentState["status"], ShipmentEventType]>([
    ["awaiting-instruction", "shipment.picked-up"],
    ["awaiting-instruction", "shipment.in-transit"],
    ["awaiting-instruction", "shipment.out-for-delivery"],
    ["awaiting-instruction", "shipment.returned"],
    ["instructed", "shipment.instructed"],
    ["instructed", "shipment.returned"],
    ["picked-up", "shipment.instructed"],
    ["picked-up", "shipment.canceled"],
    ["in-transit", "shipment.picked-up"],
    ["out-for-delivery", "shipment.handed-to-carrier"],
    ["delivered", "shipment.delivered"],
    ["delivered", "shipment.in-transit"],
    ["returned", "shipment.delivered"],
    ["canceled", "shipment.picked-up"],
  ])("%s, then %s", (status, type) => {
    expect(refusal({ status }, type)).toContain(`order o-1: ${type} can't follow ${status}`);
  });

  test("the message says what may follow", () => {
    expect(refusal({ status: "delivered" }, "shipment.canceled")).toMatch("Possible now: shipment.returned");
    expect(refusal({ status: "returned" }, "shipment.delivered")).toMatch("Possible now: nothing");
  });

  test("the second of two events in one commit, too", () => {
    expect(refusal({ status: "instructed" }, "shipment.canceled", "shipment.picked-up")).toContain(
      "shipment.picked-up can't follow canceled",
    );
  });
});

test("every event type of the workflow is known here", () => {
  const outcomes = (Object.keys(shipmentWorkflow.events) as ShipmentEventType[]).map((type) => {
    try {
      return record({ status: "out-for-delivery" }, type).status;
    } catch (error) {
      return isOutboxError(error, "invalid-state") ? "refused" : String(error);
    }
  });
  expect(new Set(outcomes)).toEqual(new Set(["refused", "out-for-delivery", "in-transit", "delivery-failed", "delivered", "returned"]));
});
