/** What the sweep and the reconcile know becomes gauges. */
import { counter, gauge } from "../system/metrics.ts";

/** How one subscription stands. */
export interface SubscriptionFigures {
  readonly subscription: string;
  /** Events that are relayed and not finished. What is still in an order's outbox is not counted. */
  readonly pending: number;
  /** Orders whose head waits for its next attempt. */
  readonly parked: number;
  /** Orders whose head is a dead letter that waits for a human. */
  readonly blocked: number;
  /** Of the pending event that waits longest; 0 without any. See `pendingAgeMs`. */
  readonly oldestAgeMs: number;
  /** Dead letters, those that the stream has skipped included. */
  readonly dead: number;
}

/** Reports figures. A gauge keeps its last value: a subscription that has nothing to show any more is set to 0. */
export class FigureReporter {
  readonly #reported = new Set<string>();

  /** @param backlogOrders orders with pending events of any subscription */
  report(figures: readonly SubscriptionFigures[], backlogOrders: number): void {
    gauge("outbox_backlog_orders").record(backlogOrders);
    const missing = new Set(this.#reported);
    for (const each of figures) {
      this.#reported.add(each.subscription);
      missing.delete(each.subscription);
      record(each);
    }
    for (const subscription of missing) record({ subscription, pending: 0, parked: 0, blocked: 0, oldestAgeMs: 0, dead: 0 });
  }
}

function record({ subscription, pending, parked, blocked, oldestAgeMs, dead }: SubscriptionFigures): void {
  const attributes = { subscription };
  gauge("outbox_pending_count").record(pending, attributes);
  gauge("outbox_parked_count").record(parked, attributes);
  gauge("outbox_blocked_count").record(blocked, attributes);
  gauge("outbox_oldest_age").record(oldestAgeMs / 1000, attributes);
  gauge("outbox_dead_count").record(dead, attributes);
}

/** @param oldestAgeMs of the outbox entity that waits longest, of those that the run met; 0 without any */
export function recordUnrelayed(oldestAgeMs: number): void {
  gauge("outbox_unrelayed_oldest_age").record(oldestAgeMs / 1000);
}

export function recordSweep(): void {
  counter("outbox_sweep_total").add(1);
}
