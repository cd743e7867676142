import { expect, test } from "vitest";
import type { CommittedEvent } from "../../src/local/audit.ts";
import { auditedSubscriptions } from "../../src/local/audited.ts";
import type { HandledRecord } from "../../src/local/handled-record.ts";
import { auditRun, total, type RunAuditInput } from "../../src/local/run-audit.ts";
import { defineSubscription } from "../../src/core/workflow.ts";
import { shipmentWorkflow, type ShipmentEventType } from "../../src/shipment/workflow.ts";

const TYPES: readonly ShipmentEventType[] = ["order.approved", "shipment.instructed", "shipment.in-transit", "shipment.delivered"];
const ALL = [1, 2, 3, 4];
/** What each subscription is to be handed, by sequence. */
const WANTED = { "audit-log": ALL, "customer-notifier": [2, 4], partner: [2, 3, 4] };

function committed(n: number): CommittedEvent {
  return {
    orderId: "o",
    id: `o-${n}`,
    sequence: n,
    type: TYPES[n - 1]!,
    time: "2026-01-05T08:00:00Z",
    dataText: `{"n":${n}}`,
    dataDigest: `d${n}`,
  };
}

/** With ids that a stored event can have. */
function committedWithIds(): CommittedEvent[] {
  return ALL.map((n) => ({ ...committed(n), id: `01JZ0000000000000000000${String(n).padStart(3, "0")}` }));
}

function records(subscription: string, sequences: readonly number[]): HandledRecord[] {
  return sequences.map((n) => ({ ...committed(n), subscription, worker: "w" }));
}

function auditOf(change: Partial<typeof WANTED> & { readonly [name: string]: number[] }, more: Partial<RunAuditInput> = {}) {
  const handled = Object.entries({ ...WANTED, ...change }).flatMap(([name, sequences]) => records(name, sequences));
  return auditRun({
    audited: auditedSubscriptions([{ name: "audit-log", wants: () => true }]),
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

test("a subscription that was added to the deployed ones is held to its own filter, which may look at the data", () => {
  const stats = defineSubscription(shipmentWorkflow, {
    name: "stats",
    events: ["shipment.in-transit", "shipment.delivered"],
    when: ({ dataText, sequence }) => (JSON.parse(dataText) as { n: number }).n === 4 && sequence === 4,
    handle() {},
  });
  const more = { audited: auditedSubscriptions([{ name: "audit-log", wants: () => true }, stats]) };
  const events = committedWithIds();
  const handled = Object.entries(WANTED).flatMap(([name, sequences]) =>
    sequences.map((n) => ({ ...events[n - 1]!, subscription: name, worker: "w" })),
  );
  const withStats = (...sequences: readonly number[]) =>
    auditOf(
      {},
      {
        ...more,
        committed: events,
        handled: [...handled, ...sequences.map((n) => ({ ...events[n - 1]!, subscription: "stats", worker: "w" }))],
      },
    );
  expect(withStats(4)).toMatchObject({ handled: 4, verified: true, subscriptions: { stats: { events: 1, handled: 1 } } });
  expect(withStats()).toMatchObject({ handled: 3, verified: false, subscriptions: { stats: { missing: 1 } } });
  expect(withStats(3, 4)).toMatchObject({ verified: false, subscriptions: { stats: { unexpected: 1 } } });
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
