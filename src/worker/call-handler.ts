import { OutboxError } from "../core/errors.ts";
import type { RetryPolicy } from "../core/retry.ts";
import type { AnyWorkflow, HandledEvent, Subscription } from "../core/workflow.ts";
import { inHandlerSpan } from "../system/tracing.ts";
import type { HeadContext } from "./round-options.ts";

/**
 * Calls the handler. Ends when it does, or with its time; one that ignores its signal goes on unwatched, its event counts as failed.
 *
 * @returns false if the subscription, asked again, does not want the event after all
 * @throws what the handler throws, or `timeout`
 */
export async function callHandler(
  context: HeadContext,
  subscription: Subscription,
  event: HandledEvent<AnyWorkflow>,
  start: { readonly attempt: number; readonly undecided: boolean; readonly policy: RetryPolicy },
): Promise<boolean> {
  // The predicate threw at the relay: now is the time to ask it again, as a part of the handling.
  if (start.undecided && !subscription.wants(event)) return false;
  const { timeoutMs } = start.policy;
  const over = new AbortController();
  const ended = new AbortController();
  const timeout = context.clock.sleep(timeoutMs, ended.signal).then(
    () => {
      const error = new OutboxError("timeout", `the handler of ${subscription.name} took longer than ${timeoutMs} ms`);
      over.abort(error);
      throw error;
    },
    () => undefined,
  );
  const signal = AbortSignal.any([context.lease.lost, context.stop, over.signal]);
  const { attempt } = start;
  // Before the handler can change its event.
  const { orderId, id: eventId, type, sequence, traceparent, tracestate } = event;
  const spanned = { workflow: context.workflow.name, subscription: subscription.name, orderId, eventId, type, sequence, attempt };
  try {
    await inHandlerSpan({ ...spanned, traceparent, tracestate }, () => {
      const handling = (async () => subscription.handle(event, { subscription: subscription.name, attempt, signal }))();
      // Whatever it throws after its time is over, nobody waits for it.
      handling.catch(() => undefined);
      return Promise.race([handling, timeout]);
    });
  } finally {
    ended.abort();
  }
  return true;
}
