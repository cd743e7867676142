/** Audits what is stored: one order, or every order that storage has a trace of. Reads only. */
import { describeError, isOutboxError, OutboxError, printable } from "../core/errors.ts";
import { UNROUTED } from "../core/names.ts";
import { decodeOrderKey, encodeOrderId, type OrderId, type OrderKey } from "../core/order-id.ts";
import { parseEventBlobName } from "./blob-name.ts";
import { assertGoesOn, type OperationsContext } from "./context.ts";
import type { Finding } from "./finding.ts";
import { listFinished, type FinishedEvents } from "./finished-events.ts";
import { inLanes } from "./lanes.ts";
import { gatherOrder, type GatheredOrder } from "./order-facts.ts";
import { listPendingStreams, type PendingListing } from "./pending-streams.ts";
import { verifyGathered } from "./verify-order.ts";

export interface OrderFinding extends Finding {
  /** Undefined for a blob that belongs to no order. */
  readonly orderId: OrderId | undefined;
}

export interface VerifyResult {
  /** How many orders were looked at. */
  readonly orders: number;
  readonly findings: readonly OrderFinding[];
  /** True if no finding is damage. */
  readonly sound: boolean;
}

const CONTAINERS = ["events", "dead", "archive"] as const;
/** Orders in work at once. */
const LANES = 8;
const OUTBOX_PAGES = 10;

/** An order may have had subscriptions that left no progress; a listing of everything knows them. */
type Known = ReadonlyMap<OrderKey, ReadonlySet<string>>;

/** Costs one listing of `events/`, and two small ones a subscription. Throws `not-found` if there is no trace of the order. */
export async function verifyOrder(context: OperationsContext, orderId: OrderId): Promise<VerifyResult> {
  const order = encodeOrderId(orderId);
  const known = new Map<OrderKey, Set<string>>();
  for await (const { name } of context.storage.blobs.list("dead", "")) {
    const parsed = parseEventBlobName(name);
    if (parsed?.order === order) remember(known, order, parsed.subscription);
  }
  return result(1, await verifyOne(context, orderId, known));
}

/**
 * Every order with anything in outbox, pending events, dead letters or archive: O(archive) to find them, then as for one order, without the
 * big listing. Orders whose archive is empty by now and that have nothing pending are not found.
 *
 * @param onProgress called after every order
 * @throws `aborted` when the context's signal ends it
 */
export async function verifyAll(
  context: OperationsContext,
  options: { readonly onProgress?: (done: number, total: number) => void } = {},
): Promise<VerifyResult> {
  const { known, foreign } = await findOrders(context);
  let done = 0;
  const findings = await inLanes([...known.keys()].sort(), LANES, async (order) => {
    assertGoesOn(context, "verify");
    const found = await verifyOne(context, decodeOrderKey(order)!, known, true);
    done += 1;
    options.onProgress?.(done, known.size);
    return found;
  });
  return result(known.size, [...foreign, ...findings.flat()]);
}

async function verifyOne(
  context: OperationsContext,
  orderId: OrderId,
  known: Known,
  all: boolean = false,
): Promise<readonly OrderFinding[]> {
  const subscriptions = known.get(encodeOrderId(orderId)) ?? new Set<string>();
  try {
    const gathered = await gatherOrder(context, orderId, {
      ...(all ? { listPending: () => listPending(context, encodeOrderId(orderId), subscriptions) } : {}),
      readFinished: (names, order) =>
        inLanes([...new Set([...names, ...subscriptions])].sort(), LANES, (name) => listFinished(context, name, order)),
    });
    if (!all && isUnknown(gathered)) {
      throw new OutboxError("not-found", `order-unknown: there is no order ${printable(orderId)}, and no trace of one: check the id`);
    }
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

async function findOrders(context: OperationsContext): Promise<{ readonly known: Known; readonly foreign: readonly OrderFinding[] }> {
  const { blobs, orders } = context.storage;
  const known = new Map<OrderKey, Set<string>>();
  const foreign: OrderFinding[] = [];
  for (const container of CONTAINERS) {
    for await (const { name } of blobs.list(container, "")) {
      const parsed = parseEventBlobName(name);
      if (parsed !== undefined) remember(known, parsed.order, parsed.subscription);
      else foreign.push({ orderId: undefined, kind: "foreign", severity: "damage", text: `${container}/${name} is not one of ours` });
    }
    assertGoesOn(context, "verify");
  }
  let from: string | undefined;
  do {
    const { entities, next } = await orders.scanOutbox(from, OUTBOX_PAGES);
    for (const { order } of entities) if (decodeOrderKey(order) !== undefined) remember(known, order);
    from = next;
    assertGoesOn(context, "verify");
  } while (from !== undefined);
  return { known, foreign };
}

function remember(known: Map<OrderKey, Set<string>>, order: OrderKey, subscription?: string): void {
  const subscriptions = known.get(order) ?? new Set();
  known.set(order, subscriptions);
  if (subscription !== undefined && subscription !== UNROUTED) subscriptions.add(subscription);
}

/** A foreign name below an order is met by the search for orders and by the look at that order: told once, with the order. */
function result(orders: number, all: readonly OrderFinding[]): VerifyResult {
  const placed = new Set(all.filter(({ orderId }) => orderId !== undefined).map(({ text }) => text));
  const findings = all.filter(({ orderId, text }) => orderId !== undefined || !placed.has(text));
  return { orders, findings, sound: findings.every(({ severity }) => severity !== "damage") };
}
