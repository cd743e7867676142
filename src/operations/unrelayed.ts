/**
 * Events that were committed and that no worker has relayed yet: they are in the table alone, so neither a listing of `events/` nor the sweep
 * sees them (reconcile does).
 *
 * Cost: the service reads every row of the table on the way. A page of the answer is one call and holds up to 1,000 outbox entities; it may
 * hold none, and a table of millions of rows takes thousands of them. Hence a bound.
 */
import { pendingAgeMs } from "../core/event-time.ts";
import type { EventId } from "../core/event-id.ts";
import { wholeNumber, type NumberBounds } from "../core/options.ts";
import { decodeOrderKey, type OrderId, type OrderKey } from "../core/order-id.ts";
import { assertGoesOn, clockOf, type OperationsContext } from "./context.ts";

export interface UnrelayedOrder {
  readonly order: OrderKey;
  readonly orderId: OrderId;
  readonly events: number;
  /** Of the oldest one. */
  readonly id: EventId;
  /** Since its commit, as {@link pendingAgeMs} tells it. */
  readonly ageMs: number;
}

export interface UnrelayedListing {
  /** The one whose event waits longest comes first. */
  readonly orders: readonly UnrelayedOrder[];
  /** False if the look ended before the end of the table: there may be more. */
  readonly complete: boolean;
}

/** How many pages of the table one look reads at most; 0 for none. */
export const OUTBOX_PAGES: NumberBounds = { default: 200, min: 0, max: 1_000_000 };

/** Pages between two looks at the signal. */
const STEP_PAGES = 10;

/**
 * @param maxPages see {@link OUTBOX_PAGES}
 * @throws `invalid-option`; what storage throws; `aborted`
 */
export async function listUnrelayed(context: OperationsContext, maxPages?: number): Promise<UnrelayedListing> {
  const found = new Map<OrderKey, UnrelayedOrder>();
  let left = wholeNumber("maxPages", maxPages, OUTBOX_PAGES);
  let from: string | undefined;
  let complete = false;
  while (left > 0 && !complete) {
    assertGoesOn(context, "the look at the table");
    const pages = Math.min(STEP_PAGES, left);
    const { entities, next } = await context.storage.orders.scanOutbox(from, pages, signalOf(context));
    for (const entity of entities) add(found, entity, clockOf(context).now());
    left -= pages;
    from = next;
    complete = next === undefined;
  }
  return { orders: [...found.values()].sort((a, b) => b.ageMs - a.ageMs), complete };
}

function signalOf({ signal }: OperationsContext): { readonly signal?: AbortSignal } {
  return signal === undefined ? {} : { signal };
}

/** The entities of an order come oldest first. */
function add(
  found: Map<OrderKey, UnrelayedOrder>,
  { order, id, ageMs }: { readonly order: OrderKey; readonly id: EventId; readonly ageMs: number },
  nowMs: number,
): void {
  const orderId = decodeOrderKey(order);
  if (orderId === undefined) return; // No scan gives such a key.
  const known = found.get(order);
  if (known === undefined) found.set(order, { order, orderId, events: 1, id, ageMs: pendingAgeMs(id, ageMs, nowMs) });
  else found.set(order, { ...known, events: known.events + 1 });
}
