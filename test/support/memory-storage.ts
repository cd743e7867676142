/**
 * The storage ports in memory, with the semantics of the real ones: etags, all-or-nothing transactions, leases that expire by the given
 * clock and are needed for metadata writes, hidden messages and receipts. Rows go through the same encoding as in the account.
 *
 * Tests watch and disturb calls through {@link MemoryStorage.onCall}.
 */
import type { Clock } from "../../src/core/clock.ts";
import { OutboxError } from "../../src/core/errors.ts";
import { ORDER_ROW, OUTBOX_END, outboxRow, type Container } from "../../src/core/names.ts";
import type { OrderKey } from "../../src/core/order-id.ts";
import {
  MAX_HIDDEN_MS,
  type BlobContent,
  type Blobs,
  type CallOptions,
  type LeaseBlob,
  type ListedBlob,
  type Metadata,
  type OrderLeases,
  type OrdersTable,
  type Receipt,
  type ReceivedWakeUp,
  type Storage,
  type WakeUpQueue,
} from "../../src/core/ports.ts";
import { checkedMetadata } from "../../src/storage/blob-metadata.ts";
import {
  assertApplicationRow,
  commitOperations,
  decodeIdempotency,
  decodeOrder,
  decodeOrderAndOutbox,
  type Row,
} from "../../src/storage/order-rows.ts";
import type { RowOperation } from "../../src/storage/row-operation.ts";
import type { Properties } from "../../src/storage/table-value.ts";
import { ManualClock } from "./manual-clock.ts";

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

  /** Blobs of a container by name, sorted. */
  blobEntries(container: Container): ReadonlyArray<readonly [name: string, blob: BlobContent]>;
  /** Puts a blob there as something else would. */
  putBlob(container: Container, name: string, bytes: Uint8Array, metadata?: Metadata): void;
  deleteBlob(container: Container, name: string): void;

  /** Messages, hidden ones included, in the order they will become visible. */
  messages(): ReadonlyArray<{ readonly text: string; readonly hiddenForMs: number; readonly dequeueCount: number }>;

  /** The lease blob of an order as it is now, with the id of its lease if it is taken. */
  leaseOf(order: OrderKey): (LeaseBlob & { readonly leaseId: string | undefined }) | undefined;
  /** Breaks the lease as an operator would: its holder loses it at once. */
  breakLease(order: OrderKey): void;
  deleteLeaseBlob(order: OrderKey): void;
}

/** @param clock judges leases and hidden messages, by its monotonic time */
export function createMemoryStorage(clock: Clock = new ManualClock()): MemoryStorage {
  const etags = new Etags();
  const table = new MemoryTable(etags);
  const queue = new MemoryQueue(clock);
  const leases = new MemoryLeases(clock, etags);
  const blobs = new MemoryBlobs(etags);
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

  const storage: MemoryStorage = {
    orders: {
      readOrder: (order, options) => framed("orders", "readOrder", [order, options], () => table.readOrder(order)),
      readIdempotency: (order, rowKey, options) =>
        framed("orders", "readIdempotency", [order, rowKey, options], () => table.readIdempotency(order, rowKey)),
      readOutbox: (order, options) => framed("orders", "readOutbox", [order, options], () => table.readOutbox(order)),
      readEntity: (order, rowKey, options) =>
        framed("orders", "readEntity", [order, rowKey, options], () => table.readEntity(order, rowKey)),
      commit: (transaction, options) => framed("orders", "commit", [transaction, options], () => table.commit(transaction)),
      deleteOutbox: (order, ids, options) => framed("orders", "deleteOutbox", [order, ids, options], () => table.deleteOutbox(order, ids)),
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
      renew: (order, leaseId, options) => framed("leases", "renew", [order, leaseId, options], () => leases.renew(order, leaseId)),
      release: (order, leaseId, options) => framed("leases", "release", [order, leaseId, options], () => leases.release(order, leaseId)),
      writeMetadata: (order, metadata, fence, options) =>
        framed("leases", "writeMetadata", [order, metadata, fence, options], () => leases.writeMetadata(order, metadata, fence)),
    } satisfies OrderLeases,
    blobs: {
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
      delete: (container, names, options) => framed("blobs", "delete", [container, names, options], () => blobs.delete(container, names)),
    } satisfies Blobs,

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
    deleteRow: (order, rowKey) => table.deleteRow(order, rowKey),
    blobEntries: (container) => copy(blobs.entries(container)),
    putBlob: (container, name, bytes, metadata = {}) => blobs.put(container, name, bytes, metadata),
    deleteBlob: (container, name) => blobs.delete(container, [name]),
    messages: () => queue.inspect(),
    leaseOf: (order) => leases.inspect(order),
    breakLease: (order) => leases.break(order),
    deleteLeaseBlob: (order) => leases.deleteBlob(order),
  };
  return storage;
}

