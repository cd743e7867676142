/** Takes an order from a holder that neither finishes nor dies: its lease is renewed no more. */
import { encodeOrderId, parseOrderId, type OrderId } from "../core/order-id.ts";
import { audited } from "./audit-log.ts";
import { assertOperator, type ChangeOptions, type OperationsContext, type Operator } from "./context.ts";
import { assertKnownOrder } from "./order-trace.ts";
import { tryWakeUp } from "./wake.ts";

export interface UnlockResult {
  readonly orderId: OrderId;
  /** `not-held`: there was no lease to break, and nothing was changed. `would-break`: a dry run. */
  readonly outcome: "broken" | "not-held" | "would-break";
  /** Of `broken`: about how long the lease still lasts, in ms, at most the lease time of its holder. No worker can take the order before. */
  readonly endsInMs?: number;
  /** What may happen now, for people. */
  readonly warning?: string;
}

const WARNING =
  "until the lease has ended its holder may go on and no other worker can take the order; a handler that still runs then may run on, and its event may run a second time beside it; nothing of what the old holder writes counts then";
/** `endsInMs` is in whole seconds of the service, and a wake-up that comes too early goes away. */
const TAKE_OVER_MARGIN_MS = 1_000;

/**
 * Breaks the lease, and sends a wake-up that shows when it has ended, so that another worker takes the order over. It lasts as long as it
 * would without a further renewal: its holder starts events until it notices, and the next must not begin beside it (G2). An expired lease
 * needs no breaking: any worker may take it.
 *
 * @throws `not-found` for an order that storage knows nothing of
 */
export async function unlockOrder(
  context: OperationsContext,
  rawOrderId: string,
  operator: Operator,
  options: ChangeOptions = {},
): Promise<UnlockResult> {
  assertOperator(operator);
  const orderId = parseOrderId(rawOrderId);
  const order = encodeOrderId(orderId);
  const { leases } = context.storage;
  const lease = await leases.read(order);
  if (lease === undefined) await assertKnownOrder(context, orderId);
  if (lease?.state !== "taken") return { orderId, outcome: "not-held" };
  if (options.dryRun === true) return { orderId, outcome: "would-break", warning: WARNING };
  return audited(context, { ...operator, action: "unlock", target: { orderId } }, async () => {
    const endsInMs = await leases.break(order);
    await tryWakeUp(context, orderId, endsInMs + TAKE_OVER_MARGIN_MS);
    return { orderId, outcome: "broken", endsInMs, warning: WARNING };
  });
}
