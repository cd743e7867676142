/** Pausing and resuming a subscription, or one order of it (F5). Workers learn of it within {@link CONTROL_CACHE_MS}. */
import { CONTROL_CACHE_MS, CONTROL_PARTITION, parsePauseRow, pauseRow, type Pause } from "../core/controls.ts";
import { isOutboxError } from "../core/errors.ts";
import { nextEventId } from "../core/event-id.ts";
import { encodeOrderId, type OrderId } from "../core/order-id.ts";
import type { StoredEntity } from "../core/ports.ts";
import { audited, type AuditTarget } from "./audit-log.ts";
import { nowIso, type OperationsContext, type Operator } from "./context.ts";
import { inLanes } from "./lanes.ts";
import { listPendingStreams } from "./pending-streams.ts";
import { tryWakeUp } from "./wake.ts";

export interface PauseTarget {
  readonly subscription: string;
  /** Undefined: all orders of the subscription. */
  readonly orderId?: OrderId | undefined;
}

export interface PauseResult {
  /** `already-paused`: nothing was changed, and `pause` tells who did it. `would-pause`: a dry run. */
  readonly outcome: "paused" | "already-paused" | "would-pause";
  readonly pause: Pause;
}

export interface ResumeResult {
  /** `not-paused`: nothing was changed. `would-resume`: a dry run. */
  readonly outcome: "resumed" | "not-paused" | "would-resume";
  /** Orders with pending events of the subscription that got a wake-up, or would get one. */
  readonly woken: number;
}

const ROWS = { from: "pause:", to: "pause;" };
const WAKE_UP_LANES = 16;
/** How often a pause is tried that others make and end at the same time. */
const MAX_TRIES = 5;

/** All pauses there are, in order of their keys. */
export async function listPauses({ storage, signal }: OperationsContext): Promise<readonly Pause[]> {
  const rows = await storage.orders.listEntities(CONTROL_PARTITION, ROWS, signal === undefined ? {} : { signal });
  return rows.flatMap(({ rowKey, properties }) => {
    const target = parsePauseRow(rowKey);
    return target === undefined ? [] : [toPause(target, properties)];
  });
}

/** Nothing of the target starts any more; what runs may finish. Throws `invalid-option` for a bad subscription name. */
export async function pause(
  context: OperationsContext,
  target: PauseTarget,
  operator: Operator,
  options: { readonly dryRun?: boolean } = {},
): Promise<PauseResult> {
  const { subscription, orderId } = target;
  const rowKey = rowOf(target);
  const existing = await readPause(context, target);
  if (existing !== undefined) return { outcome: "already-paused", pause: existing.pause };
  const { actor, reason } = operator;
  const wanted: Pause = { subscription, orderId, actor, reason, at: nowIso(context.clock) };
  if (options.dryRun === true) return { outcome: "would-pause", pause: wanted };
  return audited(context, { ...operator, action: "pause", target: auditTarget(target) }, async () => {
    const call = nextEventId(undefined, context.clock.now(), context.random ?? Math.random);
    for (let tries = 1; ; tries++) {
      try {
        await context.storage.orders.insertEntity(CONTROL_PARTITION, rowKey, { actor, reason, at: wanted.at, call });
        return { outcome: "paused", pause: wanted };
      } catch (error) {
        if (!isOutboxError(error, "already-exists") || tries === MAX_TRIES) throw error;
      }
      // Of two at the very same time one has paused. A request that the client repeated is refused by itself: was it mine?
      const stored = await readPause(context, target);
      if (stored !== undefined) return { outcome: stored.call === call ? "paused" : "already-paused", pause: stored.pause };
      // Resumed in between.
    }
  });
}

async function readPause(
  { storage }: OperationsContext,
  target: PauseTarget,
): Promise<{ readonly pause: Pause; readonly call: unknown } | undefined> {
  const row = await storage.orders.readEntity(CONTROL_PARTITION, rowOf(target));
  return row && { pause: toPause(target, row.properties), call: row.properties["call"] };
}

function toPause({ subscription, orderId }: PauseTarget, properties: StoredEntity["properties"]): Pause {
  const text = (name: string): string => (typeof properties[name] === "string" ? properties[name] : "");
  return { subscription, orderId, actor: text("actor"), reason: text("reason"), at: text("at") };
}

/**
 * The target may start again. Its orders with a backlog get wake-ups that show when every worker has learnt of it. A subscription that is
 * paused as a whole stays paused when one order of it is resumed.
 */
export async function resume(
  context: OperationsContext,
  target: PauseTarget,
  operator: Operator,
  options: { readonly dryRun?: boolean } = {},
): Promise<ResumeResult> {
  const rowKey = rowOf(target);
  const { subscription, orderId } = target;
  if (!(await listPauses(context)).some((other) => rowOf(other) === rowKey)) return { outcome: "not-paused", woken: 0 };
  const order = orderId === undefined ? undefined : encodeOrderId(orderId);
  const backlog = async (): Promise<readonly OrderId[]> =>
    (await listPendingStreams(context, { subscription, order })).streams.map((stream) => stream.orderId);
  if (options.dryRun === true) return { outcome: "would-resume", woken: (await backlog()).length };
  return audited(context, { ...operator, action: "resume", target: auditTarget(target) }, async () => {
    if (!(await context.storage.orders.deleteEntity(CONTROL_PARTITION, rowKey))) return { outcome: "not-paused", woken: 0 };
    const orderIds = await backlog();
    await inLanes(orderIds, WAKE_UP_LANES, (id) => tryWakeUp(context, id, CONTROL_CACHE_MS));
    return { outcome: "resumed", woken: orderIds.length };
  });
}

function rowOf({ subscription, orderId }: PauseTarget): string {
  return pauseRow(subscription, orderId === undefined ? undefined : encodeOrderId(orderId));
}

function auditTarget({ subscription, orderId }: PauseTarget): AuditTarget {
  return orderId === undefined ? { subscription } : { subscription, orderId };
}
