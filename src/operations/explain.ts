/** Why does this order not move? Gathers the facts; core/explain.ts judges them. */
import { isOutboxError } from "../core/errors.ts";
import { decodeEventBytes } from "../core/event.ts";
import { explainOrder, streamProgress, type Explanation, type StreamFacts } from "../core/explain.ts";
import { eventBlobName } from "../core/names.ts";
import type { OrderId } from "../core/order-id.ts";
import type { StreamProgress } from "../core/progress.ts";
import { splitGhosts } from "../core/stream.ts";
import type { AnyWorkflow, Subscription } from "../core/workflow.ts";
import type { OperationsContext } from "./context.ts";
import { listDeadLetters } from "./dead-letters.ts";
import { heldSince } from "./held-since.ts";
import { gatherOrder } from "./order-facts.ts";
import { listPauses } from "./pauses.ts";
import type { PendingStream } from "./pending-streams.ts";

/**
 * Costs one listing each of `events/` and `dead/`, and a handful of reads.
 *
 * @param options `deployed`: what the application's module exports, to tell events that no deployed handler wants
 * @throws `corrupt` if the order's progress can't be read
 */
export async function explain(
  context: OperationsContext,
  orderId: OrderId,
  options: { readonly deployed?: { readonly workflow: AnyWorkflow; readonly subscriptions: readonly Subscription[] } } = {},
): Promise<Explanation> {
  const { deployed } = options;
  const [pauses, { letters }, order] = await Promise.all([
    listPauses(context),
    listDeadLetters(context, { orderId }),
    gatherOrder(context, orderId, { readFinished: () => Promise.resolve(undefined) }),
  ]);
  const { found, progress, lease, settled } = order;
  const streams = await Promise.all(order.streams.map((stream) => factsOf(context, stream, streamProgress(progress, stream.subscription))));
  return explainOrder({
    orderId,
    nowMs: context.clock.now(),
    sequence: found.order?.sequence,
    outbox: found.outbox,
    lease: lease?.state,
    heldSinceMs: await heldSince(context, order.order, lease),
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
  });
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
