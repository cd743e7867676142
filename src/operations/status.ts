/**
 * How much waits where: one listing of `events/`, one of `dead/`, one range of the table, and a bounded look through the whole table for what
 * is not relayed. O(pending + dead) but for that look, which may be left out; see unrelayed.ts.
 */
import { parseEventBlobName } from "./blob-name.ts";
import type { OperationsContext } from "./context.ts";
import { listPauses } from "./pauses.ts";
import { listPendingStreams } from "./pending-streams.ts";
import { listUnrelayed, type UnrelayedListing } from "./unrelayed.ts";

export interface SubscriptionStatus {
  readonly subscription: string;
  /** Events that are relayed and not finished; parked and blocked ones are among them. What is still in an order's outbox is told by {@link Status.unrelayed}. */
  readonly pending: number;
  /** Orders that the pending events belong to. */
  readonly orders: number;
  /** How long the oldest pending event has waited, in whole seconds; undefined without any. */
  readonly oldestAgeSeconds: number | undefined;
  /** Orders whose head waits for its next attempt. */
  readonly parked: number;
  /** Orders whose head is a dead letter that waits for a human. */
  readonly blocked: number;
  /** Dead letters, those that the stream has skipped included. */
  readonly dead: number;
  /** `all`: the subscription as a whole. Otherwise how many single orders of it are paused. */
  readonly paused: "all" | number;
}

/** Committed events that no worker has relayed: which subscriptions want them is not known yet. */
export interface UnrelayedStatus {
  readonly events: number;
  readonly orders: number;
  /** How long the oldest of them has waited, in whole seconds; undefined without any. */
  readonly oldestAgeSeconds: number | undefined;
  /** False if the look ended before the end of the table: there may be more. */
  readonly complete: boolean;
}

export interface Status {
  /** By name. Subscriptions with nothing to tell are left out: they are known to the code alone. */
  readonly subscriptions: readonly SubscriptionStatus[];
  /** Orders with pending events of any subscription. */
  readonly ordersWithBacklog: number;
  readonly unrelayed: UnrelayedStatus;
  /** Blobs below `events/` that are none of ours. */
  readonly foreign: number;
}

/** @param options `maxPages`: how much of the table to look through for what is not relayed; 0 for nothing. Default 200; 0 to 1,000,000. */
export async function readStatus(context: OperationsContext, options: { readonly maxPages?: number } = {}): Promise<Status> {
  const [{ streams, foreign }, dead, pauses, unrelayed] = await Promise.all([
    listPendingStreams(context),
    countDead(context),
    listPauses(context),
    listUnrelayed(context, options.maxPages),
  ]);
  const names = new Set([...streams, ...pauses].map(({ subscription }) => subscription).concat([...dead.keys()]));
  const subscriptions = [...names].sort().map((subscription): SubscriptionStatus => {
    const own = streams.filter((stream) => stream.subscription === subscription);
    const ages = own.flatMap(({ events }) => events.map(({ ageMs }) => ageMs));
    const heads = own.map(({ events }) => events[0].state?.status);
    const ownPauses = pauses.filter((pause) => pause.subscription === subscription);
    return {
      subscription,
      pending: ages.length,
      orders: own.length,
      oldestAgeSeconds: ages.length === 0 ? undefined : Math.floor(ages.reduce((oldest, age) => Math.max(oldest, age), 0) / 1000),
      parked: heads.filter((status) => status === "parked").length,
      blocked: heads.filter((status) => status === "blocked").length,
      dead: dead.get(subscription) ?? 0,
      paused: ownPauses.some(({ orderId }) => orderId === undefined) ? "all" : ownPauses.length,
    };
  });
  const ordersWithBacklog = new Set(streams.map(({ order }) => order)).size;
  return { subscriptions, ordersWithBacklog, unrelayed: unrelayedStatus(unrelayed), foreign: foreign.length };
}

function unrelayedStatus({ orders, complete }: UnrelayedListing): UnrelayedStatus {
  const [oldest] = orders;
  return {
    events: orders.reduce((sum, { events }) => sum + events, 0),
    orders: orders.length,
    oldestAgeSeconds: oldest && Math.floor(oldest.ageMs / 1000),
    complete,
  };
}

async function countDead({ storage }: OperationsContext): Promise<ReadonlyMap<string, number>> {
  const counts = new Map<string, number>();
  for await (const { name } of storage.blobs.list("dead", "")) {
    const subscription = parseEventBlobName(name)?.subscription;
    if (subscription !== undefined) counts.set(subscription, (counts.get(subscription) ?? 0) + 1);
  }
  return counts;
}
