/** Heads that come to their end without a handler, whether their subscription is deployed here or not (F3, F4, F10). */
import type { QueuedEvent } from "../core/stream.ts";
import { archiveDiscard } from "./archive-blob.ts";
import { enterDead, typeOf } from "./dead-index.ts";
import { eventEnd, type EventEnd } from "./head-end.ts";
import type { HeadContext } from "./round-options.ts";

/**
 * Discarded by an operator; or at an end that was recorded on its blob by a round which did not get as far as the progress.
 *
 * @param finishedTo sequence of the event that the stream has finished last. An event that is missing between them, and comes late after all, was
 *   never in the stream: the archive must not say that it was
 * @returns undefined if it needs a handler, or an operator
 */
export async function settle(
  context: Pick<HeadContext, "storage" | "clock" | "lease" | "orderId" | "order">,
  subscription: string,
  queued: QueuedEvent,
  finishedTo: number,
): Promise<EventEnd | undefined> {
  const { decision, ending, status, text } = queued;
  if (decision?.action === "discard") {
    const missing = queued.previous > finishedTo ? queued.previous : undefined;
    const event = { ...queued, previous: Math.min(queued.previous, finishedTo) };
    const archived = await archiveDiscard(context, subscription, event, decision, missing);
    return eventEnd(event, text, "discarded", { dropsDeadLetter: status === "blocked", decision, archived });
  }
  if (decision !== undefined || ending === undefined) return undefined;
  if (ending === "dead-lettered") {
    const type = await typeOf(context, subscription, queued);
    await enterDead(context, subscription, queued, { reason: queued.lastError ?? "unknown", type, policy: "skip" });
  }
  return eventEnd(queued, text, ending);
}
