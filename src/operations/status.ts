/**
 * How much waits where: one listing of `events/`, one of `dead/`, one range of the table, and a bounded look through the whole table for what
 * is not relayed. O(pending + dead) but for that look, which may be left out; see unrelayed.ts.
 */
import type { Pause } from "../core/controls.ts";
import { clockOf, type OperationsContext } from "./context.ts";
import { readFigures } from "./figures.ts";
import { listPauses } from "./list-pauses.ts";
import { listUnrelayed, type UnrelayedListing } from "./unrelayed.ts";

export interface SubscriptionStatus {
  readonly subscription: string;
  /** Events that have a pending blob; parked and blocked ones are among them, and for a short while a finished one that a dead worker left. What is still in an order's outbox is told by {@link Status.unrelayed}. */
  readonly pending: number;
  /** Orders that the pending events belong to. */
  readonly orders: number;
  /** How long the oldest pending event has waited, in whole seconds; undefined without any. */
  readonly oldestAgeSeconds: number | undefined;
  /** Orders whose head waits for its next attempt, and no decision is recorded on it. */
  readonly parked: number;
  /** Orders whose head is a dead letter that waits for a human: no decision is recorded on it. */
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
  /** Who paused what, and why; by subscription. */
  readonly pauses: readonly Pause[];
  /** Blobs below `events/` that are none of ours. */
  readonly foreign: number;
}

export interface StatusOptions {
  /** How much of the table to look through for what is not relayed; 0 for nothing. Default 200; 0 to 1,000,000. */
  readonly maxPages?: number;
}

export async function readStatus(context: OperationsContext, options: StatusOptions = {}): Promise<Status> {
  const { storage, signal } = context;
  const [{ heads, figures, foreign }, pauses, unrelayed] = await Promise.all([
    readFigures(storage, clockOf(context).now(), signal === undefined ? {} : { signal }),
    listPauses(context),
    listUnrelayed(context, options.maxPages),
  ]);
  const names = new Set([...figures, ...pauses].map(({ subscription }) => subscription));
  const figuresOf = new Map(figures.map((each) => [each.subscription, each]));
  const subscriptions = [...names].sort().map((subscription): SubscriptionStatus => {
    const { pending = 0, parked = 0, blocked = 0, dead = 0, oldestAgeMs = 0 } = figuresOf.get(subscription) ?? {};
    const ownPauses = pauses.filter((pause) => pause.subscription === subscription);
    return {
      subscription,
      pending,
      orders: heads.filter((head) => head.subscription === subscription).length,
      oldestAgeSeconds: pending === 0 ? undefined : Math.floor(oldestAgeMs / 1000),
      parked,
      blocked,
      dead,
      paused: ownPauses.some(({ orderId }) => orderId === undefined) ? "all" : ownPauses.length,
    };
  });
  const ordersWithBacklog = new Set(heads.map(({ order }) => order)).size;
  return { subscriptions, ordersWithBacklog, unrelayed: unrelayedStatus(unrelayed), pauses, foreign: foreign.count };
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
