import { expect, test } from "vitest";
import type { CommittedEvent } from "../../src/local/audit.ts";
import type { HandledRecord } from "../../src/local/handled-record.ts";
import { auditRun, total, type RunAuditInput } from "../../src/local/run-audit.ts";
import type { ShipmentEventType } from "../../src/shipment/workflow.ts";

const TYPES: readonly ShipmentEventType[] = ["order.approved", "shipment.instructed", "shipment.in-transit", "shipment.delivered"];
const ALL = [1, 2, 3, 4];
/** What each subscription is to be handed, by sequence. */
const WANTED = { "audit-log": ALL, "customer-notifier": [2, 4], partner: [2, 3, 4] };

function committed(n: number): CommittedEvent {
  return { orderId: "o", id: `o-${n}`, sequence: n, type: TYPES[n - 1]!, time: "2026-01-05T08:00:00Z", dataDigest: `d${n}` };
}

function records(subscription: string, sequences: readonly number[]): HandledRecord[] {
  return sequences.map((n) => ({ ...committed(n), subscription, worker: "w" }));
}

function auditOf(change: Partial<typeof WANTED> & { readonly [name: string]: number[] }, more: Partial<RunAuditInput> = {}) {
  const handled = Object.entries({ ...WANTED, ...change }).flatMap(([name, sequences]) => records(name, sequences));
  return auditRun({
    committed: ALL.map(committed),
    handled,
    tornRecords: 0,
    killedWorkers: new Set(),
    earlierOrders: new Set(),
    ...more,
  });
}

test("G4: each subscription is judged by what it wants, and by nothing else", () => {
  const result = auditOf({});
  expect(result).toMatchObject({ orders: 1, events: 4, handled: 4, verified: true });
  expect(Object.entries(result.subscriptions).map(([name, { events, handled }]) => [name, events, handled])).toEqual([
    ["audit-log", 4, 4],
    ["customer-notifier", 2, 2],
    ["partner", 3, 3],
  ]);
});

test("G3: an event that one subscription never got is missing there, and not handled as a whole", () => {
  const result = auditOf({ partner: [2, 4] });
  expect(result).toMatchObject({ handled: 3, verified: false });
  expect(result.subscriptions).toMatchObject({ "audit-log": { missing: 0 }, partner: { missing: 1, outOfOrder: 1 } });
  expect(total(result, "missing")).toBe(1);
});

test("G2: out of order for one subscription alone", () => {
  const result = auditOf({ "customer-notifier": [4, 2] });
  expect(result.subscriptions).toMatchObject({ "audit-log": { outOfOrder: 0 }, "customer-notifier": { outOfOrder: 1 } });
  expect(result.verified).toBe(false);
});

test("an event that a subscription does not want is unexpected there", () => {
  expect(auditOf({ "customer-notifier": [2, 3, 4] }).subscriptions["customer-notifier"]).toMatchObject({ unexpected: 1, missing: 0 });
});

test("a subscription that is none of the run is reported", () => {
  expect(auditOf({ ghost: [1] })).toMatchObject({ verified: false, findings: [{ kind: "unexpected" }] });
});

test("G2: a sequence that was given twice is out of order whatever the handlers did", () => {
  const twice = [committed(1), { ...committed(2), sequence: 1 }];
  const handled = ["audit-log", "customer-notifier", "partner"].flatMap((name) =>
    twice
      .filter(({ type }) => name === "audit-log" || type !== "order.approved")
      .map((event) => ({ ...event, subscription: name, worker: "w" })),
  );
  const result = auditOf({}, { committed: twice, handled });
  expect(total(result, "outOfOrder")).toBe(1);
  expect(result.verified).toBe(false);
});

test.each([
  [1, ["w"], 0],
  [1, [], 1],
  [3, ["w"], 2],
])("%i torn records with killed workers %j: %i unexpected", (tornRecords, killed, unexpected) => {
  const result = auditOf({}, { tornRecords, killedWorkers: new Set(killed) });
  expect(total(result, "unexpected")).toBe(unexpected);
  expect(result.verified).toBe(unexpected === 0);
});
