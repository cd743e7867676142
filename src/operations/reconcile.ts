/**
 * Reconciling (design §7, C4): finds orders whose committed events nobody relays, in the orders table alone, and wakes them. That takes two
 * faults (the queue was down and the producer died), so it may be slow: it goes through the table a part at a time.
 */
import type { Clock } from "../core/clock.ts";
import { silentLogger, type Logger } from "../core/logger.ts";
import { wholeNumber, type NumberBounds } from "../core/options.ts";
import { decodeOrderKey } from "../core/order-id.ts";
import type { CallOptions, OutboxScan, Storage } from "../core/ports.ts";
import { encodeWakeUp } from "../core/wake-up.ts";
import { systemClock } from "../system/clock.ts";
import { keepPlace, scanOn } from "./cursor.ts";
import { inLanes } from "./lanes.ts";
import { recordUnrelayed } from "./metrics.ts";
import { WakeMemory } from "./wake-memory.ts";

export interface ReconcilerOptions {
  readonly storage: Storage;
  /**
   * Younger outbox entities are left to their own wake-up, which fires after the producer's `safetyDelayMs` at the latest; at least as long
   * as that. Judged by the clock of the service. Default 60,000; 0 to 86,400,000 ms.
   */
  readonly safetyDelayMs?: number;
  readonly clock?: Clock;
  readonly logger?: Logger;
}

export interface ReconcileOptions extends CallOptions {
  /** How much of the table one run looks at: pages of up to 1,000 outbox entities. Default 10; 1 to 10,000. */
  readonly maxPages?: number;
  /** Say how many it would wake, send nothing and keep no place. Default false. */
  readonly dryRun?: boolean;
}

export interface ReconcileResult {
  /** Outbox entities seen. */
  readonly seen: number;
  /** Those of them that are older than the safety delay. */
  readonly overdue: number;
  /** Orders that got a wake-up, or would get one. */
  readonly woken: number;
  /** True at the end of the table: the next run begins anew. False: it goes on where this one stopped. */
  readonly complete: boolean;
}

/** Keeps in mind whom it woke, so let it live as long as the process. */
export interface Reconciler {
  /**
   * One bounded run. Its place is kept when all its wake-ups are sent: after a failure the next run looks at the same part again. Several at
   * once are harmless.
   *
   * @throws `invalid-option`; what storage throws; `aborted`
   */
  reconcile(options?: ReconcileOptions): Promise<ReconcileResult>;
}

const LANES = 16;

export const RECONCILE_BOUNDS: Readonly<Record<"safetyDelayMs" | "maxPages", NumberBounds>> = {
  safetyDelayMs: { default: 60_000, min: 0, max: 86_400_000 },
  maxPages: { default: 10, min: 1, max: 10_000 },
};

/** @throws `invalid-option` */
export function createReconciler(options: ReconcilerOptions): Reconciler {
  const { storage, clock = systemClock, logger = silentLogger } = options;
  const safetyDelayMs = wholeNumber("safetyDelayMs", options.safetyDelayMs, RECONCILE_BOUNDS.safetyDelayMs);
  const memory = new WakeMemory(clock);

  return {
    async reconcile({ maxPages: givenPages, dryRun = false, ...callOptions } = {}) {
      const maxPages = wholeNumber("maxPages", givenPages, RECONCILE_BOUNDS.maxPages);
      const scan = (from: string | undefined): Promise<OutboxScan> => storage.orders.scanOutbox(from, maxPages, callOptions);
      const { entities, next } = await scanOn(storage.orders, "reconcile", scan, callOptions);
      // Before anything is sent: while the queue is down, this is what tells of commits that nobody relays.
      recordUnrelayed(entities.reduce((oldestMs, { ageMs }) => Math.max(oldestMs, ageMs), 0));
      const overdue = entities.filter(({ ageMs }) => ageMs > safetyDelayMs);
      // The oldest entity of an order alone is the reason: a busy order with new ones behind it is still the same trouble.
      const oldest = [...Map.groupBy(overdue, ({ order }) => order)].map(([order, [first]]) => [order, [first!.id]] as const);
      const asleep = oldest.filter(([order, reason]) => memory.mayWake(order, reason));
      if (dryRun) return { seen: entities.length, overdue: overdue.length, woken: asleep.length, complete: next === undefined };
      await inLanes(asleep, LANES, async ([order, reason]) => {
        const orderId = decodeOrderKey(order);
        if (orderId === undefined) return; // No scan gives such a key.
        await storage.wakeUps.send(encodeWakeUp(orderId), 0, callOptions);
        memory.wasWoken(order, reason);
      });
      await keepPlace(storage.orders, "reconcile", next, callOptions);
      if (asleep.length > 0) logger.info("orders with events that nobody relayed were woken", { orders: asleep.length });
      return { seen: entities.length, overdue: overdue.length, woken: asleep.length, complete: next === undefined };
    },
  };
}
