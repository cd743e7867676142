/** Why does this order not move? Gathers the facts; core/explain.ts judges them. */
import { isOutboxError } from "../core/errors.ts";
import { decodeEventBytes } from "../core/event.ts";
import { explainOrder, type Explanation, type OrderFacts, type StreamFacts } from "../core/explain.ts";
import { eventBlobName, UNROUTED } from "../core/names.ts";
import { parseOrderId } from "../core/order-id.ts";
import { streamProgress, type StreamProgress } from "../core/progress.ts";
import { splitGhosts } from "../core/stream.ts";
import type { AnyWorkflow, Subscription } from "../core/workflow.ts";
import { clockOf, type OperationsContext } from "./context.ts";
import { listDeadLetters } from "./dead-letters.ts";
import { eventIdsOf } from "./event-ids.ts";
import { listFinished } from "./finished-events.ts";
import { holderOf } from "./holder.ts";
import { inLanes } from "./lanes.ts";
import { gatherOrder } from "./order-facts.ts";
import { listPauses } from "./list-pauses.ts";
import type { PendingStream } from "./pending-streams.ts";

export interface ExplainOptions {
  /** What the application's module exports, to tell events that no deployed handler wants. */
  readonly deployed?: { readonly workflow: AnyWorkflow; readonly subscriptions: readonly Subscription[] };
}

const LANES = 8;

/**
 * Costs one listing each of `events/` and `dead/`, and a handful of reads; two small listings a subscription more for an order with a gap.
 *
 * @throws `corrupt` if the order's progress can't be read
 */
export async function explain(context: OperationsContext, rawOrderId: string, options: ExplainOptions = {}): Promise<Explanation> {
  const orderId = parseOrderId(rawOrderId);
  const { deployed } = options;
  const [pauses, { letters }, order] = await Promise.all([
    listPauses(context),
    listDeadLetters(context, { orderId }),
    gatherOrder(context, orderId, { readFinished: () => Promise.resolve(undefined) }),
  ]);
  const { found, progress, lease, settled } = order;
  const streams = await Promise.all(order.streams.map((stream) => factsOf(context, stream, streamProgress(progress, stream.subscription))));
  const holder = await holderOf(context, order.order, lease);
  const facts: OrderFacts = {
    orderId,
    nowMs: clockOf(context).now(),
    sequence: found.order?.sequence,
    outbox: found.outbox,
    lease: lease?.state,
    leaseBreaking: lease?.breaking === true,
    heldSinceMs: holder?.sinceMs,
    heldBy: holder?.process,
    progress,
    settled,
    streams,
    pauses,
    skipped: letters.filter(({ policy }) => policy === "skip").length,
    ...(deployed === undefined
      ? {}
      : {
          deployed: {
            subscriptions: new Set(deployed.subscriptions.map(({ name }) => name)),
            eventTypes: new Set(Object.keys(deployed.workflow.events)),
          },
        }),
  };
  const explanation = explainOrder(facts);
  if (![explanation.verdict, ...explanation.others].some(({ code }) => code === "gap")) return explanation;
  // Rare, and worth the listings: what one stream has lost, the archive of another may still name.
  const names = new Set([...order.streams.map(({ subscription }) => subscription), ...Object.keys(progress.streams), UNROUTED]);
  const finished = await inLanes([...names], LANES, (name) => listFinished(context, name, order.order));
  return explainOrder({ ...facts, eventIds: eventIdsOf({ ...order, finished }) });
}

async function factsOf(
  context: OperationsContext,
  { subscription, order, events }: PendingStream,
  progress: StreamProgress,
): Promise<StreamFacts> {
  const head = splitGhosts(events, progress).pending[0];
  const blob = head && (await context.storage.blobs.read("events", eventBlobName(subscription, order, head.id)));
  const headType = blob && typeOf(blob.bytes);
  return { subscription, pending: events, ...(headType === undefined ? {} : { headType }) };
}

function typeOf(bytes: Uint8Array): string | undefined {
  try {
    return decodeEventBytes(bytes).type;
  } catch (error) {
    if (isOutboxError(error, "corrupt")) return undefined;
    throw error;
  }
}
