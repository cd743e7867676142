/**
 * What the two queue triggers do with a message. The host deletes it when the function ends well; when it throws, the message comes back after
 * `visibilityTimeout` of host.json, and goes to the poison queue after `maxDequeueCount` of these. So nothing is thrown that can be seen to
 * otherwise (C10, C33).
 */
import { describeError } from "../../core/errors.ts";
import type { OrderId } from "../../core/order-id.ts";
import type { Logger } from "../../core/logger.ts";
import type { Worker } from "../../worker/round-result.ts";
import { hiddenMsOf } from "./function-timeout.ts";
import type { HiddenCopies } from "./hidden-copies.ts";
import { orderIdOf } from "./order-id-of.ts";

export interface WakeUpContext {
  readonly worker: Worker;
  readonly copies: Pick<HiddenCopies, "send">;
  readonly logger: Logger;
  readonly random: () => number;
  /** Aborts the rounds when the app ends. */
  readonly aborting: AbortSignal;
}

export interface WakeUpMessage {
  /** As the library hands it over. */
  readonly entry: unknown;
  readonly messageId: string;
  readonly dequeueCount: number;
}

/** After a round that failed: half of it to all of it. */
const ROUND_FAILED_MS = 60_000;
/** A message that failed five times: what ails its order is not over in a minute. The sweep and reconcile come sooner for their part. */
const POISONED_MS = 300_000;

/** One round for the order. Throws only if what is left could not be put back into the queue. */
export async function handleWakeUp(context: WakeUpContext, message: WakeUpMessage): Promise<void> {
  const orderId = orderIdOrDrop(context, message);
  if (orderId === undefined) return;
  const againInMs = await runRound(context, orderId, message.dequeueCount);
  if (againInMs !== undefined) await context.copies.send(orderId, againInMs);
}

/** `batchSize` + `newBatchThreshold` of host.json: what the listener of one instance hands over at most. A test holds the two together. */
export const ROUNDS_AT_ONCE = 24;

/** F6: the host gave up on the message, which says nothing about any event: the order is woken again later. */
export async function revivePoison(context: Pick<WakeUpContext, "copies" | "logger">, message: WakeUpMessage): Promise<void> {
  const orderId = orderIdOrDrop(context, message);
  if (orderId === undefined) return;
  await context.copies.send(orderId, POISONED_MS);
  context.logger.warn("the host gave up on a wake-up; its order is woken again later", { orderId, hiddenMs: POISONED_MS });
}

/** The time after which to look again, in ms, or undefined if the wake-up is used up. */
async function runRound(context: WakeUpContext, orderId: OrderId, dequeueCount: number): Promise<number | undefined> {
  const { worker, logger, random, aborting } = context;
  try {
    const { status, retryInMs, problems } = await worker.handle(orderId, { signal: aborting, capacity: ROUNDS_AT_ONCE });
    if (problems.length > 0) logger.warn("an order has problems", { orderId, status, problems: problems.length, first: problems[0] });
    // `joined`: the round that runs in this process looks again, and its own call sees to what it leaves.
    return status === "done" || status === "joined" ? undefined : hiddenMsOf(retryInMs);
  } catch (error) {
    const retryInMs = Math.round(ROUND_FAILED_MS * (1 - random() / 2));
    logger.error("a round failed and will be repeated", { orderId, dequeueCount, retryInMs, error: describeError(error) });
    return retryInMs;
  }
}

/** C23: what names no order would come back five times for nothing. The sweep and reconcile cover the order that may have been meant. */
function orderIdOrDrop({ logger }: Pick<WakeUpContext, "logger">, { entry, messageId }: WakeUpMessage): OrderId | undefined {
  try {
    return orderIdOf(entry);
  } catch (error) {
    logger.error("a wake-up names no order and is dropped", { messageId, error: describeError(error) });
    return undefined;
  }
}
