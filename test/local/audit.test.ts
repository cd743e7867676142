import { describe, expect, test } from "vitest";
import { audit, checkCommitOrder, type AuditInput, type CommittedEvent } from "../../src/local/audit.ts";
import type { HandledRecord } from "../../src/local/handled-record.ts";

/** Event `n` of an order. */
function committed(n: number, orderId: string = "o"): CommittedEvent {
  return {
    orderId,
    id: `${orderId}-${String(n).padStart(4, "0")}`,
    sequence: n,
    type: "shipment.in-transit",
    time: "2026-01-05T08:00:00Z",
    dataText: "{}",
    dataDigest: `d${n}`,
  };
}

function handled(n: number, change: Partial<HandledRecord> = {}): HandledRecord {
  return { ...committed(n, change.orderId), subscription: "s", worker: "w", ...change };
}

function auditOf(input: Partial<AuditInput>): ReturnType<typeof audit> {
  return audit({
    committed: [1, 2, 3].map((n) => committed(n)),
    handled: [],
    killedWorkers: new Set(),
    earlierOrders: new Set(),
    ...input,
  });
}

const NOTHING = { handled: 3, duplicates: 0, outOfOrder: 0, missing: 0, unexpected: 0, verified: true };

describe("one order with three events", () => {
  test.each<[string, readonly number[], Partial<ReturnType<typeof audit>>]>([
    ["G2: handled once each, in commit order", [1, 2, 3], {}],
    ["G3: the event at hand may be repeated", [1, 1, 2, 3, 3, 3], { duplicates: 3 }],
    ["G2: an event before its predecessor is out of order, once", [1, 3, 2], { outOfOrder: 1, verified: false }],
    ["G2: the last event first", [3, 1, 2], { outOfOrder: 1, verified: false }],
    ["G2: all the wrong way round", [3, 2, 1], { outOfOrder: 2, verified: false }],
    ["G3: an earlier event repeated after a later one is out of order, no duplicate", [1, 2, 1, 3], { outOfOrder: 1, verified: false }],
    ["G3: the whole order repeated", [1, 2, 3, 1, 2, 3], { outOfOrder: 2, duplicates: 1, verified: false }],
    ["G3: the last event is missing", [1, 2], { handled: 2, missing: 1, verified: false }],
    [
      "G3: an event in the middle is missing, which shows at its successor too",
      [1, 3],
      { handled: 2, missing: 1, outOfOrder: 1, verified: false },
    ],
    ["G3: nothing was handled", [], { handled: 0, missing: 3, verified: false }],
  ])("%s", (_, sequence, difference) => {
    expect(auditOf({ handled: sequence.map((n) => handled(n)) })).toMatchObject({ orders: 1, events: 3, ...NOTHING, ...difference });
  });
});

describe("G6: what was handled is what was committed", () => {
  test.each<[string, Partial<HandledRecord>]>([
    ["payload", { dataDigest: "d9" }],
    ["type", { type: "shipment.delivered" }],
    ["time", { time: "2026-01-05T08:00:00.000Z" }],
    ["sequence", { sequence: 3 }],
  ])("another %s is unexpected, and the committed event missing", (what, change) => {
    const result = auditOf({ handled: [handled(1), handled(2), handled(3), handled(2, change)].toSpliced(1, 1) });
    expect(result).toMatchObject({ unexpected: 1, missing: 1, verified: false });
    expect(result.findings.find(({ kind }) => kind === "unexpected")?.text).toContain(`another ${what}`);
  });

  test.each<[string, HandledRecord]>([
    ["an unknown id", handled(4)],
    ["an order that was never committed to", handled(1, { orderId: "other" })],
    ["an event under another order", { ...handled(1), orderId: "other" }],
  ])("%s is unexpected", (_, record) => {
    expect(auditOf({ handled: [handled(1), handled(2), handled(3), record] })).toMatchObject({
      ...NOTHING,
      unexpected: 1,
      verified: false,
    });
  });
});

test("G4: orders are judged one by one, however their events are interleaved", () => {
  const result = auditOf({
    committed: [committed(1), committed(1, "p"), committed(2), committed(2, "p")],
    handled: [handled(1, { orderId: "p" }), handled(1), handled(2), handled(2, { orderId: "p" })],
  });
  expect(result).toMatchObject({ orders: 2, events: 4, handled: 4, verified: true });
});

test.each([
  ["killed", 0],
  ["alive", 1],
])("G3: a repetition after a worker that is %s", (state, unexplainedDuplicates) => {
  const result = auditOf({
    handled: [handled(1), handled(1, { worker: "w2" }), handled(2), handled(3)],
    killedWorkers: new Set(state === "killed" ? ["w"] : []),
  });
  expect(result).toMatchObject({ ...NOTHING, duplicates: 1, unexplainedDuplicates });
});

test("a handler that is told less is judged by what it can write down", () => {
  const records = [1, 2, 3].map((n) => ({ subscription: "s", worker: "w", orderId: "o", id: committed(n).id }));
  expect(auditOf({ handled: records })).toMatchObject(NOTHING);
  expect(auditOf({ handled: [records[0]!, records[2]!, records[1]!] })).toMatchObject({ outOfOrder: 1, verified: false });
});

test.each<[string, CommittedEvent]>([
  ["a gap in the sequence", { ...committed(4), sequence: 5 }],
  ["a repeated sequence", { ...committed(4), sequence: 3 }],
  ["an id that does not grow", { ...committed(4), id: "o-0000" }],
])("G2: %s is out of order whatever the handlers did", (_, last) => {
  expect(checkCommitOrder([committed(1, "p"), committed(3), last])).toMatchObject([{ kind: "outOfOrder" }]);
  expect(checkCommitOrder([committed(3), committed(1, "p"), committed(4)])).toEqual([]);
});

describe("events that an earlier run left behind", () => {
  const later = { committed: [committed(3)], earlierOrders: new Set(["o", "old"]) };

  test.each<[string, readonly HandledRecord[], Partial<ReturnType<typeof audit>>]>([
    ["of the same order are set aside", [handled(1), handled(2), handled(3)], { earlier: 2 }],
    ["of an order that this run has nothing of, too", [handled(3), handled(1, { orderId: "old" })], { earlier: 1 }],
    ["G2: are out of order after an event of this run", [handled(3), handled(2)], { outOfOrder: 1, verified: false }],
    ["don't excuse an unknown event of this run", [handled(3), handled(4)], { unexpected: 1, verified: false }],
    [
      "don't excuse an order that no run has committed to",
      [handled(3), handled(1, { orderId: "new" })],
      { unexpected: 1, verified: false },
    ],
  ])("%s", (_, records, difference) => {
    expect(auditOf({ ...later, handled: records })).toMatchObject({ ...NOTHING, handled: 1, earlier: 0, ...difference });
  });
});
