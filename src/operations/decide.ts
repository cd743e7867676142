/**
 * Recording what an operator wants of a waiting event (F4). Nothing is moved here: the decision goes into the metadata of the event blob,
 * conditional on its etag, and the worker carries it out under the lease. So of two operators at once exactly one decides.
 */
import { isOutboxError, OutboxError, printable } from "../core/errors.ts";
import type { EventId } from "../core/event-id.ts";
import { decodeMetadataText } from "../core/metadata-text.ts";
import { eventBlobName } from "../core/names.ts";
import { encodeOrderId, type OrderId } from "../core/order-id.ts";
import { decodePendingState, encodePendingState, isSameDecision, type Decision, type PendingState } from "../core/pending-event.ts";
import type { Etag, Metadata } from "../core/ports.ts";
import { progressOfLease, streamProgress } from "../core/progress.ts";
import { isFinished, splitGhosts } from "../core/stream.ts";
import { audited } from "./audit-log.ts";
import { assertOperator, nowIso, type OperationsContext, type Operator } from "./context.ts";
import { listPendingStreams } from "./pending-streams.ts";

export type DecisionAction = Decision["action"];

export interface DecisionTarget {
  readonly subscription: string;
  readonly orderId: OrderId;
  readonly id: EventId;
}

export interface DecisionResult extends DecisionTarget {
  /**
   * - `recorded`: the worker will carry it out. `would-record`: a dry run.
   * - `dismissed`: a dead letter that its stream has passed is off the list.
   * - `already-decided`: somebody was faster; {@link DecisionResult.decision} is theirs. Nothing was changed.
   * - `not-waiting`: redriven or relayed, it runs or is about to. Nothing was changed.
   * - `not-head`: older events of the stream come first. Nothing was changed.
   * - `finished`: handled, discarded or dead-lettered by now. Nothing was changed, or the decision came too late to change anything.
   * - `skipped`: the stream has gone on without it, see `outOfOrder`. Nothing was changed.
   * - `unreadable`: the blob's metadata is not ours. Nothing was changed.
   * - `failed`: it could not be done, or not all of it; the message tells why.
   */
  readonly outcome:
    | "recorded"
    | "would-record"
    | "dismissed"
    | "already-decided"
    | "not-waiting"
    | "not-head"
    | "finished"
    | "skipped"
    | "unreadable"
    | "failed";
  /** For people. */
  readonly message: string;
  /** The decision that is in force, whoever made it. */
  readonly decision?: Decision;
}

interface Open {
  readonly state: PendingState;
  readonly etag: Etag;
}

/** For a moment, or until the next worker has the order if its own has died. */
export const SKIPPING =
  "it is a dead letter that its stream is about to pass; once it is archived, it can be redriven out of order or taken off the list";

interface DecideRules {
  readonly anyPlace?: boolean;
  readonly onlyDead?: boolean;
}

/** Bounds the race with a worker that keeps writing the same blob, and a service that does not answer. */
const MAX_TRIES = 5;

/**
 * Redrive: for a head that is parked ("retry now") or blocked. Discard: for any head; one whose handler runs right now, or starts within
 * 5 s of its relay before a wake-up reaches its worker, may still end as handled. Sends no wake-up. What its stream has passed is `finished`, although its blob may be there for another second, and for longer if its worker died.
 *
 * @param options `anyPlace`: a discard may be recorded behind the head too; it is carried out when the event's turn comes. `onlyDead`: only if it is
 *   blocked, however it came to be meant: somebody may have redriven it since
 * @throws `conflict` if the blob kept changing; what storage throws
 */
export async function decide(
  context: OperationsContext,
  target: DecisionTarget,
  action: DecisionAction,
  operator: Operator,
  options: DecideRules & { readonly dryRun?: boolean } = {},
): Promise<DecisionResult> {
  assertOperator(operator);
  const found = await inspect(context, target, action, options);
  if ("outcome" in found) return found;
  const decision: Decision = { action, actor: operator.actor, reason: operator.reason, at: nowIso(context) };
  if (options.dryRun === true) return { ...target, outcome: "would-record", message: `would be recorded: ${action}`, decision };
  const { sequence } = found.state;
  const { subscription, orderId, id } = target;
  return audited(context, { ...operator, action, target: { subscription, orderId, eventId: id, sequence } }, () =>
    record(context, target, decision, found, options),
  );
}

async function record(
  context: OperationsContext,
  target: DecisionTarget,
  decision: Decision,
  first: Open,
  rules: DecideRules,
): Promise<DecisionResult> {
  const name = blobName(target);
  let found: Open | DecisionResult = first;
  let cause: unknown;
  for (let tries = 0; tries < MAX_TRIES; tries++) {
    // A write that got no answer may have happened: the decision that is there now may be this one.
    if ("outcome" in found) {
      const isOwn = found.decision !== undefined && isSameDecision(found.decision, decision);
      return isOwn ? ((await passedBefore(context, target, decision, first.state.sequence)) ?? recorded(target, decision)) : found;
    }
    try {
      await context.storage.blobs.writeMetadata("events", name, encodePendingState({ ...found.state, decision }), found.etag);
      return (await passedBefore(context, target, decision, first.state.sequence)) ?? recorded(target, decision);
    } catch (error) {
      if (!isOutboxError(error, "precondition-failed", "not-found", "timeout", "unavailable")) throw error;
      cause = error;
    }
    found = await inspect(context, target, decision.action, rules);
  }
  throw new OutboxError("conflict", `events/${name} kept changing, nothing was decided. Repeat the command.`, { cause });
}

