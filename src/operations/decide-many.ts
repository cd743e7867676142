/** Redrive and discard: of one order's waiting events, or of all dead letters that a filter finds (F4). */
import { describeError, isOutboxError, OutboxError, printable } from "../core/errors.ts";
import type { EventId } from "../core/event-id.ts";
import { eventBlobName } from "../core/names.ts";
import { encodeOrderId, parseOrderId, type OrderKey } from "../core/order-id.ts";
import { progressOfLease, streamProgress, type StreamProgress } from "../core/progress.ts";
import { splitGhosts } from "../core/stream.ts";
import { assertOperator, type ChangeOptions, type OperationsContext, type Operator } from "./context.ts";
import { listDeadLetters, type DeadLetterFilter, type ListedDeadLetter } from "./dead-letters.ts";
import { decide, SKIPPING, type DecisionAction, type DecisionResult, type DecisionTarget } from "./decide.ts";
import { dismiss } from "./dismiss.ts";
import { inLanes } from "./lanes.ts";
import { listPendingStreams, type PendingEvent, type PendingStream } from "./pending-streams.ts";
import { redriveSkipped } from "./redrive-skipped.ts";
import { tryWakeUp } from "./wake.ts";

export interface DecideOptions extends ChangeOptions {
  /** Redrive dead letters that their stream has skipped too. They run after events that were committed later. Default false. */
  readonly outOfOrder?: boolean;
}

export interface DecideManyOptions extends DecideOptions {
  /** How many decisions to record at most; those already decided don't count. At least 1; default: all. */
  readonly limit?: number;
  /** Called after every event that was looked at. */
  readonly onProgress?: (done: number, total: number) => void;
}

export interface DecideManyResult {
  /** One for each event that was looked at. */
  readonly results: readonly DecisionResult[];
  /** Events that match and were not looked at: the limit was reached, the signal came, or an older one of the order failed. */
  readonly left: number;
}

/** How many orders are in work at once. */
const LANES = 8;

/**
 * Decides about the dead letters that match, the oldest first in each order. It can be ended by the context's signal, or die, and be repeated:
 * those that were decided are told, not decided again. One that can't be decided is told too; the rest of its order is left.
 */
export async function decideMany(
  context: OperationsContext,
  action: DecisionAction,
  filter: DeadLetterFilter,
  operator: Operator,
  options: DecideManyOptions = {},
): Promise<DecideManyResult> {
  assertOperator(operator);
  assertLimit(options);
  const { letters } = await listDeadLetters(context, filter);
  const turns = letters.map((letter) => letterTurn(context, letter, action, operator, options));
  return decideAll(context, action, [...Map.groupBy(turns, ({ target }) => target.orderId).values()], options);
}

export interface OrderFilter {
  readonly orderId: string;
  readonly subscription?: string | undefined;
  readonly id?: EventId | undefined;
}

/**
 * Decides about what waits in one order: heads that are blocked or (redrive: "retry now") parked, and dead letters that their streams have
 * passed. A head that is parked or pending is discarded only if its event id is given: that of a handler that never ends, for example. One
 * that can't be decided is told, and the others are decided.
 *
 * @throws `not-found` if nothing of the order waits
 */
