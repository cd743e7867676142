/** Audits what is stored: one order, or every order that storage has a trace of. Reads only. */
import { describeError, isOutboxError } from "../core/errors.ts";
import { UNROUTED } from "../core/names.ts";
import { decodeOrderKey, encodeOrderId, parseOrderId, type OrderId, type OrderKey } from "../core/order-id.ts";
import type { OrdersTable } from "../core/ports.ts";
import { parseEventBlobName } from "./blob-name.ts";
import type { OperationsContext } from "./context.ts";
import type { Finding } from "./finding.ts";
import { listFinished, type FinishedEvents } from "./finished-events.ts";
import { inLanes } from "./lanes.ts";
import { gatherOrder, type GatheredOrder } from "./order-facts.ts";
import { unknownOrder } from "./order-trace.ts";
import { listPendingStreams, type PendingListing } from "./pending-streams.ts";
import { verifyGathered } from "./verify-order.ts";

export interface OrderFinding extends Finding {
  /** Undefined for a blob that belongs to no order. */
  readonly orderId: OrderId | undefined;
}

export interface VerifyOptions {
  /** Called with the number of orders found so far, now and then. */
  readonly onFound?: (orders: number) => void;
  /** Called after every order that was looked at. */
  readonly onProgress?: (done: number, total: number) => void;
}

export interface VerifyResult {
  /** How many orders were looked at. */
  readonly orders: number;
  readonly findings: readonly OrderFinding[];
  /** True if no finding is damage. */
  readonly sound: boolean;
  /** False if the context's signal came before all orders were looked at. The next run begins anew. */
  readonly complete: boolean;
}

const CONTAINERS = ["events", "dead", "archive"] as const;
/** Orders in work at once. */
const LANES = 8;
/** Pages of the table between two looks at the signal. */
const PAGES = 10;

/** An order may have had subscriptions that left no progress; a listing of everything knows them. */
type Known = ReadonlyMap<OrderKey, ReadonlySet<string>>;

/** Costs one listing of `events/`, and two small ones a subscription. Throws `not-found` if there is no trace of the order. */
export async function verifyOrder(context: OperationsContext, rawOrderId: string): Promise<VerifyResult> {
  const orderId = parseOrderId(rawOrderId);
  const order = encodeOrderId(orderId);
  const known = new Map<OrderKey, Set<string>>();
  for await (const { name } of context.storage.blobs.list("dead", "")) {
    const parsed = parseEventBlobName(name);
    if (parsed?.order === order) remember(known, order, parsed.subscription);
  }
  return result(1, await look(context, orderId, known, false), true);
}

/**
 * Every order with an entity in the table, or with anything in outbox, pending events, dead letters or archive: two scans of the table and
 * O(archive) to find them, then as for one order, without the big listing. So an order that has lost all its blobs is found too. The
 * context's signal ends it between two orders, and what was found by then is told.
 */
export async function verifyAll(context: OperationsContext, options: VerifyOptions = {}): Promise<VerifyResult> {
  const { known, foreign, complete } = await findOrders(context, options.onFound);
  if (!complete) return result(0, foreign, false);
  let done = 0;
  const findings = await inLanes([...known.keys()].sort(), LANES, async (order) => {
    if (isStopped(context)) return [];
    const found = await verifyAmongAll(context, decodeOrderKey(order)!, known);
    done += 1;
    options.onProgress?.(done, known.size);
    return found;
  });
  return result(done, [...foreign, ...findings.flat()], done === known.size);
}

/** The big listing is older than the look at the order, so what was relayed in between seems to be lost: then a look of its own decides. */
async function verifyAmongAll(context: OperationsContext, orderId: OrderId, known: Known): Promise<readonly OrderFinding[]> {
  const findings = await look(context, orderId, known, true);
  const isLost = findings.some(({ kind, severity }) => kind === "gap" && severity === "damage");
  return isLost ? look(context, orderId, known, false) : findings;
}

