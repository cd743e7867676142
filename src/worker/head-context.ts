/** What the handling of a stream's head needs from its round. */
import type { Pause } from "../core/controls.ts";
import type { Clock } from "../core/clock.ts";
import type { Logger } from "../core/logger.ts";
import type { OrderId, OrderKey } from "../core/order-id.ts";
import type { Storage } from "../core/ports.ts";
import type { AnyWorkflow } from "../core/workflow.ts";
import type { Breakers } from "./breakers.ts";
import type { HeldLease } from "./held-lease.ts";
import type { Quarantine } from "./quarantine.ts";

export interface HeadContext {
  readonly workflow: AnyWorkflow;
  readonly storage: Storage;
  readonly clock: Clock;
  readonly logger: Logger;
  /** Numbers in [0, 1), for jitter. */
  readonly random: () => number;
  readonly breakers: Breakers;
  readonly quarantine: Quarantine;
  /** What operators have paused, as of not long ago (F5). */
  readonly pauses: () => Promise<readonly Pause[]>;
  readonly orderId: OrderId;
  readonly order: OrderKey;
  readonly lease: HeldLease;
  /** Aborts when the host stops for good. */
  readonly stop: AbortSignal;
  readonly mayStart: () => boolean;
  /** What needs a human or a deployment is looked at again after this time. */
  readonly recheckDelayMs: number;
}
