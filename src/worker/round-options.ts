/** What a round is given, and what it tells. */
import type { Clock } from "../core/clock.ts";
import type { Pause } from "../core/controls.ts";
import type { EventId } from "../core/event-id.ts";
import type { Logger } from "../core/logger.ts";
import type { OrderId, OrderKey } from "../core/order-id.ts";
import type { LeaseBlob, OrderAndOutbox, Storage } from "../core/ports.ts";
import type { AnyWorkflow, Subscription } from "../core/workflow.ts";
import type { Breakers } from "./breakers.ts";
import type { EndedStarts } from "./ended-starts.ts";
import type { HeldLease } from "./held-lease.ts";
import type { Quarantine } from "./quarantine.ts";
import type { Slots } from "./slots.ts";
import type { SwitchOff } from "./switch-off.ts";
import type { Wakeable } from "./wakeable.ts";

/** The same for all rounds of a worker. */
export interface RoundOptions {
  readonly workflow: AnyWorkflow;
  readonly subscriptions: readonly Subscription[];
  readonly storage: Storage;
  readonly clock: Clock;
  readonly logger: Logger;
  /** Numbers in [0, 1), for jitter. */
  readonly random: () => number;
  readonly breakers: Breakers;
  readonly quarantine: Quarantine;
  readonly endedStarts: EndedStarts;
  readonly slots: Slots;
  readonly switchOff: SwitchOff;
  /** After storage has failed the order is looked at again after this time. */
  readonly retryDelayMs: number;
  /** What needs a human or a deployment (a gap, a missing handler) is looked at again after this time. */
  readonly recheckDelayMs: number;
  /** How often a running round looks for new commits of its order while a stream is idle (W9). */
  readonly pollMs: number;
}

/** One order under one lease. */
export interface RoundInput {
  readonly orderId: OrderId;
  readonly order: OrderKey;
  readonly lease: HeldLease;
  /** What the lease was acquired on. */
  readonly blob: LeaseBlob;
  /** What was in the table when the lease was acquired. Undefined: the round has to ask. */
  readonly found: OrderAndOutbox | undefined;
  /** Made when this round began: operators see its time as that since when the lease is held. */
  readonly mark: EventId;
  /** May a further event start: false once the host stops or the time budget is spent. */
  readonly mayStart: () => boolean;
  /** Aborts when the host stops for good. */
  readonly stop: AbortSignal;
  /** No start of an event up to this sequence has ended with its process, or it was counted (W4). 0: nothing is known. */
  readonly livingUpTo: number;
  /** What operators have paused (F5), as of not long ago. A round may take longer than that. Undefined: unknown, so nothing may start. */
  readonly pauses: () => Promise<readonly Pause[] | undefined>;
  /** The same, as of now. */
  readonly freshPauses: () => Promise<readonly Pause[] | undefined>;
  /** Pokes from wake-ups of the same order within the process. */
  readonly wakeable: Wakeable;
}

/** What the handling of a stream's head needs from its round. */
export type HeadContext = Pick<
  RoundOptions,
  | "workflow"
  | "storage"
  | "clock"
  | "logger"
  | "random"
  | "breakers"
  | "quarantine"
  | "endedStarts"
  | "slots"
  | "switchOff"
  | "retryDelayMs"
  | "recheckDelayMs"
> &
  Pick<RoundInput, "orderId" | "order" | "lease" | "mayStart" | "stop" | "pauses" | "freshPauses">;

export interface RoundOutcome {
  readonly handled: number;
  /** Undefined if nothing is left that this round knows of. */
  readonly retryInMs: number | undefined;
  readonly problems: readonly string[];
  /** Entities of a greater sequence are news. Undefined if the order itself stops the round: another look would find it as it is. */
  readonly lookAgainAfter: number | undefined;
  /** False if the lease must run out rather than be given back, so that the next holder lists what is left over (W3). */
  readonly clean: boolean;
  /** As {@link RoundInput.livingUpTo}, for the next one of this process, if the lease runs out. */
  readonly livingUpTo: number;
  /** What went wrong for all of its streams, a lost lease aside. */
  readonly failure?: unknown;
}
