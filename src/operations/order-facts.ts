/** Everything that one order has in storage, read so that a moving event is seen twice rather than not at all. */
import { UNROUTED } from "../core/names.ts";
import { encodeOrderId, type OrderId, type OrderKey } from "../core/order-id.ts";
import type { LeaseBlob, OrderAndOutbox } from "../core/ports.ts";
import { progressOfLease, type Progress } from "../core/progress.ts";
import type { OperationsContext } from "./context.ts";
import { listPendingStreams, type PendingListing, type PendingStream } from "./pending-streams.ts";

export interface GatheredOrder<Finished> {
  readonly orderId: OrderId;
  readonly order: OrderKey;
  readonly found: OrderAndOutbox;
  readonly streams: readonly PendingStream[];
  /** Names among its pending events that are none of ours (W10). */
  readonly foreign: readonly string[];
  /** What `readFinished` read. */
  readonly finished: Finished;
  readonly lease: LeaseBlob | undefined;
  readonly progress: Progress;
  /** False if a worker was at the order meanwhile: then what seems to be missing may only have moved. */
  readonly settled: boolean;
}

/** How often an order that moved meanwhile is read again. */
const MAX_TRIES = 3;

/**
 * Reads in the direction in which events move: outbox, pending events, what is finished, progress. Between the first and the last read the
 * lease must stand still for the answer to be consistent.
 *
 * @param listPending the order's pending events, if the caller knows a cheaper way than listing all of `events/`
 * @param readFinished reads what the caller wants of archive and dead letters; gets the subscriptions that have pending events or progress,
 *   and {@link UNROUTED}
 * @throws `corrupt` if the order's progress can't be read; what storage throws
 */
export async function gatherOrder<Finished>(
  context: OperationsContext,
  orderId: OrderId,
  options: {
    readonly listPending?: () => Promise<PendingListing>;
    readonly readFinished: (subscriptions: readonly string[], order: OrderKey) => Promise<Finished>;
  },
): Promise<GatheredOrder<Finished>> {
  const { orders, leases } = context.storage;
  const order = encodeOrderId(orderId);
  const { listPending = () => listPendingStreams(context, { order }), readFinished } = options;
  for (let tries = 1; ; tries++) {
    const before = await leases.read(order);
    const found = await orders.readOutbox(order);
    const { streams, foreign } = await listPending();
    const names = new Set([UNROUTED, ...streams.map(({ subscription }) => subscription), ...Object.keys(progressOfLease(before).streams)]);
    const finished = await readFinished([...names].sort(), order);
    const lease = await leases.read(order);
    const settled = before?.etag === lease?.etag && lease?.state !== "taken";
    if (settled || lease?.state === "taken" || tries === MAX_TRIES) {
      return { orderId, order, found, streams, foreign, finished, lease, progress: progressOfLease(lease), settled };
    }
  }
}
