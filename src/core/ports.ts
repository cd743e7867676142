/**
 * What the rooms need from storage. Every call has a deadline of its own (C8) besides the caller's signal, and fails with an
 * {@link OutboxError}: `timeout`, `unavailable`, `forbidden`, `aborted` and `storage` anywhere, other codes where the method says so.
 *
 * Any write may have happened although it failed with `timeout`, `unavailable` or `aborted`; and, because clients repeat by themselves, a
 * write that did happen may be reported as `already-exists`, `precondition-failed` or `not-found`. Callers ask "was it mine?".
 */
import type { Container, RowRange } from "./names.ts";
import type { EventId } from "./event-id.ts";
import type { OrderKey } from "./order-id.ts";

export interface CallOptions {
  readonly signal?: AbortSignal;
}

export interface ListOptions extends CallOptions {
  /** How many names a request asks for, 1 to 5,000. Default: as many as there may be, 5,000, or 500 of the archive; they are megabytes. */
  readonly pageSize?: number;
}

/** Opaque version of an entity or blob. */
export type Etag = string;

export interface OrderEntity {
  readonly etag: Etag;
  /** Sequence of the last event of the order; 0 before the first. */
  readonly sequence: number;
  readonly lastEventId: EventId | undefined;
  /** JSON text; undefined for a tombstone (C7). */
  readonly state: string | undefined;
  /** Tokens of the last few commits, newest last (C2). */
  readonly commitTokens: readonly string[];
}

export interface OutboxEntity {
  readonly id: EventId;
  readonly sequence: number;
  /** The event's final text, or undefined if it was spilled. */
  readonly text: string | undefined;
  /** Name in the `payloads` container, if it was spilled. */
  readonly payloadBlob: string | undefined;
}

/** Order and outbox as one consistent answer. */
export interface OrderAndOutbox {
  readonly order: OrderEntity | undefined;
  /** In commit order. */
  readonly outbox: readonly OutboxEntity[];
  /** Row keys in our range that we can't read: reported, never deleted. */
  readonly unreadable: readonly string[];
}

/** A scalar that the table keeps as it is. bigint is stored as Int64, Date with millisecond precision, bytes as Binary. */
export type TableValue = string | number | boolean | bigint | Date | Uint8Array;

/** A row of the application's own in the partition of the order. */
export interface ApplicationEntity {
  readonly action: "insert" | "upsert" | "update" | "delete";
  /** Outside the rows this package keeps for itself: `order`…`outbox;` and `idempotency:`. */
  readonly rowKey: string;
  /** Required for `update`: the etag the row was read at. */
  readonly etag?: Etag;
  readonly properties?: Readonly<Record<string, TableValue>>;
}

export interface OrderTransaction {
  readonly order: OrderKey;
  /** Etag the order entity was read at; undefined to insert it (C1). */
  readonly etag: Etag | undefined;
  readonly entity: Omit<OrderEntity, "etag">;
  readonly outbox: readonly OutboxEntity[];
  /** Row key and JSON text of the result that answers a repeated command. */
  readonly idempotency?: { readonly rowKey: string; readonly result: string };
  readonly entities: readonly ApplicationEntity[];
}

