/** Replaying for a new subscription what others have had before it was there (F9). */
import { OutboxError, printable } from "../core/errors.ts";
import { silentLogger } from "../core/logger.ts";
import type { Subscription } from "../core/workflow.ts";
import { BackfillCursor } from "./backfill-cursor.ts";
import { listOtherStreams } from "./backfill-orders.ts";
import { assertOperator, type OperationsContext, type Operator } from "./context.ts";
import { inLanes } from "./lanes.ts";
import { replayOrder } from "./replay-order.ts";
import { performRun } from "./replay-perform.ts";
import type { ReplayOptions } from "./replay.ts";
import type { ReplayResult } from "./replay-totals.ts";

export interface BackfillTarget {
  /** As workers run it: its name, and the filter that decides which events it wants. */
  readonly subscription: Subscription;
  /** ISO 8601. Of each order, the events from the first one on whose own time is not before this. Default: all. */
  readonly since?: string | undefined;
}

export interface BackfillOptions extends ReplayOptions {
  /** Name of the run, one per subscription. Default `backfill`. */
  readonly run?: string | undefined;
  /** Is told after every order; must not throw. */
  readonly onProgress?: (done: { readonly orders: number; readonly events: number }) => void;
}

/** How many orders are in work at once. */
const LANES = 8;
const MAX_SEQUENCE = Number.MAX_SAFE_INTEGER;

/**
 * Commits for one subscription, in each order, what is archived or pending for others, or archived as wanted by nobody, and what this
 * subscription wants and never had: originals only, in their order among themselves, after all that the order has committed. Deploy the
 * subscription on all workers first: its replays wait for one that has it (F10), but what one without it relays later on it would miss.
 *
 * What it has had is told by its own stream: pending and archived events, replays among them, the chain of their predecessors, its progress. An
 * order where retention has removed what could tell is left alone in this part (`may-have-had`): never is an event handed out twice.
 *
 * Exactly once a run, and repeatable like `replay`. Memory: a page of each listing, and the events of the orders in work.
 *
 * @throws `invalid-option`; what storage throws, once more than a few orders are concerned
 */
export async function backfill(
  context: OperationsContext,
  { subscription, since }: BackfillTarget,
  operator: Operator,
  options: BackfillOptions = {},
): Promise<ReplayResult> {
  assertOperator(operator);
  const sinceMs = since === undefined ? undefined : timeOf(since);
  const { name, wants } = subscription;
  const { run = "backfill", dryRun = false, onProgress } = options;
  const { logger = silentLogger, storage } = context;
  const isStopped = (): boolean => context.signal?.aborted === true;
  return performRun(context, operator, {
    action: "backfill",
    name: { subscription: name, run },
    parameters: `backfill${since === undefined ? "" : ` since ${new Date(sinceMs!).toISOString()}`}`,
    dryRun,
    upTo: async () => MAX_SEQUENCE,
    async perform({ totals, startedAt = "" }) {
      const onForeign = (blob: string): void => logger.warn("not one of ours, left alone", { name: printable(blob) });
      const { names, orders, sorted } = await listOtherStreams(storage.blobs, name, onForeign);
      const cursor = await BackfillCursor.read(storage.orders, { subscription: name, run }, { startedAt, sorted, dryRun });
      totals.addBefore(cursor.eventsBefore);
      const lane = async (): Promise<void> => {
        while (!isStopped()) {
          const next = await orders.next();
          if (next.done === true) return;
          const { order, orderId, sources } = next.value;
          if (cursor.skips(order)) continue;
          cursor.begin(order);
          const range = { from: 1, to: MAX_SEQUENCE, own: false, sinceMs };
          const result = await replayOrder(context, { orderId, subscription: name, run, ...range, wants, sources, streams: names, dryRun });
          totals.add(result);
          // An order that was left in between is not done.
          if (!isStopped()) await cursor.end(order, result);
          onProgress?.({ orders: totals.orders, events: totals.events });
        }
      };
      try {
        await inLanes(Array.from({ length: LANES }), LANES, lane);
        await cursor.keep();
      } finally {
        await orders.return(undefined);
      }
    },
  });
}

const RFC_3339 = /^[0-9]{4}-[0-9]{2}-[0-9]{2}(?:T[0-9]{2}:[0-9]{2}:[0-9]{2}(?:\.[0-9]+)?(?:Z|[+-][0-9]{2}:[0-9]{2}))?$/;

function timeOf(text: string): number {
  const ms = RFC_3339.test(text) ? Date.parse(text) : Number.NaN;
  if (!Number.isNaN(ms)) return ms;
  throw new OutboxError(
    "invalid-option",
    `since is ${JSON.stringify(printable(text, 60))}: a date, or a date and time with zone is needed`,
  );
}
