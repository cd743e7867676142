import type { OrderKey } from "../core/order-id.ts";

/** Another process may be the next to take such an order: then it stays in mind here, so there is a bound. */
const MAX_LET_GO = 10_000;

/**
 * Orders whose lease this process let run out, alive, each with the sequence up to which no handler has ended with its process (W4): who has the
 * lease next finds it as a dead holder leaves it. Events that were relayed later than that are somebody else's, who may have died since.
 */
export class LetGo {
  readonly #livingUpTo = new Map<OrderKey, number>();

  add(order: OrderKey, livingUpTo: number): void {
    if (livingUpTo > 0 && this.#livingUpTo.size < MAX_LET_GO) this.#livingUpTo.set(order, livingUpTo);
  }

  /** 0 if this process knows nothing. It is told once. */
  take(order: OrderKey): number {
    const livingUpTo = this.#livingUpTo.get(order) ?? 0;
    this.#livingUpTo.delete(order);
    return livingUpTo;
  }
}
