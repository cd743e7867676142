/**
 * The orders that have something pending or not relayed, from one listing of `events/`, a bounded look through the table (see unrelayed.ts)
 * and a read of each listed order's lease.
 */
import { isOutboxError } from "../core/errors.ts";
import type { EventId } from "../core/event-id.ts";
import type { OrderId, OrderKey } from "../core/order-id.ts";
import type { Decision, PendingState } from "../core/pending-event.ts";
import type { LeaseBlob } from "../core/ports.ts";
import { NEW_STREAM, progressOfLease, streamProgress, type StreamProgress } from "../core/progress.ts";
import { splitGhosts } from "../core/stream.ts";
import type { OperationsContext } from "./context.ts";
import { inLanes } from "./lanes.ts";
import { listPendingStreams, type PendingStream } from "./pending-streams.ts";
import { listUnrelayed, type UnrelayedListing, type UnrelayedOrder } from "./unrelayed.ts";

/** For what asks for one of them: the command line, the operations API. */
export const HEAD_STATES = ["pending", "parked", "blocked", "unrelayed", "missing"] as const;

/**
 * `unrelayed`: committed, and still in the outbox of its order. `missing`: an event before it is missing, so it does not run (W3); a stream
 * that has lost all its events is not listed, `verify` finds it.
 */
export type HeadState = (typeof HEAD_STATES)[number];

export interface OrderHead {
  readonly id: EventId;
  /** Undefined with the rest if the blob's metadata is not ours, and for an unrelayed event. */
  readonly sequence: number | undefined;
  readonly ageSeconds: number;
  readonly state: HeadState | undefined;
  readonly attempts: number;
  /** ISO 8601; only while it is parked. */
  readonly nextAttemptAt?: string;
  readonly lastError?: string;
  /** What an operator has decided and no worker has carried out yet. */
  readonly decision?: Decision;
}

export interface ListedOrder {
  readonly orderId: OrderId;
  /** Undefined for unrelayed events: who wants them is not known yet. */
  readonly subscription: string | undefined;
  /** Pending or unrelayed events, the head included. */
  readonly backlog: number;
  readonly head: OrderHead;
  /** `none`: no worker has ever had the order. For the rest see {@link LeaseBlob}. */
  readonly lease: LeaseBlob["state"] | "none";
}

export interface OrderListFilter {
  /** Of the head. */
  readonly state?: HeadState | undefined;
  /** Leaves out what is not relayed. */
  readonly subscription?: string | undefined;
  /** How much of the table to look through for what is not relayed; 0 for nothing. Default 200; 0 to 1,000,000. */
  readonly maxPages?: number | undefined;
}

export interface OrderListing {
  /** The one whose head is oldest comes first. An order with pending and unrelayed events is listed for both. */
  readonly orders: readonly ListedOrder[];
  /** False if the look through the table ended before its end: there may be more orders with unrelayed events. */
  readonly complete: boolean;
}

const LEASE_LANES = 16;

export async function listOrders(context: OperationsContext, filter: OrderListFilter = {}): Promise<OrderListing> {
  const [wanted, unrelayed] = await Promise.all([pendingOf(context, filter), unrelayedOf(context, filter)]);
  const orders = [...new Set([...wanted, ...unrelayed.orders].map(({ order }) => order))];
  const read = await inLanes(orders, LEASE_LANES, (order) => context.storage.leases.read(order));
  const blobs = new Map<OrderKey, LeaseBlob | undefined>(orders.map((order, index) => [order, read[index]]));
  const listed = [
    ...wanted
      .flatMap((each) => unfinished(each, blobs.get(each.order)) ?? [])
      .map((stream) => ({
        orderId: stream.orderId,
        subscription: stream.subscription,
        backlog: stream.events.length,
        head: headOf(stream, blobs.get(stream.order)),
        lease: blobs.get(stream.order)?.state ?? ("none" as const),
      })),
    ...unrelayed.orders.map((own) => ({
      orderId: own.orderId,
      subscription: undefined,
      backlog: own.events,
      head: unrelayedHead(own),
      lease: blobs.get(own.order)?.state ?? ("none" as const),
    })),
  ];
  const shown = listed.filter(({ head }) => filter.state === undefined || head.state === filter.state);
  return { orders: shown.sort((a, b) => b.head.ageSeconds - a.head.ageSeconds), complete: unrelayed.complete };
}

async function pendingOf(context: OperationsContext, { state, subscription }: OrderListFilter): Promise<readonly PendingStream[]> {
  if (state === "unrelayed") return [];
  const { streams } = await listPendingStreams(context, { subscription });
  return streams.filter(
    ({ events }) => state === undefined || state === "missing" || events.some((event) => event.state?.status === state),
  );
}

async function unrelayedOf(context: OperationsContext, { state, subscription, maxPages }: OrderListFilter): Promise<UnrelayedListing> {
  if ((state !== undefined && state !== "unrelayed") || subscription !== undefined) return { orders: [], complete: true };
  return listUnrelayed(context, maxPages);
}

function unrelayedHead({ id, ageMs }: UnrelayedOrder): OrderHead {
  return { id, sequence: undefined, ageSeconds: Math.floor(ageMs / 1000), state: "unrelayed", attempts: 0 };
}

function headOf({ subscription, events: [{ id, ageMs, state }] }: PendingStream, lease: LeaseBlob | undefined): OrderHead {
  return {
    id,
    sequence: state?.sequence,
    ageSeconds: Math.floor(ageMs / 1000),
    state: state !== undefined && isBehindGap(subscription, state, lease) ? "missing" : state?.status,
    attempts: state?.attempts ?? 0,
    ...(state?.status === "parked" ? { nextAttemptAt: new Date(state.nextAttemptMs).toISOString() } : {}),
    ...(state?.lastError === undefined ? {} : { lastError: state.lastError }),
    ...(state?.decision === undefined ? {} : { decision: state.decision }),
  };
}

/** Without what the progress has passed: a dead worker left that, and the next one clears it away (W2). Undefined if nothing else is there. */
function unfinished(stream: PendingStream, lease: LeaseBlob | undefined): PendingStream | undefined {
  const [head, ...rest] = splitGhosts(stream.events, progressOf(stream.subscription, lease) ?? NEW_STREAM).pending;
  return head && { ...stream, events: [head, ...rest] };
}

/** Undefined if it can't be read: what is wrong with it is for `verify` to say. */
function progressOf(subscription: string, lease: LeaseBlob | undefined): StreamProgress | undefined {
  try {
    return streamProgress(progressOfLease(lease), subscription);
  } catch (error) {
    if (!isOutboxError(error, "corrupt")) throw error;
    return undefined;
  }
}

/** Is an event before this head missing? While a worker moves the order nothing is said to be missing. */
function isBehindGap(subscription: string, { previous }: PendingState, lease: LeaseBlob | undefined): boolean {
  if (lease?.state === "taken") return false;
  const progress = progressOf(subscription, lease);
  return progress !== undefined && previous > progress.sequence;
}
