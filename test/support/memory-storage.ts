/**
 * The storage ports in memory, with the semantics of the real ones: etags, all-or-nothing transactions, leases that expire by the given
 * clock and are needed for metadata writes, hidden messages and receipts. Rows go through the same encoding as in the account.
 *
 * Tests watch and disturb calls through {@link MemoryStorage.onCall}.
 */
import { withBundles } from "../../src/storage/bundled-archive.ts";
import { commitOperations } from "../../src/storage/order-rows.ts";
import type { Clock } from "../../src/core/clock.ts";
import { OutboxError } from "../../src/core/errors.ts";
import type { Container } from "../../src/core/names.ts";
import type { OrderKey } from "../../src/core/order-id.ts";
import type { BlobContent, Blobs, CallOptions, Metadata, OrderLeases, OrdersTable, Storage, WakeUpQueue } from "../../src/core/ports.ts";
import type { Row } from "../../src/storage/order-rows.ts";
import type { Properties } from "../../src/storage/table-value.ts";
import { ManualClock } from "./manual-clock.ts";
import { Etags, copy } from "./memory-basics.ts";
import { MemoryBlobs } from "./memory-blobs.ts";
import { MemoryLeases, type InspectedLease } from "./memory-leases.ts";
import { MemoryQueue, type QueuedMessage } from "./memory-queue.ts";
import { MemoryTable } from "./memory-table.ts";

export interface PortCall {
  readonly port: keyof Storage;
  readonly method: string;
  readonly args: readonly unknown[];
  /** 0 for the first call since creation, whatever its port. */
  readonly index: number;
}

/**
 * What becomes of a call:
 * - nothing: it goes through (after the hook's promise, so an awaited hand-settled promise delays it);
 * - the hook throws: it fails with that error and is not applied;
 * - `lose-response`: it is applied, then fails with `unavailable`;
 * - `after`: it is applied, then `after` is awaited before it answers; if `after` throws, so does the call.
 */
export type Disturbance = void | "lose-response" | { readonly after: () => Promise<void> | void };

export interface MemoryStorage extends Storage {
  /** Called before every port call (for `blobs.list`, before its first page). */
  onCall: ((call: PortCall) => Disturbance | Promise<Disturbance>) | undefined;
  /** Calls so far, in order. */
  readonly calls: readonly PortCall[];
  /** How often each `port.method` was called. */
  callCounts(): Readonly<Record<string, number>>;
  forgetCalls(): void;

  /** All rows of an order, sorted by row key. */
  rows(order: OrderKey): readonly Row[];
  /** Puts a row there as something else would, past all checks. */
  putRow(order: OrderKey, rowKey: string, properties: Properties): void;
  deleteRow(order: OrderKey, rowKey: string): void;

  /** The blobs as they are in the account, bundles of the archive as bundles. `blobs` is the same with events in their place. */
  readonly ownBlobs: Blobs;
  /** Blobs of a container by name, sorted. */
  blobEntries(container: Container): ReadonlyArray<readonly [name: string, blob: BlobContent]>;
  /** Puts a blob there as something else would. */
  putBlob(container: Container, name: string, bytes: Uint8Array, metadata?: Metadata): void;
  deleteBlob(container: Container, name: string): void;

  /** Messages, hidden ones included, in the order they will become visible. */
  messages(): readonly QueuedMessage[];

  /** The lease blob of an order as it is now, with the id of its lease if it is taken. */
  leaseOf(order: OrderKey): InspectedLease | undefined;
  /** Ends the lease at once: its holder is refused from now on. What operators do takes as long as the lease lasts. */
  breakLease(order: OrderKey): void;
  deleteLeaseBlob(order: OrderKey): void;
}