export interface OrdersTable {
  readOrder(order: OrderKey, options?: CallOptions): Promise<OrderEntity | undefined>;
  /** The stored result of a commit, or undefined. */
  readIdempotency(order: OrderKey, rowKey: string, options?: CallOptions): Promise<string | undefined>;
  /** One range query; follows continuation tokens, pages may be empty. */
  readOutbox(order: OrderKey, options?: CallOptions): Promise<OrderAndOutbox>;
  /** A row of the application, or undefined. */
  readEntity(order: OrderKey, rowKey: string, options?: CallOptions): Promise<StoredEntity | undefined>;
  /** Throws `invalid-state` or `too-large`, naming row and limit, for a transaction that the table would refuse or change. No request is made. */
  check(transaction: OrderTransaction): void;
  /** One transaction: all or nothing (G1). Throws `already-exists` or `precondition-failed` when another writer (or we, before) got there. */
  commit(transaction: OrderTransaction, options?: CallOptions): Promise<void>;
  /** Rows of one partition from `from` (inclusive) to `to` (exclusive), in order of their keys; follows continuation tokens. */
  listEntities(order: OrderKey, range: RowRange, options?: CallOptions): Promise<readonly ListedEntity[]>;
  /** Writes a row as it is, whatever was there. Throws `invalid-state` or `too-large` for what the table can't hold. */
  putEntity(order: OrderKey, rowKey: string, properties: Readonly<Record<string, TableValue>>, options?: CallOptions): Promise<void>;
  /** Create-only. Throws `already-exists`, also when the row is ours from a repeated request; `invalid-state` or `too-large` as above. */
  insertEntity(order: OrderKey, rowKey: string, properties: Readonly<Record<string, TableValue>>, options?: CallOptions): Promise<void>;
  /** False if it was gone already. */
  deleteEntity(order: OrderKey, rowKey: string, options?: CallOptions): Promise<boolean>;
  /**
   * Outbox entities of all orders, a bounded part of the table at a time: the service reads every row on the way.
   *
   * @param from where the scan before stopped; undefined to start. Throws `invalid-option` for anything that no scan gave.
   * @param maxPages at least 1; a page has up to 1,000 entities and may have none
   */
  scanOutbox(from: string | undefined, maxPages: number, options?: CallOptions): Promise<OutboxScan>;
  /** Order entities, of deleted orders too; the rest is as for {@link scanOutbox}. */
  scanOrders(from: string | undefined, maxPages: number, options?: CallOptions): Promise<OrderScan>;
  /** Idempotency results of all orders; the rest is as for {@link scanOutbox}. */
  scanIdempotency(from: string | undefined, maxPages: number, options?: CallOptions): Promise<IdempotencyScan>;
  /** Create-only; there need be no such order. Throws `already-exists`, also when the row is ours from a repeated request. */
  insertIdempotency(order: OrderKey, rowKey: string, result: string, options?: CallOptions): Promise<void>;
  /** Deletes idempotency results, in as few transactions as there can be. Those already gone are fine. */
  deleteIdempotency(order: OrderKey, rowKeys: readonly string[], options?: CallOptions): Promise<void>;
  /** Deletes outbox entities, in as few transactions as there can be. Those already gone are fine. */
  deleteOutbox(order: OrderKey, ids: readonly EventId[], options?: CallOptions): Promise<void>;
}

export interface StoredEntity {
  readonly etag: Etag;
  readonly properties: Readonly<Record<string, TableValue>>;
}

export interface ListedEntity extends StoredEntity {
  readonly rowKey: string;
  /** Time since the last change, by the clock of the service; milliseconds, at least 0. */
  readonly ageMs: number;
}

export interface OutboxScan {
  readonly entities: readonly { readonly order: OrderKey; readonly id: EventId; readonly ageMs: number }[];
  /** Where to go on; undefined at the end of the table. */
  readonly next: string | undefined;
}

export interface OrderScan {
  readonly orders: readonly OrderKey[];
  /** Where to go on; undefined at the end of the table. */
  readonly next: string | undefined;
}

export interface IdempotencyScan {
  readonly entities: readonly { readonly order: OrderKey; readonly rowKey: string; readonly ageMs: number }[];
  /** Where to go on; undefined at the end of the table. */
  readonly next: string | undefined;
}

/** Proof of having seen a queue message; changes with every receive and update. */
export interface Receipt {
  readonly messageId: string;
  readonly popReceipt: string;
}

export interface ReceivedWakeUp {
  readonly text: string;
  readonly receipt: Receipt;
  /** 1 at the first receive. */
  readonly dequeueCount: number;
}

/** The longest time a queue message can be hidden: 7 days. */
export const MAX_HIDDEN_MS: number = 7 * 24 * 60 * 60 * 1000;

export interface WakeUpQueue {
  /** Sends a message that never expires, invisible for `hiddenMs` (0 to {@link MAX_HIDDEN_MS}; rounded up to whole seconds). */
  send(text: string, hiddenMs: number, options?: CallOptions): Promise<Receipt>;
  /** Makes a message visible after `hiddenMs`, its text unchanged. Throws `not-found` if somebody else has it by now. */
  hide(receipt: Receipt, text: string, hiddenMs: number, options?: CallOptions): Promise<Receipt>;
  /** False if somebody else has it by now, or it is gone: not an error. */
  delete(receipt: Receipt, options?: CallOptions): Promise<boolean>;
  /** Up to `max` (1 to 32) messages, each hidden for `hiddenMs` (at least 1 s). Doesn't wait for messages. */
  receive(max: number, hiddenMs: number, options?: CallOptions): Promise<readonly ReceivedWakeUp[]>;
}

export type Metadata = Readonly<Record<string, string>>;

export interface LeaseBlob {
  readonly etag: Etag;
  readonly metadata: Metadata;
  /** `free`: released or never taken. `taken`: somebody holds it. `abandoned`: expired or broken, its holder never said good-bye. */
  readonly state: "free" | "taken" | "abandoned";
  /** Of a lease that is taken: it was broken and runs out, no renewal is granted any more. */
  readonly breaking?: true;
}

