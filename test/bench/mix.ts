/** The storage calls that events need, as a recipe for raw calls: how many of each operation, and how big the batched ones are. */
import type { CallCounts } from "../../src/storage/call-counter.ts";
import type { Batches, Recording } from "./recording-client.ts";

/**
 * An operation of a raw run. Transactions come in two kinds. The order is that in which a unit makes them: what an operation needs (a lease, rows,
 * blobs, messages) the ones before it have made.
 */
export const OPERATIONS = [
  "ReadEntity",
  "SendMessage",
  "CommitTransaction",
  "UpdateMessage",
  "ReceiveMessages",
  "GetBlobProperties",
  "LeaseAcquire",
  "LeaseRenew",
  "QueryEntities",
  "PutBlob",
  "DeleteEntity",
  "DeleteTransaction",
  "SetBlobMetadata",
  "ListBlobs",
  "GetBlob",
  "DeleteBlob",
  "BlobBatch",
  "LeaseRelease",
  "DeleteMessage",
] as const;
export type Operation = (typeof OPERATIONS)[number];

/** The most that a queue gives at once. */
const MAX_RECEIVE = 32;

export interface Mix {
  /** Calls of each operation an event. */
  readonly perEvent: Readonly<Record<Operation, number>>;
  /** Sum of {@link Mix.perEvent}. */
  readonly callsPerEvent: number;
  /** Outbox rows that a commit inserts. */
  readonly rowsPerCommit: number;
  readonly rowsPerDelete: number;
  readonly blobsPerBatch: number;
  /** What a receive asks for: about what one of the product's got. */
  readonly messagesPerReceive: number;
}

/** Throws for an operation that raw runs don't know: a mix that leaves something out would flatter the product. */
export function mixOf(
  calls: CallCounts,
  { commits, deletes, blobBatches }: Pick<Recording, "commits" | "deletes" | "blobBatches">,
  events: number,
): Mix {
  const perEvent = Object.fromEntries(OPERATIONS.map((operation) => [operation, 0])) as Record<Operation, number>;
  for (const [key, count] of Object.entries(calls.byOperation)) {
    const operation = key.slice(key.indexOf(" ") + 1);
    if (operation === "Transaction") {
      perEvent.CommitTransaction = commits.requests / events;
      perEvent.DeleteTransaction = deletes.requests / events;
      if (commits.requests + deletes.requests !== count)
        throw new Error(`${count} transactions, ${commits.requests} + ${deletes.requests} recorded`);
    } else if (isOperation(operation)) perEvent[operation] = count / events;
    else throw new Error(`${key} is no operation of a raw run`);
  }
  return {
    perEvent,
    callsPerEvent: calls.total / events,
    rowsPerCommit: Math.max(1, size(commits) - 1),
    rowsPerDelete: Math.max(2, size(deletes)),
    blobsPerBatch: Math.max(2, size(blobBatches)),
    messagesPerReceive: Math.max(1, Math.min(MAX_RECEIVE, Math.round(perEvent.DeleteMessage / Math.max(perEvent.ReceiveMessages, 1e-9)))),
  };
}

function isOperation(name: string): name is Operation {
  return (OPERATIONS as readonly string[]).includes(name);
}

function size({ requests, operations }: Batches): number {
  return requests === 0 ? 0 : operations / requests;
}

/** How often the `unit`-th event (from 0) makes the operation, so that `n` events together make `n × rate`, rounded down. */
export function timesIn(unit: number, rate: number): number {
  // Counts are exact multiples of 1 / events: the epsilon undoes what binary fractions lose.
  return Math.floor((unit + 1) * rate + 1e-9) - Math.floor(unit * rate + 1e-9);
}
