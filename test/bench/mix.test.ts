import { expect, test } from "vitest";
import { NO_CALLS } from "../../src/storage/call-counter.ts";
import { mixOf, OPERATIONS, timesIn, type Mix, type Operation } from "./mix.ts";
import { BatchSizes, Pool, runMix, type RawCaller } from "./raw-run.ts";

const NONE = { requests: 0, operations: 0 };

function counted(byOperation: Readonly<Record<string, number>>): typeof NO_CALLS {
  return { total: Object.values(byOperation).reduce((sum, count) => sum + count, 0), byOperation, byPriceClass: {} };
}

test("a mix has every counted call, transactions by their kind, batches by their size", () => {
  const calls = counted({ "table ReadEntity": 4, "table Transaction": 6, "blob PutBlob": 8, "blob BlobBatch": 1 });
  const recording = {
    commits: { requests: 4, operations: 12 },
    deletes: { requests: 2, operations: 8 },
    blobBatches: { requests: 1, operations: 4 },
  };
  const mix = mixOf(calls, recording, 4);
  expect(mix).toMatchObject({ callsPerEvent: 19 / 4, rowsPerCommit: 2, rowsPerDelete: 4, blobsPerBatch: 4 });
  expect(mix.perEvent).toMatchObject({
    ReadEntity: 1,
    CommitTransaction: 1,
    DeleteTransaction: 0.5,
    PutBlob: 2,
    BlobBatch: 0.25,
    GetBlob: 0,
  });
  expect(Object.values(mix.perEvent).reduce((sum, rate) => sum + rate, 0)).toBeCloseTo(mix.callsPerEvent, 9);
});

test("a mix refuses to leave a call out", () => {
  const nothing = { commits: NONE, deletes: NONE, blobBatches: NONE };
  expect(() => mixOf(counted({ "blob LeaseBreak": 1 }), nothing, 1)).toThrow("blob LeaseBreak is no operation of a raw run");
  expect(() => mixOf(counted({ "table Transaction": 2 }), { ...nothing, commits: { requests: 1, operations: 2 } }, 1)).toThrow(
    "2 transactions",
  );
});

test.each([
  [1, 3],
  [7 / 3, 3],
  [1 / 49, 49],
  [0.1, 1_000],
  [1_201 / 1_200, 1_200],
])("a rate of %d an event makes a whole number of calls of %d events", (rate, events) => {
  let sum = 0;
  for (let unit = 0; unit < events; unit++) sum += timesIn(unit, rate);
  expect(sum).toBe(Math.round(rate * events));
});

/** Callers that write down what they are asked for. */
function callersWith(made: Operation[], count: number): RawCaller[] {
  const calls = Object.fromEntries(
    OPERATIONS.map((operation) => [operation, () => Promise.resolve(void made.push(operation))]),
  ) as RawCaller["calls"];
  return Array.from({ length: count }, () => ({ calls, prepare: () => Promise.resolve() }));
}

test("callers make the calls of a mix together, each as often as it was counted, and no other", async () => {
  const perEvent: Record<Operation, number> = { ...mixOf(NO_CALLS, { commits: NONE, deletes: NONE, blobBatches: NONE }, 1).perEvent };
  Object.assign(perEvent, { ReadEntity: 1, PutBlob: 2, BlobBatch: 0.25, LeaseAcquire: 1.5 });
  const mix: Mix = { perEvent, callsPerEvent: 4.75, rowsPerCommit: 1, rowsPerDelete: 2, blobsPerBatch: 4, messagesPerReceive: 1 };
  const made: Operation[] = [];
  const { calls } = await runMix(callersWith(made, 3), mix, 8);
  expect(calls).toBe(38);
  expect(Object.groupBy(made, (operation) => operation)).toEqual({
    ReadEntity: Array(8).fill("ReadEntity"),
    PutBlob: Array(16).fill("PutBlob"),
    BlobBatch: Array(2).fill("BlobBatch"),
    LeaseAcquire: Array(12).fill("LeaseAcquire"),
  });
});

test("sizes of batches have the mean of the mix; a pool that is empty is a fault, no call", () => {
  const sizes = new BatchSizes();
  sizes.set({ rowsPerCommit: 2.5, rowsPerDelete: 1.2, blobsPerBatch: 2, messagesPerReceive: 1 });
  expect(Array.from({ length: 4 }, () => sizes.next("rowsPerCommit"))).toEqual([2, 3, 2, 3]);
  expect(sizes.next("rowsPerDelete")).toBe(2);
  const pool = new Pool<number>("rows");
  pool.put([1, 2]);
  expect(pool.take(2)).toEqual([1, 2]);
  expect(() => pool.take(1)).toThrow("a raw run has 0 rows left and needs 1");
});