/** @param all the order's streams are in `known`: no listing of all pending events is needed */
async function look(context: OperationsContext, orderId: OrderId, known: Known, all: boolean): Promise<readonly OrderFinding[]> {
  const subscriptions = known.get(encodeOrderId(orderId)) ?? new Set<string>();
  try {
    const gathered = await gatherOrder(context, orderId, {
      ...(all ? { listPending: () => listPending(context, encodeOrderId(orderId), subscriptions) } : {}),
      readFinished: (names, order) =>
        inLanes([...new Set([...names, ...subscriptions])].sort(), LANES, (name) => listFinished(context, name, order)),
    });
    if (!all && isUnknown(gathered)) throw unknownOrder(orderId);
    return verifyGathered(gathered).map((finding) => ({ orderId, ...finding }));
  } catch (error) {
    if (!isOutboxError(error, "corrupt")) throw error;
    return [{ orderId, kind: "progress-unreadable", severity: "damage", text: describeError(error) }];
  }
}

function isUnknown({ found, lease, streams, foreign, finished }: GatheredOrder<readonly FinishedEvents[]>): boolean {
  const rows = found.outbox.length + found.unreadable.length;
  const blobs = streams.length + foreign.length;
  const hasFinished = finished.some((own) => own.archived.length + own.dead.size + own.foreign.length > 0);
  return found.order === undefined && lease === undefined && rows + blobs === 0 && !hasFinished;
}

/** By subscription, so that no order lists the pending events of all. */
async function listPending(context: OperationsContext, order: OrderKey, subscriptions: ReadonlySet<string>): Promise<PendingListing> {
  const lists = await inLanes([...subscriptions].sort(), LANES, (subscription) => listPendingStreams(context, { subscription, order }));
  return { streams: lists.flatMap(({ streams }) => streams), foreign: lists.flatMap(({ foreign }) => foreign) };
}

async function findOrders(
  context: OperationsContext,
  onFound: (orders: number) => void = () => {},
): Promise<{ readonly known: Known; readonly foreign: readonly OrderFinding[]; readonly complete: boolean }> {
  const { blobs, orders } = context.storage;
  const known = new Map<OrderKey, Set<string>>();
  const foreign: OrderFinding[] = [];
  for (const container of CONTAINERS) {
    for await (const { name } of blobs.list(container, "")) {
      const parsed = parseEventBlobName(name);
      if (parsed !== undefined) remember(known, parsed.order, parsed.subscription);
      else foreign.push({ orderId: undefined, kind: "foreign", severity: "damage", text: `${container}/${name} is not one of ours` });
    }
    onFound(known.size);
    if (isStopped(context)) return { known, foreign, complete: false };
  }
  for (const scan of [scanOrders, scanOutboxes]) {
    let from: string | undefined;
    do {
      const { keys, next } = await scan(orders, from);
      for (const order of keys) remember(known, order);
      onFound(known.size);
      if (isStopped(context)) return { known, foreign, complete: false };
      from = next;
    } while (from !== undefined);
  }
  return { known, foreign, complete: true };
}

function isStopped({ signal }: OperationsContext): boolean {
  return signal?.aborted === true;
}

interface ScannedKeys {
  readonly keys: readonly OrderKey[];
  readonly next: string | undefined;
}

async function scanOrders(orders: OrdersTable, from: string | undefined): Promise<ScannedKeys> {
  const { orders: keys, next } = await orders.scanOrders(from, PAGES);
  return { keys, next };
}

/** An order whose entity is gone may still have an outbox. */
async function scanOutboxes(orders: OrdersTable, from: string | undefined): Promise<ScannedKeys> {
  const { entities, next } = await orders.scanOutbox(from, PAGES);
  return { keys: entities.map(({ order }) => order), next };
}

function remember(known: Map<OrderKey, Set<string>>, order: OrderKey, subscription?: string): void {
  const subscriptions = known.get(order) ?? new Set();
  known.set(order, subscriptions);
  if (subscription !== undefined && subscription !== UNROUTED) subscriptions.add(subscription);
}

/** A foreign name below an order is met by the search for orders and by the look at that order: told once, with the order. */
function result(orders: number, all: readonly OrderFinding[], complete: boolean): VerifyResult {
  const placed = new Set(all.filter(({ orderId }) => orderId !== undefined).map(({ text }) => text));
  const findings = all.filter(({ orderId, text }) => orderId !== undefined || !placed.has(text));
  return { orders, findings, sound: findings.every(({ severity }) => severity !== "damage"), complete };
}