/**
 * Has the stream passed the event without having seen the decision to discard it? Looked at after the decision was written, and the progress
 * before the archive: a discard that was carried out is archived before the progress passes it.
 */
async function passedBefore(
  context: OperationsContext,
  target: DecisionTarget,
  { action }: Decision,
  sequence: number,
): Promise<DecisionResult | undefined> {
  if (action !== "discard" || !(await hasPassed(context, target, sequence))) return undefined;
  const archived = await context.storage.blobs.read("archive", blobName(target));
  return archived?.metadata["outcome"] === "discarded" ? undefined : passed(target, archived?.metadata);
}

/** The event if it may be decided about, or why not. */
async function inspect(
  context: OperationsContext,
  target: DecisionTarget,
  action: DecisionAction,
  { anyPlace = false, onlyDead = false }: DecideRules,
): Promise<Open | DecisionResult> {
  const name = blobName(target);
  const blob = await context.storage.blobs.read("events", name);
  if (blob === undefined) return finished(target, (await context.storage.blobs.read("archive", name))?.metadata);
  const state = decodePendingState(blob.metadata);
  if (state === undefined) {
    return { ...target, outcome: "unreadable", message: "the metadata of its blob is not ours: a worker has to look at it first" };
  }
  const { decision } = state;
  if (decision !== undefined) return { ...target, outcome: "already-decided", message: decidedText(decision), decision };
  if (await hasPassed(context, target, state.sequence))
    return passed(target, (await context.storage.blobs.read("archive", name))?.metadata);
  if (state.ending !== undefined) return { ...target, outcome: "skipped", message: SKIPPING };
  if (onlyDead && state.status !== "blocked") {
    const message = "it is no dead letter any more: it was redriven, and runs, waits for its next attempt, or is about to";
    return { ...target, outcome: "not-waiting", message };
  }
  if (state.status === "pending") {
    if (action === "redrive") {
      return { ...target, outcome: "not-waiting", message: "it waits for nothing: it was redriven already, runs, or is about to" };
    }
    if (anyPlace) return { state, etag: blob.etag };
    const head = await headOf(context, target);
    if (head !== target.id) {
      const which = head === undefined ? "it is finished" : `event ${head} of its stream comes first`;
      return { ...target, outcome: head === undefined ? "finished" : "not-head", message: which };
    }
  }
  return { state, etag: blob.etag };
}

/** The oldest unfinished event of the stream. */
async function headOf(context: OperationsContext, { subscription, orderId }: DecisionTarget): Promise<EventId | undefined> {
  const order = encodeOrderId(orderId);
  const { streams } = await listPendingStreams(context, { subscription, order });
  const progress = progressOfLease(await context.storage.leases.read(order));
  return splitGhosts(streams[0]?.events ?? [], streamProgress(progress, subscription)).pending[0]?.id;
}

/** G6: its stream is done with it, whether it is archived by now or not. */
async function hasPassed(
  { storage }: OperationsContext,
  { subscription, orderId, id }: DecisionTarget,
  sequence: number,
): Promise<boolean> {
  const progress = progressOfLease(await storage.leases.read(encodeOrderId(orderId)));
  return isFinished({ id, sequence }, streamProgress(progress, subscription));
}

function passed(target: DecisionTarget, archived: Metadata | undefined): DecisionResult {
  if (archived !== undefined) return finished(target, archived);
  return { ...target, outcome: "finished", message: "its stream is done with it; it is about to be archived" };
}

function finished(target: DecisionTarget, archived: Metadata | undefined): DecisionResult {
  if (archived === undefined) return { ...target, outcome: "finished", message: "it is neither pending nor archived any more" };
  const { outcome = "handled", finishedat, decidedby, decisionreason } = archived;
  const by = decidedby === undefined ? "" : ` by ${printable(decodeMetadataText(decidedby))}`;
  const why = decisionreason === undefined ? "" : `: ${printable(decodeMetadataText(decisionreason))}`;
  return { ...target, outcome: "finished", message: `it was ${printable(outcome)}${by} at ${printable(finishedat ?? "?")}${why}` };
}

function recorded(target: DecisionTarget, decision: Decision): DecisionResult {
  return { ...target, outcome: "recorded", message: `recorded: ${decision.action}`, decision };
}

function decidedText({ action, actor, at, reason }: Decision): string {
  return `${printable(actor)} decided at ${printable(at)} to ${action} it: ${printable(reason)}`;
}

function blobName({ subscription, orderId, id }: DecisionTarget): string {
  return eventBlobName(subscription, encodeOrderId(orderId), id);
}