export async function decideOrder(
  context: OperationsContext,
  action: DecisionAction,
  filter: OrderFilter,
  operator: Operator,
  options: DecideOptions = {},
): Promise<readonly DecisionResult[]> {
  assertOperator(operator);
  const { subscription, id } = filter;
  const orderId = parseOrderId(filter.orderId);
  const [streams, { letters }] = await Promise.all([
    listUnfinished(context, subscription, encodeOrderId(orderId)),
    listDeadLetters(context, filter),
  ]);
  const listed = new Set(letters.map((letter) => `${letter.subscription}/${letter.id}`));
  const turns: Turn[] = [];
  for (const { subscription: name, events } of streams) {
    const event = id === undefined ? events[0] : events.find((pending) => pending.id === id);
    if (event === undefined) continue;
    // Work that may still succeed is given up only when it is named.
    const status = event.state?.status;
    const isMeant = action === "redrive" ? status !== "pending" : status !== "pending" && status !== "parked";
    if (id === undefined && !isMeant && !listed.has(`${name}/${event.id}`)) continue;
    const target: DecisionTarget = { subscription: name, orderId, id: event.id };
    // On the list or not, work that was redriven since may still succeed.
    const onlyDead = action === "discard" && id === undefined;
    turns.push({ target, decideIt: () => decide(context, target, action, operator, { ...options, onlyDead }) });
  }
  const pending = new Set(streams.flatMap(({ subscription: name, events }) => events.map((event) => `${name}/${event.id}`)));
  const passed = letters.filter((letter) => !pending.has(`${letter.subscription}/${letter.id}`));
  turns.push(...passed.map((letter) => letterTurn(context, letter, action, operator, options)));
  if (turns.length === 0) {
    const where = subscription === undefined ? "" : ` for ${printable(subscription)}`;
    const hint =
      action === "discard" && id === undefined
        ? "; a failed or pending event is discarded only when --event names it, or with --pending"
        : "";
    throw new OutboxError(
      "not-found",
      `nothing of order ${printable(orderId)} waits for a decision${where}${hint}; \`ordered-outbox explain\` tells what it waits for`,
    );
  }
  const results: DecisionResult[] = [];
  // Streams are independent of each other: what is wrong with one keeps none of the others (G4).
  await decideInTurn(context, action, turns, { goesOn: () => true, onResult: (result) => void results.push(result) });
  return results;
}

export interface PendingFilter {
  readonly subscription: string;
  /** Undefined: all orders. */
  readonly orderId?: string | undefined;
}

export type DiscardPendingOptions = Omit<DecideManyOptions, "outOfOrder">;

/**
 * Discards all pending events of a subscription, the oldest first in each order: of one that is gone from the code (F10). The worker carries
 * it out event by event.
 */
export async function discardPending(
  context: OperationsContext,
  filter: PendingFilter,
  operator: Operator,
  options: DiscardPendingOptions = {},
): Promise<DecideManyResult> {
  assertOperator(operator);
  assertLimit(options);
  const { subscription, orderId } = filter;
  const order = orderId === undefined ? undefined : encodeOrderId(parseOrderId(orderId));
  const streams = await listUnfinished(context, subscription, order);
  const turns = streams.map((stream) =>
    stream.events.map(({ id }): Turn => {
      const target: DecisionTarget = { subscription, orderId: stream.orderId, id };
      return { target, decideIt: () => decide(context, target, "discard", operator, { ...options, anyPlace: true }) };
    }),
  );
  return decideAll(context, "discard", turns, options);
}

function assertLimit({ limit }: DecideManyOptions): void {
  if (limit !== undefined && !(limit >= 1)) throw new OutboxError("invalid-option", `limit is ${limit}: at least 1 is needed`);
}

/** One event, and how it is decided. */
interface Turn {
  readonly target: DecisionTarget;
  readonly decideIt: () => Promise<DecisionResult>;
}

/** @param orders the events of each order, oldest first */
async function decideAll(
  context: OperationsContext,
  action: DecisionAction,
  orders: readonly (readonly Turn[])[],
  { limit = Number.POSITIVE_INFINITY, onProgress }: DecideManyOptions,
): Promise<DecideManyResult> {
  const total = orders.reduce((sum, turns) => sum + turns.length, 0);
  const results: DecisionResult[] = [];
  let decided = 0;
  // Whether a letter counts is known once it is decided, so with a limit there is one after another.
  await inLanes(orders, limit === Number.POSITIVE_INFINITY ? LANES : 1, async (turns) => {
    let failed = false;
    await decideInTurn(context, action, turns, {
      goesOn: () => !failed && context.signal?.aborted !== true && decided < limit,
      onResult: (result) => {
        if (isDecided(result)) decided += 1;
        failed = result.outcome === "failed";
        results.push(result);
        onProgress?.(results.length, total);
      },
    });
  });
  return { results, left: total - results.length };
}

