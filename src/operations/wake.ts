/** Wake-ups by hand (W7): only a wake-up may start a round, and one too many does nothing. */
import { describeError } from "../core/errors.ts";
import { silentLogger } from "../core/logger.ts";
import { parseOrderId, type OrderId } from "../core/order-id.ts";
import { encodeWakeUp } from "../core/wake-up.ts";
import { audited } from "./audit-log.ts";
import { assertOperator, type ChangeOptions, type OperationsContext, type Operator } from "./context.ts";
import { assertKnownOrder } from "./order-trace.ts";

export interface WakeResult {
  readonly orderId: OrderId;
  /** `would-wake`: a dry run. */
  readonly outcome: "woken" | "would-wake";
}

export interface WakeOptions extends ChangeOptions {
  /** Send the wake-up although storage knows nothing of the order. Default false. */
  readonly force?: boolean;
}

/** Throws `not-found` for an order that storage knows nothing of; see {@link WakeOptions.force}. */
export async function wakeOrder(
  context: OperationsContext,
  rawOrderId: string,
  operator: Operator,
  options: WakeOptions = {},
): Promise<WakeResult> {
  assertOperator(operator);
  const orderId = parseOrderId(rawOrderId);
  if (options.force !== true) await assertKnownOrder(context, orderId);
  if (options.dryRun === true) return { orderId, outcome: "would-wake" };
  return audited(context, { ...operator, action: "wake", target: { orderId } }, async () => {
    await context.storage.wakeUps.send(encodeWakeUp(orderId), 0);
    return { orderId, outcome: "woken" };
  });
}

/**
 * For changes that have happened already: with the queue down the sweep finds the order a little later.
 *
 * @param hiddenMs when the wake-up shows, 0 to 7 days; default at once
 * @returns false if it could not be sent
 */
export async function tryWakeUp(
  { storage, logger = silentLogger }: OperationsContext,
  orderId: OrderId,
  hiddenMs: number = 0,
): Promise<boolean> {
  try {
    await storage.wakeUps.send(encodeWakeUp(orderId), hiddenMs);
    return true;
  } catch (error) {
    logger.warn("the wake-up could not be sent; the sweep will find the order", { orderId, error: describeError(error) });
    return false;
  }
}