export interface OrderLeases {
  /** Undefined if the order has no lease blob yet. */
  read(order: OrderKey, options?: CallOptions): Promise<LeaseBlob | undefined>;
  /** Create-only. Throws `already-exists`. */
  create(order: OrderKey, options?: CallOptions): Promise<LeaseBlob>;
  /**
   * Takes the lease under a fresh id if the blob is still at `etag`. The etag does not change.
   * Throws `lease-taken`, `precondition-failed` (progress was written meanwhile) or `not-found`.
   */
  acquire(
    order: OrderKey,
    lease: { readonly id: string; readonly durationMs: number; readonly etag: Etag },
    options?: CallOptions,
  ): Promise<void>;
  /** Is this the lease that holds the blob right now? Changes nothing: a renewal would prolong it. */
  isHeldBy(order: OrderKey, leaseId: string, options?: CallOptions): Promise<boolean>;
  /** Throws `lease-lost`. Made for a short deadline: no repeats inside. */
  renew(order: OrderKey, leaseId: string, options?: CallOptions): Promise<void>;
  /**
   * Lets anybody's lease run out: it can't be renewed from now on, and nobody can take the order before its time is over. Not sooner, because
   * its holder believes in it until then (W5). The blob is `taken` and `breaking` until then, `abandoned` afterwards.
   *
   * @returns for how long it still lasts, in ms: about, and at most 60,000; 0 if there is none
   */
  break(order: OrderKey, options?: CallOptions): Promise<number>;
  /** Quiet when the lease is no longer ours (C18). */
  release(order: OrderKey, leaseId: string, options?: CallOptions): Promise<void>;
  /** Replaces the metadata if the lease is ours and the blob is at `etag` (W2). Throws `lease-lost` or `precondition-failed`. */
  writeMetadata(
    order: OrderKey,
    metadata: Metadata,
    fence: { readonly leaseId: string; readonly etag: Etag },
    options?: CallOptions,
  ): Promise<Etag>;
}

export interface ListedBlob {
  readonly name: string;
  /** Time since the content or metadata last changed, by the clock of the service; milliseconds, at least 0. Ours may be wrong (F7). */
  readonly ageMs: number;
  /** Of the content. */
  readonly sizeBytes: number;
  readonly etag: Etag;
  readonly metadata: Metadata;
  /** In the archive, of an event that has no blob of its own: the blob that holds it. */
  readonly bundle?: ListedBundle;
  /** In the archive, of an event with a blob of its own: the name of a bundle that has it too. */
  readonly alsoIn?: string;
}

export interface ListedBundle {
  readonly name: string;
  /** Names of all events in it. */
  readonly members: readonly string[];
  /** Its content is not as big as it must be: no event in it can be read. */
  readonly torn: boolean;
}

export interface BlobContent {
  readonly bytes: Uint8Array;
  readonly etag: Etag;
  readonly metadata: Metadata;
}

/**
 * In the archive, several events of one stream may lie in one blob, a bundle (archive-bundle.ts). They are listed and read like blobs of their
 * own; such an event can't be changed, and goes when its bundle is deleted.
 */
export interface Blobs {
  /** Create-only (W11). Throws `already-exists`. */
  create(container: Container, name: string, bytes: Uint8Array, metadata: Metadata, options?: CallOptions): Promise<Etag>;
  /**
   * Undefined if there is none. In the archive, looking for an event without a blob of its own takes a listing of its stream; and what becomes
   * of such an event elsewhere (its bundle is deleted, it gets a blob of its own) is seen within 10 s.
   */
  read(container: Container, name: string, options?: CallOptions): Promise<BlobContent | undefined>;
  /**
   * All names below `prefix` in code unit order, page by page; follows continuation tokens, pages may be empty (W10). In the archive, a prefix
   * that goes on beyond that of a stream may miss events.
   */
  list(container: Container, prefix: string, options?: ListOptions): AsyncIterable<ListedBlob>;
  /** Throws `precondition-failed` or `not-found`; `bug` for an event in a bundle. */
  writeMetadata(container: Container, name: string, metadata: Metadata, etag: Etag, options?: CallOptions): Promise<Etag>;
  /** Deletes a blob if it is still this one. One that is gone or another by now is fine: so is a copy of the request that lands late. */
  deleteUnchanged(container: Container, name: string, etag: Etag, options?: CallOptions): Promise<void>;
  /** Deletes blobs, in as few requests as there can be. Those already gone are fine. */
  delete(container: Container, names: readonly string[], options?: CallOptions): Promise<void>;
}

/** One storage account. */
export interface Storage {
  readonly orders: OrdersTable;
  readonly wakeUps: WakeUpQueue;
  readonly leases: OrderLeases;
  readonly blobs: Blobs;
}