/** One after another, all of one order. However it ends, the order is woken for what is decided by then. */
async function decideInTurn(
  context: OperationsContext,
  action: DecisionAction,
  turns: readonly Turn[],
  { goesOn, onResult }: { readonly goesOn: () => boolean; readonly onResult: (result: DecisionResult) => void },
): Promise<void> {
  let wake = false;
  try {
    for (const { target, decideIt } of turns) {
      if (!goesOn()) return;
      const result = await orTell(target, decideIt);
      wake ||= needsWakeUp(result, action);
      onResult(result);
    }
  } finally {
    if (wake) await tryWakeUp(context, turns[0]!.target.orderId);
  }
}

interface UnfinishedStream extends Omit<PendingStream, "events"> {
  readonly events: readonly PendingEvent[];
}

/** The pending events without those that are finished and only not yet removed. */
async function listUnfinished(
  context: OperationsContext,
  subscription: string | undefined,
  order: OrderKey | undefined,
): Promise<readonly UnfinishedStream[]> {
  const { streams } = await listPendingStreams(context, { subscription, order });
  return inLanes(streams, LANES, async (stream) => ({
    ...stream,
    events: splitGhosts(stream.events, await progressOf(context, stream.subscription, stream.order)).pending,
  }));
}

async function progressOf(context: OperationsContext, subscription: string, order: OrderKey): Promise<StreamProgress> {
  return streamProgress(progressOfLease(await context.storage.leases.read(order)), subscription);
}

function letterTurn(
  context: OperationsContext,
  letter: ListedDeadLetter,
  action: DecisionAction,
  operator: Operator,
  options: DecideOptions,
): Turn {
  const { subscription, orderId, id } = letter;
  return { target: { subscription, orderId, id }, decideIt: () => decideLetter(context, letter, action, operator, options) };
}

/** What is wrong with one event must not keep the others from being decided. */
async function orTell(target: DecisionTarget, work: () => Promise<DecisionResult>): Promise<DecisionResult> {
  try {
    return await work();
  } catch (error) {
    if (!isOutboxError(error, "not-found", "corrupt", "conflict")) throw error;
    return { ...target, outcome: "failed", message: describeError(error) };
  }
}

async function decideLetter(
  context: OperationsContext,
  letter: ListedDeadLetter,
  action: DecisionAction,
  operator: Operator,
  options: DecideOptions,
): Promise<DecisionResult> {
  const { subscription, orderId, id } = letter;
  const target: DecisionTarget = { subscription, orderId, id };
  // Whatever the letter says: an event that is still there waits for its turn. A worker may have died, or the policy changed.
  const name = eventBlobName(subscription, letter.order, id);
  const isThere = (await context.storage.blobs.read("events", name)) !== undefined;
  const last = isThere ? (await progressOf(context, subscription, letter.order)).id : undefined;
  const isGhost = isThere && last !== undefined && id <= last;
  if (isThere && !isGhost) {
    const result = await decide(context, target, action, operator, { ...options, onlyDead: action === "discard" });
    return result.outcome === "finished" && action === "discard" ? dismiss(context, letter, operator, options) : result;
  }
  // What is decided of a skipped event is written on the archived one: it has to be there.
  if (isGhost && letter.policy === "skip" && (await context.storage.blobs.read("archive", name)) === undefined) {
    return { ...target, outcome: "skipped", message: SKIPPING };
  }
  if (letter.policy === "block" && action === "redrive") {
    if (!isGhost) return decide(context, target, action, operator, options);
    return { ...target, outcome: "finished", message: "its stream has passed it: discard takes it off the list" };
  }
  if (action === "discard") return dismiss(context, letter, operator, options);
  if (options.outOfOrder === true) return redriveSkipped(context, letter, operator, options);
  const message = "its stream has gone on without it: only an explicit redrive out of order can run it now";
  return { ...target, outcome: "skipped", message };
}

function isDecided({ outcome }: DecisionResult): boolean {
  return outcome === "recorded" || outcome === "would-record" || outcome === "dismissed";
}

/** Also for what was decided before: whoever did it may have died before their wake-up. */
function needsWakeUp({ outcome, decision }: DecisionResult, action: DecisionAction): boolean {
  return outcome === "recorded" || (outcome === "already-decided" && decision?.action === action);
}