/** @param clock judges leases, hidden messages and the age of blobs and rows, by its monotonic time: it is the clock of the service */
export function createMemoryStorage(clock: Clock = new ManualClock()): MemoryStorage {
  const etags = new Etags();
  const table = new MemoryTable(clock, etags);
  const queue = new MemoryQueue(clock);
  const leases = new MemoryLeases(clock, etags);
  const blobs = new MemoryBlobs(clock, etags);
  const calls: PortCall[] = [];
  let index = 0;

  /** Frames one call: the caller's signal, the hook, at least one turn of the event loop's microtasks, and deep copies both ways. */
  const framed = async <Result>(port: keyof Storage, method: string, args: readonly unknown[], apply: () => Result): Promise<Result> => {
    const call: PortCall = { port, method, args: copy(args.filter((arg) => !isCallOptions(arg))), index: index++ };
    calls.push(call);
    const signal = args.find(isCallOptions)?.signal;
    await Promise.resolve();
    assertNotAborted(signal);
    const disturbance = await storage.onCall?.(call);
    assertNotAborted(signal);
    const result = copy(apply());
    await Promise.resolve();
    if (disturbance === "lose-response") throw new OutboxError("unavailable", `${port}.${method}: the response was lost`);
    if (typeof disturbance === "object") await disturbance.after();
    return result;
  };

  const ownBlobs: Blobs = {
    create: (container, name, bytes, metadata, options) =>
      framed("blobs", "create", [container, name, bytes, metadata, options], () => blobs.create(container, name, bytes, metadata)),
    read: (container, name, options) => framed("blobs", "read", [container, name, options], () => blobs.read(container, name)),
    async *list(container, prefix, options) {
      yield* await framed("blobs", "list", [container, prefix, options], () => blobs.list(container, prefix));
    },
    writeMetadata: (container, name, metadata, etag, options) =>
      framed("blobs", "writeMetadata", [container, name, metadata, etag, options], () =>
        blobs.writeMetadata(container, name, metadata, etag),
      ),
    deleteUnchanged: (container, name, etag, options) =>
      framed("blobs", "deleteUnchanged", [container, name, etag, options], () => blobs.deleteUnchanged(container, name, etag)),
    delete: (container, names, options) => framed("blobs", "delete", [container, names, options], () => blobs.delete(container, names)),
  };
  const storage: MemoryStorage = {
    orders: {
      readOrder: (order, options) => framed("orders", "readOrder", [order, options], () => table.readOrder(order)),
      readIdempotency: (order, rowKey, options) =>
        framed("orders", "readIdempotency", [order, rowKey, options], () => table.readIdempotency(order, rowKey)),
      readOutbox: (order, options) => framed("orders", "readOutbox", [order, options], () => table.readOutbox(order)),
      readEntity: (order, rowKey, options) =>
        framed("orders", "readEntity", [order, rowKey, options], () => table.readEntity(order, rowKey)),
      check: (transaction) => void commitOperations(transaction),
      commit: (transaction, options) => framed("orders", "commit", [transaction, options], () => table.commit(transaction)),
      deleteOutbox: (order, ids, options) => framed("orders", "deleteOutbox", [order, ids, options], () => table.deleteOutbox(order, ids)),
      listEntities: (order, range, options) =>
        framed("orders", "listEntities", [order, range, options], () => table.listEntities(order, range)),
      putEntity: (order, rowKey, properties, options) =>
        framed("orders", "putEntity", [order, rowKey, properties, options], () => table.putEntity(order, rowKey, properties)),
      insertEntity: (order, rowKey, properties, options) =>
        framed("orders", "insertEntity", [order, rowKey, properties, options], () => table.insertEntity(order, rowKey, properties)),
      deleteEntity: (order, rowKey, options) =>
        framed("orders", "deleteEntity", [order, rowKey, options], () => table.deleteEntity(order, rowKey)),
      scanOutbox: (from, maxPages, options) =>
        framed("orders", "scanOutbox", [from, maxPages, options], () => table.scanOutbox(from, maxPages)),
      scanOrders: (from, maxPages, options) =>
        framed("orders", "scanOrders", [from, maxPages, options], () => table.scanOrders(from, maxPages)),
      scanIdempotency: (from, maxPages, options) =>
        framed("orders", "scanIdempotency", [from, maxPages, options], () => table.scanIdempotency(from, maxPages)),
      insertIdempotency: (order, rowKey, result, options) =>
        framed("orders", "insertIdempotency", [order, rowKey, result, options], () => table.insertIdempotency(order, rowKey, result)),
      deleteIdempotency: (order, rowKeys, options) =>
        framed("orders", "deleteIdempotency", [order, rowKeys, options], () => table.deleteIdempotency(order, rowKeys)),
    } satisfies OrdersTable,
    wakeUps: {
      send: (text, hiddenMs, options) => framed("wakeUps", "send", [text, hiddenMs, options], () => queue.send(text, hiddenMs)),
      hide: (receipt, text, hiddenMs, options) =>
        framed("wakeUps", "hide", [receipt, text, hiddenMs, options], () => queue.hide(receipt, text, hiddenMs)),
      delete: (receipt, options) => framed("wakeUps", "delete", [receipt, options], () => queue.delete(receipt)),
      receive: (max, hiddenMs, options) => framed("wakeUps", "receive", [max, hiddenMs, options], () => queue.receive(max, hiddenMs)),
    } satisfies WakeUpQueue,
    leases: {
      read: (order, options) => framed("leases", "read", [order, options], () => leases.read(order)),
      create: (order, options) => framed("leases", "create", [order, options], () => leases.create(order)),
      acquire: (order, lease, options) => framed("leases", "acquire", [order, lease, options], () => leases.acquire(order, lease)),
      isHeldBy: (order, leaseId, options) => framed("leases", "isHeldBy", [order, leaseId, options], () => leases.isHeldBy(order, leaseId)),
      renew: (order, leaseId, options) => framed("leases", "renew", [order, leaseId, options], () => leases.renew(order, leaseId)),
      break: (order, options) => framed("leases", "break", [order, options], () => leases.break(order)),
      release: (order, leaseId, options) => framed("leases", "release", [order, leaseId, options], () => leases.release(order, leaseId)),
      writeMetadata: (order, metadata, fence, options) =>
        framed("leases", "writeMetadata", [order, metadata, fence, options], () => leases.writeMetadata(order, metadata, fence)),
    } satisfies OrderLeases,
    blobs: withBundles(ownBlobs, () => clock.monotonic()),
    ownBlobs,

    onCall: undefined,
    calls,
    callCounts() {
      const counts: Record<string, number> = {};
      for (const { port, method } of calls) counts[`${port}.${method}`] = (counts[`${port}.${method}`] ?? 0) + 1;
      return counts;
    },
    forgetCalls: () => void calls.splice(0),
    rows: (order) => copy(table.range(order, "", undefined)),
    putRow: (order, rowKey, properties) => table.put(order, rowKey, properties),
    deleteRow: (order, rowKey) => void table.deleteRow(order, rowKey),
    blobEntries: (container) => copy(blobs.entries(container)),
    putBlob: (container, name, bytes, metadata = {}) => blobs.put(container, name, bytes, metadata),
    deleteBlob: (container, name) => blobs.delete(container, [name]),
    messages: () => queue.inspect(),
    leaseOf: (order) => leases.inspect(order),
    breakLease: (order) => leases.end(order),
    deleteLeaseBlob: (order) => leases.deleteBlob(order),
  };
  return storage;
}

function isCallOptions(arg: unknown): arg is CallOptions {
  return typeof arg === "object" && arg !== null && "signal" in arg && (arg.signal === undefined || arg.signal instanceof AbortSignal);
}

function assertNotAborted(signal: AbortSignal | undefined): void {
  if (signal?.aborted) throw new OutboxError("aborted", "the caller gave up", { cause: signal.reason });
}