/** Etags of one account: unique, never used twice. */
class Etags {
  #last = 0;

  next(): string {
    this.#last += 1;
    return `"0x${this.#last.toString(16).toUpperCase().padStart(15, "0")}"`;
  }
}

class MemoryTable {
  readonly #etags: Etags;
  readonly #partitions = new Map<OrderKey, Map<string, Row>>();

  constructor(etags: Etags) {
    this.#etags = etags;
  }

  readOrder(order: OrderKey): ReturnType<typeof decodeOrder> | undefined {
    const row = this.#row(order, ORDER_ROW);
    return row && decodeOrder(order, row);
  }

  readIdempotency(order: OrderKey, rowKey: string): string | undefined {
    const row = this.#row(order, rowKey);
    return row && decodeIdempotency(order, row);
  }

  readEntity(order: OrderKey, rowKey: string): { readonly etag: string; readonly properties: Properties } | undefined {
    assertApplicationRow(order, rowKey);
    const row = this.#row(order, rowKey);
    return row && { etag: row.etag, properties: row.properties };
  }

  readOutbox(order: OrderKey): ReturnType<typeof decodeOrderAndOutbox> {
    return decodeOrderAndOutbox(order, this.range(order, ORDER_ROW, OUTBOX_END));
  }

  commit(transaction: Parameters<OrdersTable["commit"]>[0]): void {
    const { order } = transaction;
    const partition = new Map(this.#partitions.get(order));
    for (const [operationIndex, operation] of commitOperations(transaction).entries()) this.#apply(partition, operation, operationIndex);
    this.#partitions.set(order, partition);
  }

  deleteOutbox(order: OrderKey, ids: Parameters<OrdersTable["deleteOutbox"]>[1]): void {
    for (const id of ids) this.deleteRow(order, outboxRow(id));
  }

  range(order: OrderKey, from: string, end: string | undefined): readonly Row[] {
    const rows = [...(this.#partitions.get(order)?.values() ?? [])];
    return rows
      .filter(({ rowKey }) => rowKey >= from && (end === undefined || rowKey < end))
      .sort((a, b) => byCodeUnit(a.rowKey, b.rowKey));
  }

  put(order: OrderKey, rowKey: string, properties: Properties): void {
    const partition = this.#partitions.get(order) ?? new Map<string, Row>();
    this.#partitions.set(order, partition);
    partition.set(rowKey, { rowKey, etag: this.#etags.next(), properties: copy(properties) });
  }

  deleteRow(order: OrderKey, rowKey: string): void {
    this.#partitions.get(order)?.delete(rowKey);
  }

  #row(order: OrderKey, rowKey: string): Row | undefined {
    return this.#partitions.get(order)?.get(rowKey);
  }

  #apply(partition: Map<string, Row>, operation: RowOperation, operationIndex: number): void {
    const { rowKey } = operation;
    const present = partition.get(rowKey);
    const refuse = (code: "already-exists" | "precondition-failed", status: number): never => {
      throw new OutboxError(code, `row ${rowKey} refused`, { details: { status, operationIndex } });
    };
    switch (operation.action) {
      case "insert":
        if (present !== undefined) refuse("already-exists", 409);
        break;
      case "replace":
        if (present === undefined) refuse("precondition-failed", 404);
        if (present?.etag !== operation.etag) refuse("precondition-failed", 412);
        break;
      case "delete":
        if (!partition.delete(rowKey)) refuse("precondition-failed", 404);
        return;
      case "upsert":
        break;
    }
    partition.set(rowKey, { rowKey, etag: this.#etags.next(), properties: copy(operation.properties) });
  }
}

interface Message {
  readonly id: string;
  readonly text: string;
  readonly popReceipt: string;
  readonly visibleAt: number;
  readonly dequeueCount: number;
}

class MemoryQueue {
  readonly #clock: Clock;
  #messages: readonly Message[] = [];
  #last = 0;

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  send(text: string, hiddenMs: number): Receipt {
    const message: Message = {
      id: `message-${this.#next()}`,
      text,
      popReceipt: this.#receipt(),
      visibleAt: this.#after(hiddenMs, 0),
      dequeueCount: 0,
    };
    this.#messages = [...this.#messages, message];
    return { messageId: message.id, popReceipt: message.popReceipt };
  }

  hide(receipt: Receipt, text: string, hiddenMs: number): Receipt {
    const visibleAt = this.#after(hiddenMs, 0);
    const message = this.#held(receipt);
    if (message === undefined) throw new OutboxError("not-found", "hide wake-up: somebody else has it", { details: { status: 404 } });
    const popReceipt = this.#receipt();
    this.#replace(message, { ...message, text, popReceipt, visibleAt });
    return { messageId: message.id, popReceipt };
  }

  delete(receipt: Receipt): boolean {
    const message = this.#held(receipt);
    this.#messages = this.#messages.filter((each) => each !== message);
    return message !== undefined;
  }

  receive(max: number, hiddenMs: number): readonly ReceivedWakeUp[] {
    if (!Number.isInteger(max) || max < 1 || max > 32) throw new OutboxError("invalid-option", `max is ${max}: 1 to 32 is allowed`);
    const visibleAt = this.#after(hiddenMs, 1);
    const visible = this.#messages
      .filter((message) => message.visibleAt <= this.#clock.monotonic())
      .sort((a, b) => a.visibleAt - b.visibleAt);
    return visible.slice(0, max).map((message) => {
      const received: Message = { ...message, popReceipt: this.#receipt(), visibleAt, dequeueCount: message.dequeueCount + 1 };
      this.#replace(message, received);
      return {
        text: received.text,
        receipt: { messageId: received.id, popReceipt: received.popReceipt },
        dequeueCount: received.dequeueCount,
      };
    });
  }

  inspect(): ReturnType<MemoryStorage["messages"]> {
    const now = this.#clock.monotonic();
    return this.#messages
      .toSorted((a, b) => a.visibleAt - b.visibleAt)
      .map(({ text, visibleAt, dequeueCount }) => ({ text, hiddenForMs: Math.max(0, visibleAt - now), dequeueCount }));
  }

  #held({ messageId, popReceipt }: Receipt): Message | undefined {
    return this.#messages.find((message) => message.id === messageId && message.popReceipt === popReceipt);
  }

  #replace(message: Message, next: Message): void {
    this.#messages = this.#messages.map((each) => (each === message ? next : each));
  }

  #receipt(): string {
    return `receipt-${this.#next()}`;
  }

  #next(): number {
    this.#last += 1;
    return this.#last;
  }

  /** Whole seconds, rounded up, as the service counts. */
  #after(hiddenMs: number, minSeconds: number): number {
    const seconds = Math.ceil(hiddenMs / 1000);
    if (!(hiddenMs >= 0 && hiddenMs <= MAX_HIDDEN_MS) || seconds < minSeconds) {
      throw new OutboxError("invalid-option", `hiddenMs is ${hiddenMs}: ${minSeconds * 1000} to ${MAX_HIDDEN_MS} is allowed`);
    }
    return this.#clock.monotonic() + seconds * 1000;
  }
}

interface Lease {
  readonly id: string;
  readonly durationMs: number;
  readonly expiresAt: number;
  readonly broken: boolean;
}

interface StoredLeaseBlob {
  readonly etag: string;
  readonly metadata: Metadata;
  /** Kept after it expired or was broken, until somebody else takes it or it is released. */
  readonly lease: Lease | undefined;
}

class MemoryLeases {
  readonly #clock: Clock;
  readonly #etags: Etags;
  readonly #blobs = new Map<OrderKey, StoredLeaseBlob>();

  constructor(clock: Clock, etags: Etags) {
    this.#clock = clock;
    this.#etags = etags;
  }

  read(order: OrderKey): LeaseBlob | undefined {
    const blob = this.#blobs.get(order);
    return blob && { etag: blob.etag, metadata: blob.metadata, state: this.#stateOf(blob) };
  }

  create(order: OrderKey): LeaseBlob {
    if (this.#blobs.has(order)) throw new OutboxError("already-exists", `lease blob of order ${order}`, { details: { status: 409 } });
    const blob: StoredLeaseBlob = { etag: this.#etags.next(), metadata: {}, lease: undefined };
    this.#blobs.set(order, blob);
    return { etag: blob.etag, metadata: {}, state: "free" };
  }

  acquire(order: OrderKey, { id, durationMs, etag }: Parameters<OrderLeases["acquire"]>[1]): void {
    if (!(durationMs >= 15_000 && durationMs <= 60_000)) {
      throw new OutboxError("invalid-option", `durationMs of the lease is ${durationMs}: 15000 to 60000 is allowed`);
    }
    const blob = this.#blobs.get(order);
    if (blob === undefined) throw new OutboxError("not-found", `lease blob of order ${order}`, { details: { status: 404 } });
    if (blob.etag !== etag) throw new OutboxError("precondition-failed", `lease blob of order ${order}`, { details: { status: 412 } });
    if (this.#stateOf(blob) === "taken" && blob.lease?.id !== id) {
      throw new OutboxError("lease-taken", `lease of order ${order}`, { details: { status: 409 } });
    }
    const seconds = Math.ceil(durationMs / 1000);
    this.#blobs.set(order, {
      ...blob,
      lease: { id, durationMs: seconds * 1000, expiresAt: this.#clock.monotonic() + seconds * 1000, broken: false },
    });
  }

  renew(order: OrderKey, leaseId: string): void {
    const blob = this.#blobs.get(order);
    // An expired lease can be renewed as long as nobody took the blob since.
    if (blob?.lease === undefined || blob.lease.id !== leaseId || blob.lease.broken) throw this.#lost(order);
    const { lease } = blob;
    this.#blobs.set(order, { ...blob, lease: { ...lease, expiresAt: this.#clock.monotonic() + lease.durationMs } });
  }

  release(order: OrderKey, leaseId: string): void {
    const blob = this.#blobs.get(order);
    if (blob?.lease?.id === leaseId) this.#blobs.set(order, { ...blob, lease: undefined });
  }

  writeMetadata(order: OrderKey, metadata: Metadata, { leaseId, etag }: Parameters<OrderLeases["writeMetadata"]>[2]): string {
    const checked = checkedMetadata(metadata, `the lease blob of order ${order}`);
    const blob = this.#blobs.get(order);
    if (blob === undefined || this.#stateOf(blob) !== "taken" || blob.lease?.id !== leaseId) throw this.#lost(order);
    if (blob.etag !== etag) throw new OutboxError("precondition-failed", `progress of order ${order}`, { details: { status: 412 } });
    const next = { ...blob, etag: this.#etags.next(), metadata: checked };
    this.#blobs.set(order, next);
    return next.etag;
  }

  inspect(order: OrderKey): ReturnType<MemoryStorage["leaseOf"]> {
    const blob = this.read(order);
    return blob && { ...blob, leaseId: blob.state === "taken" ? this.#blobs.get(order)?.lease?.id : undefined };
  }

  break(order: OrderKey): void {
    const blob = this.#blobs.get(order);
    if (blob?.lease !== undefined) this.#blobs.set(order, { ...blob, lease: { ...blob.lease, broken: true } });
  }

  deleteBlob(order: OrderKey): void {
    this.#blobs.delete(order);
  }

  #stateOf({ lease }: StoredLeaseBlob): LeaseBlob["state"] {
    if (lease === undefined) return "free";
    return lease.broken || lease.expiresAt <= this.#clock.monotonic() ? "abandoned" : "taken";
  }

  #lost(order: OrderKey): OutboxError {
    return new OutboxError("lease-lost", `lease of order ${order}`, { details: { status: 409 } });
  }
}

class MemoryBlobs {
  readonly #etags: Etags;
  readonly #containers = new Map<Container, Map<string, BlobContent>>();

  constructor(etags: Etags) {
    this.#etags = etags;
  }

  create(container: Container, name: string, bytes: Uint8Array, metadata: Metadata): string {
    const checked = checkedMetadata(metadata, `blob ${container}/${name}`);
    if (this.read(container, name) !== undefined)
      throw new OutboxError("already-exists", `blob ${container}/${name}`, { details: { status: 409 } });
    return this.put(container, name, bytes, checked);
  }

  read(container: Container, name: string): BlobContent | undefined {
    return this.#containers.get(container)?.get(name);
  }

  list(container: Container, prefix: string): readonly ListedBlob[] {
    return this.entries(container)
      .filter(([name]) => name.startsWith(prefix))
      .map(([name, { etag, metadata }]) => ({ name, etag, metadata }));
  }

  writeMetadata(container: Container, name: string, metadata: Metadata, etag: string): string {
    const checked = checkedMetadata(metadata, `blob ${container}/${name}`);
    const blob = this.read(container, name);
    if (blob === undefined) throw new OutboxError("not-found", `blob ${container}/${name}`, { details: { status: 404 } });
    if (blob.etag !== etag) throw new OutboxError("precondition-failed", `blob ${container}/${name}`, { details: { status: 412 } });
    return this.put(container, name, blob.bytes, checked);
  }

  delete(container: Container, names: readonly string[]): void {
    for (const name of names) this.#containers.get(container)?.delete(name);
  }

  put(container: Container, name: string, bytes: Uint8Array, metadata: Metadata): string {
    const blobs = this.#containers.get(container) ?? new Map<string, BlobContent>();
    this.#containers.set(container, blobs);
    const etag = this.#etags.next();
    blobs.set(name, copy({ bytes, metadata, etag }));
    return etag;
  }

  entries(container: Container): ReadonlyArray<readonly [string, BlobContent]> {
    return [...(this.#containers.get(container) ?? [])].sort(([a], [b]) => byCodeUnit(a, b));
  }
}

function byCodeUnit(a: string, b: string): number {
  if (a === b) return 0;
  return a < b ? -1 : 1;
}

/** Callers and store must not share objects; bytes come out as plain Uint8Arrays, as from the account. */
function copy<Value>(value: Value): Value {
  return structuredClone(value);
}

function isCallOptions(arg: unknown): arg is CallOptions {
  return typeof arg === "object" && arg !== null && "signal" in arg && (arg.signal === undefined || arg.signal instanceof AbortSignal);
}

function assertNotAborted(signal: AbortSignal | undefined): void {
  if (signal?.aborted) throw new OutboxError("aborted", "the caller gave up", { cause: signal.reason });
}
