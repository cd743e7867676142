/** Replaying a range of one order's archived events for one subscription (F9). */
import { createHash } from "node:crypto";
import { OutboxError, printable } from "../core/errors.ts";
import { wholeNumber } from "../core/options.ts";
import { assertSubscriptionName } from "../core/names.ts";
import { encodeOrderId, parseOrderId } from "../core/order-id.ts";
import type { Subscription } from "../core/workflow.ts";
import { assertOperator, type ChangeOptions, type OperationsContext, type Operator } from "./context.ts";
import { assertKnownSubscription } from "./known-subscriptions.ts";
import { assertKnownOrder } from "./order-trace.ts";
import { replayOrder } from "./replay-order.ts";
import { performRun } from "./replay-perform.ts";
import type { ReplayResult } from "./replay-totals.ts";

export interface ReplayTarget {
  /** An OrderId. */
  readonly orderId: string;
  readonly subscription: string;
  /** First and last sequence, both inclusive. Default: 1, and what the order has when the run begins. */
  readonly from?: number | undefined;
  readonly to?: number | undefined;
  /**
   * The subscription's own filter. With it, events that the subscription never had are replayed too, if the filter wants them: from the
   * archives of others, and what waits for others. Default: only what is in the subscription's own archive.
   */
  readonly wants?: Subscription["wants"] | undefined;
}

export interface ReplayOptions extends ChangeOptions {
  /** Name of the run. The same run, repeated, goes on or does nothing; to replay once more, name another. Default: made of the target. */
  readonly run?: string | undefined;
}

/**
 * Commits archived events of one order again, for one subscription, with new ids: handled and discarded ones, originals only, in their order
 * among themselves and after all that the order has committed. The worker handles them like any others; a handler can tell by
 * `event.replayOf`.
 *
 * Exactly once a run: it can be ended, or die at any point, and be repeated, by several operators at once. A run that was not finished within
 * 29 days can't go on.
 *
 * @throws `invalid-option`; `invalid-order-id`; `not-found` for an order or, without `wants`, a subscription that nothing in storage names;
 *   what storage throws
 */
export async function replay(
  context: OperationsContext,
  target: ReplayTarget,
  operator: Operator,
  options: ReplayOptions = {},
): Promise<ReplayResult> {
  assertOperator(operator);
  const { subscription, wants } = target;
  const orderId = parseOrderId(target.orderId);
  assertSubscriptionName(subscription);
  const max = Number.MAX_SAFE_INTEGER;
  const from = wholeNumber("from", target.from, { default: 1, min: 1, max });
  const to = wholeNumber("to", target.to, { default: max, min: 1, max });
  if (from > to)
    throw new OutboxError("invalid-option", `from is ${from} and to is ${to}: the first sequence of a range can't be after its last`);
  const range = `events ${from} to ${to === max ? "the last" : to}`;
  const parameters = `replay of ${range} of order ${printable(orderId)}${wants === undefined ? "" : ", by the filter"}`;
  const run = options.run ?? defaultRun([encodeOrderId(orderId), from, to, wants !== undefined]);
  return performRun(context, operator, {
    action: "replay",
    name: { subscription, run },
    orderId,
    parameters,
    dryRun: options.dryRun === true,
    // A typo must not become a run that is done.
    async assertKnown() {
      await assertKnownOrder(context, orderId);
      if (wants === undefined) await assertKnownSubscription(context, subscription);
    },
    // What is committed while the run is interrupted is none of its matter.
    upTo: async () => (await context.storage.orders.readOrder(encodeOrderId(orderId)))?.sequence ?? 0,
    async perform({ upTo, dryRun, totals }) {
      const own = { own: true, wants, sinceMs: undefined, sources: new Map(), streams: [] };
      totals.add(await replayOrder(context, { orderId, subscription, run, from, to: Math.min(to, upTo), dryRun, ...own }));
    },
  });
}

/** The same for the same target, another one for any other. */
function defaultRun(target: readonly unknown[]): string {
  return `range-${createHash("sha256").update(JSON.stringify(target)).digest("hex").slice(0, 16)}`;
}
