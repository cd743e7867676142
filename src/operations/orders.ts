/** The orders that have something pending, from one listing of `events/` and a read of each listed order's lease. */
import type { EventId } from "../core/event-id.ts";
import type { OrderId, OrderKey } from "../core/order-id.ts";
import type { Decision, PendingState } from "../core/pending-event.ts";
import type { LeaseBlob } from "../core/ports.ts";
import type { OperationsContext } from "./context.ts";
import { inLanes } from "./lanes.ts";
import { listPendingStreams, type PendingStream } from "./pending-streams.ts";

export interface OrderHead {
  readonly id: EventId;
  /** Undefined with the rest if the blob's metadata is not ours. */
  readonly sequence: number | undefined;
  readonly ageSeconds: number;
  readonly state: PendingState["status"] | undefined;
  readonly attempts: number;
  /** ISO 8601; only while it is parked. */
  readonly nextAttemptAt?: string;
  readonly lastError?: string;
  /** What an operator has decided and no worker has carried out yet. */
  readonly decision?: Decision;
}

export interface ListedOrder {
  readonly orderId: OrderId;
  readonly subscription: string;
  /** Pending events, the head included. */
  readonly backlog: number;
  readonly head: OrderHead;
  /** `none`: no worker has ever had the order. For the rest see {@link LeaseBlob}. */
  readonly lease: LeaseBlob["state"] | "none";
}

const LEASE_LANES = 16;

/** @param filter `state` of the head; `subscription`. The order whose head is oldest comes first. */
export async function listOrders(
  context: OperationsContext,
  filter: { readonly state?: PendingState["status"] | undefined; readonly subscription?: string | undefined } = {},
): Promise<readonly ListedOrder[]> {
  const { streams } = await listPendingStreams(context, { subscription: filter.subscription });
  const wanted = streams.filter(({ events }) => filter.state === undefined || events[0].state?.status === filter.state);
  const orders = [...new Set(wanted.map(({ order }) => order))];
  const states = await inLanes(orders, LEASE_LANES, async (order) => (await context.storage.leases.read(order))?.state ?? "none");
  const leases = new Map<OrderKey, ListedOrder["lease"]>(orders.map((order, index) => [order, states[index]!]));
  return wanted
    .map((stream) => ({
      orderId: stream.orderId,
      subscription: stream.subscription,
      backlog: stream.events.length,
      head: headOf(stream),
      lease: leases.get(stream.order)!,
    }))
    .sort((a, b) => b.head.ageSeconds - a.head.ageSeconds);
}

function headOf({ events: [{ id, ageMs, state }] }: PendingStream): OrderHead {
  return {
    id,
    sequence: state?.sequence,
    ageSeconds: Math.floor(ageMs / 1000),
    state: state?.status,
    attempts: state?.attempts ?? 0,
    ...(state?.status === "parked" ? { nextAttemptAt: new Date(state.nextAttemptMs).toISOString() } : {}),
    ...(state?.lastError === undefined ? {} : { lastError: state.lastError }),
    ...(state?.decision === undefined ? {} : { decision: state.decision }),
  };
}
