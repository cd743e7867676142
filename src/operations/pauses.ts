/** Pausing and resuming a subscription, or one order of it (F5). Workers learn of it within {@link CONTROL_CACHE_MS}. */
import type { AuditTarget } from "../core/audit-record.ts";
import { CONTROL_CACHE_MS, CONTROL_PARTITION, decodePause, pauseRow, type Pause } from "../core/controls.ts";
import { isOutboxError } from "../core/errors.ts";
import { nextEventId } from "../core/event-id.ts";
import { encodeOrderId, parseOrderId, type OrderId } from "../core/order-id.ts";
import { audited } from "./audit-log.ts";
import { assertOperator, clockOf, nowIso, type ChangeOptions, type OperationsContext, type Operator } from "./context.ts";
import { assertKnownSubscription } from "./known-subscriptions.ts";
import { inLanes } from "./lanes.ts";
import { listPauses } from "./list-pauses.ts";
import { assertKnownOrder } from "./order-trace.ts";
import { listPendingStreams } from "./pending-streams.ts";
import { tryWakeUp } from "./wake.ts";

export interface PauseTarget {
  readonly subscription: string;
  /** An OrderId. Undefined: all orders of the subscription. */
  readonly orderId?: string | undefined;
}

interface ParsedTarget extends PauseTarget {
  readonly orderId: OrderId | undefined;
}

export interface PauseOptions extends ChangeOptions {
  /** Also a subscription or an order that nothing in storage names, ahead of its deployment or first event. Default false. */
  readonly force?: boolean;
  /** What is to be deployed: its subscriptions may be paused too. */
  readonly deployed?: { readonly subscriptions: readonly { readonly name: string }[] };
}

export interface PauseResult {
  /** `already-paused`: nothing was changed, and `pause` tells who did it. `would-pause`: a dry run. */
  readonly outcome: "paused" | "already-paused" | "would-pause";
  readonly pause: Pause;
}

export interface ResumeResult {
  /** `resumed`: also of two at the very same time. `not-paused`: nothing was changed. `would-resume`: a dry run. */
  readonly outcome: "resumed" | "not-paused" | "would-resume";
  /** Orders with pending events of the subscription that got a wake-up, or would get one. */
  readonly woken: number;
}

const WAKE_UP_LANES = 16;
/** How often a pause is tried that others make and end at the same time. */
const MAX_TRIES = 5;

/**
 * Nothing of the target starts any more; what runs may finish.
 *
 * @throws `invalid-option` for a bad subscription name; `not-found` for a subscription or an order that nothing in storage names, see
 *   {@link PauseOptions}
 */
export async function pause(
  context: OperationsContext,
  rawTarget: PauseTarget,
  operator: Operator,
  options: PauseOptions = {},
): Promise<PauseResult> {
  assertOperator(operator);
  const target = parseTarget(rawTarget);
  const { subscription, orderId } = target;
  const rowKey = rowOf(target);
  const existing = await readPause(context, target);
  if (existing !== undefined) return { outcome: "already-paused", pause: existing.pause };
  const isMeant = options.force === true || options.deployed?.subscriptions.some(({ name }) => name === subscription) === true;
  if (!isMeant) await assertKnownSubscription(context, subscription);
  if (orderId !== undefined && options.force !== true) await assertKnownOrder(context, orderId);
  const { actor, reason } = operator;
  const wanted: Pause = { subscription, orderId, actor, reason, at: nowIso(context) };
  if (options.dryRun === true) return { outcome: "would-pause", pause: wanted };
  return audited(context, { ...operator, action: "pause", target: auditTarget(target) }, async () => {
    const call = nextEventId(undefined, clockOf(context).now(), context.random ?? Math.random);
    for (let tries = 1; ; tries++) {
      try {
        await context.storage.orders.insertEntity(CONTROL_PARTITION, rowKey, { actor, reason, at: wanted.at, call });
        return { outcome: "paused", pause: wanted };
      } catch (error) {
        const isUnanswered = isOutboxError(error, "unavailable", "timeout");
        if (!isUnanswered && !isOutboxError(error, "already-exists")) throw error;
        // Of two at the very same time one has paused. A request that the client repeated is refused by itself, and one without an answer may
        // be in force: was it mine?
        const stored = await readPause(context, target).catch(() => {
          throw error;
        });
        if (stored !== undefined) return { outcome: stored.call === call ? "paused" : "already-paused", pause: stored.pause };
        // Not arrived, or resumed in between.
        if (isUnanswered || tries === MAX_TRIES) throw error;
      }
    }
  });
}

async function readPause(
  { storage }: OperationsContext,
  target: ParsedTarget,
): Promise<{ readonly pause: Pause; readonly call: unknown } | undefined> {
  const rowKey = rowOf(target);
  const row = await storage.orders.readEntity(CONTROL_PARTITION, rowKey);
  const found = row && decodePause(rowKey, row.properties);
  return found && { pause: found, call: row?.properties["call"] };
}

/**
 * The target may start again. Its orders with a backlog get wake-ups that show when every worker has learnt of it. A subscription that is
 * paused as a whole stays paused when one order of it is resumed.
 *
 * @throws `not-found` for what is not paused, because nothing in storage names it
 */
export async function resume(
  context: OperationsContext,
  rawTarget: PauseTarget,
  operator: Operator,
  options: ChangeOptions = {},
): Promise<ResumeResult> {
  assertOperator(operator);
  const target = parseTarget(rawTarget);
  const rowKey = rowOf(target);
  const { subscription, orderId } = target;
  if (!(await listPauses(context)).some((other) => rowOf(other) === rowKey)) {
    await assertKnownSubscription(context, subscription);
    if (orderId !== undefined) await assertKnownOrder(context, orderId);
    return { outcome: "not-paused", woken: 0 };
  }
  const order = orderId === undefined ? undefined : encodeOrderId(orderId);
  const backlog = async (): Promise<readonly OrderId[]> =>
    (await listPendingStreams(context, { subscription, order })).streams.map((stream) => stream.orderId);
  if (options.dryRun === true) return { outcome: "would-resume", woken: (await backlog()).length };
  return audited(context, { ...operator, action: "resume", target: auditTarget(target) }, async () => {
    await endPause(context, target);
    const orderIds = await backlog();
    await inLanes(orderIds, WAKE_UP_LANES, (id) => tryWakeUp(context, id, CONTROL_CACHE_MS));
    return { outcome: "resumed", woken: orderIds.length };
  });
}

/**
 * The pause was there a moment ago, so one that is gone by now has ended: by this call, whose request the client may have repeated or whose
 * answer was lost, or by another's at the very same time. Nothing can tell them apart, and both have to wake the orders.
 */
async function endPause(context: OperationsContext, target: ParsedTarget): Promise<void> {
  try {
    await context.storage.orders.deleteEntity(CONTROL_PARTITION, rowOf(target));
  } catch (error) {
    if (!isOutboxError(error, "unavailable", "timeout")) throw error;
    const stored = await readPause(context, target).catch(() => {
      throw error;
    });
    if (stored !== undefined) throw error;
  }
}

function parseTarget({ subscription, orderId }: PauseTarget): ParsedTarget {
  return { subscription, orderId: orderId === undefined ? undefined : parseOrderId(orderId) };
}

function rowOf({ subscription, orderId }: ParsedTarget): string {
  return pauseRow(subscription, orderId === undefined ? undefined : encodeOrderId(orderId));
}

function auditTarget({ subscription, orderId }: PauseTarget): AuditTarget {
  return orderId === undefined ? { subscription } : { subscription, orderId };
}
