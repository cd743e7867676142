import { describe, expect, test } from "vitest";
import { validate } from "../../src/core/schema.ts";
import { generateHistories } from "../../src/local/histories.ts";
import type { PlannedEvent } from "../../src/local/plan.ts";
import { rawJson } from "../../src/core/json.ts";
import { recordEvents } from "../../src/shipment/transitions.ts";
import { shipmentWorkflow } from "../../src/shipment/workflow.ts";

const plan = generateHistories({ orders: 300, seed: 1, run: 1 });

function eventsOf(orderId: string): PlannedEvent[] {
  return plan.filter((commit) => commit.orderId === orderId).flatMap(({ events }) => events);
}

function inputs(events: readonly PlannedEvent[]): Parameters<typeof recordEvents>[2] {
  return events.map(({ type, dataText }) => ({ type, data: rawJson(dataText) }));
}

const orderIds = [...new Set(plan.map(({ orderId }) => orderId))];

test("the same seed gives the same histories", () => {
  expect(generateHistories({ orders: 300, seed: 1, run: 1 })).toEqual(plan);
});

test("another seed gives others", () => {
  expect(generateHistories({ orders: 300, seed: 2, run: 1 })).not.toEqual(plan);
});

test("later runs in the same folder have the same histories under ids of their own", () => {
  const second = generateHistories({ orders: 300, seed: 1, run: 2 });
  expect(second.map(({ events }) => events)).toEqual(plan.map(({ events }) => events));
  expect(second.filter(({ orderId }) => orderIds.includes(orderId))).toEqual([]);
});

test("there are as many orders as asked for, interleaved", () => {
  expect(orderIds).toHaveLength(300);
  expect(plan.slice(0, 300).map(({ orderId }) => orderId)).not.toEqual(
    plan
      .slice(0, 300)
      .map(({ orderId }) => orderId)
      .toSorted(),
  );
});

describe("each history", () => {
  test("begins with the instruction and ends with an end", () => {
    for (const orderId of orderIds) {
      const types = eventsOf(orderId).map(({ type }) => type);
      expect(types[0]).toBe("shipment.instructed");
      expect(types.at(-1)).toMatch(/^shipment\.(delivered|returned|canceled)$/);
    }
  });

  test("goes forward in time", () => {
    for (const orderId of orderIds) {
      const times = eventsOf(orderId).map(({ time }) => time);
      expect(times).toEqual(times.toSorted());
    }
  });

  test("matches the workflow's schemas", async () => {
    for (const { type, dataText } of plan.flatMap(({ events }) => events)) {
      const data: unknown = JSON.parse(dataText);
      expect(await validate(shipmentWorkflow.events[type], data, type, "invalid-event")).toEqual(data);
    }
  });
});

test("every event may follow the one before it", () => {
  for (const orderId of orderIds) expect(() => recordEvents(orderId, undefined, inputs(eventsOf(orderId)))).not.toThrow();
});

test("all ends and a commit of two events occur", () => {
  const types = new Set(plan.flatMap(({ events }) => events.map(({ type }) => type)));
  expect([...types]).toEqual(
    expect.arrayContaining(["shipment.delivered", "shipment.returned", "shipment.canceled", "shipment.delivery-failed"]),
  );
  expect(plan.some(({ events }) => events.length === 2)).toBe(true);
});
