/** What must fit into the time that host.json gives a function. */
import { OutboxError } from "../../core/errors.ts";
import { MAX_HIDDEN_MS } from "../../core/ports.ts";
import type { Subscription } from "../../core/workflow.ts";

/** `functionTimeout` of host.json; a test holds them together. Over it the host ends the worker process, and all its rounds with it. */
export const FUNCTION_TIMEOUT_MS = 600_000;
/** For the lease, the relay, what a round writes last, and the wake-up that follows it. */
export const ROUND_MARGIN_MS = 30_000;
/** A sweep, reconcile or cleanup is ended after this; its next tick goes on. */
export const TICK_BUDGET_MS = 240_000;
/** The front end gives up on an HTTP request after 230 s, whatever host.json says. */
export const REQUEST_BUDGET_MS = 200_000;

/** No wake-up comes back sooner, whatever the round asks for (W6), nor later than the queue can hide it. */
export function hiddenMsOf(retryInMs: number): number {
  return Math.min(Math.max(retryInMs, 1_000), MAX_HIDDEN_MS);
}

/**
 * A handler may be started at the very end of the round's time budget, and must be over before the host loses patience.
 *
 * @throws `invalid-option`
 */
export function assertTimeoutsFit(subscriptions: readonly Subscription[], timeBudgetMs: number): void {
  const longestMs = FUNCTION_TIMEOUT_MS - ROUND_MARGIN_MS - timeBudgetMs;
  for (const { name, retry, retryByType } of subscriptions) {
    for (const { timeoutMs } of [retry, ...Object.values(retryByType)]) {
      if (timeoutMs <= longestMs) continue;
      throw new OutboxError(
        "invalid-option",
        `subscription ${name}: timeoutMs is ${timeoutMs}: at most ${longestMs} fits functionTimeout of host.json (${FUNCTION_TIMEOUT_MS}) ` +
          `beside ORDERED_OUTBOX_TIME_BUDGET_MS (${timeBudgetMs}) and ${ROUND_MARGIN_MS} for the rest; run it with \`ordered-outbox work\` instead`,
      );
    }
  }
}
