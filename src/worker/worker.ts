/** From a wake-up to rounds: takes the order's lease, works, gives it back and looks once more (design §5). */
import type { Clock } from "../core/clock.ts";
import type { Pause } from "../core/controls.ts";
import { describeError, isOutboxError } from "../core/errors.ts";
import { nextEventId } from "../core/event-id.ts";
import { MAX_LEASE_MS, MIN_LEASE_MS } from "../core/lease-time.ts";
import { silentLogger, type Logger } from "../core/logger.ts";
import { wholeNumber } from "../core/options.ts";
import { encodeOrderId, parseOrderId, type OrderId, type OrderKey } from "../core/order-id.ts";
import type { LeaseBlob, OrderAndOutbox, Storage } from "../core/ports.ts";
import { encodeWakeUp } from "../core/wake-up.ts";
import { assertSubscriptions, type AnyWorkflow, type Subscription } from "../core/workflow.ts";
import { systemClock } from "../system/clock.ts";
import { workerMetrics } from "../system/metrics.ts";
import { Breakers, type BreakerOptions } from "./breakers.ts";
import { EndedStarts } from "./ended-starts.ts";
import { HeldLease, type LeaseOptions } from "./held-lease.ts";
import { LetGo } from "./let-go.ts";
import { PauseCache } from "./pause-cache.ts";
import { Quarantine } from "./quarantine.ts";
import type { RoundResult, Worker } from "./round-result.ts";
import type { RoundInput, RoundOptions, RoundOutcome } from "./round-options.ts";
import { runRound } from "./round.ts";
import { Slots } from "./slots.ts";
import { SwitchOff } from "./switch-off.ts";
import { Wakeable } from "./wakeable.ts";

export interface WorkerOptions {
  readonly workflow: AnyWorkflow;
  readonly subscriptions: readonly Subscription[];
  readonly storage: Storage;
  readonly lease?: {
    /** Lease time. Default 30,000; 15,000 to 60,000 (https://learn.microsoft.com/rest/api/storageservices/lease-blob). */
    readonly durationMs?: number;
  };
  /** No event is started later than this after the wake-up; what is left gets another one. Default 240,000; 1,000 to 3,600,000. */
  readonly timeBudgetMs?: number;
  /** After storage has failed, the order is looked at again after this time. Default 10,000; 1,000 to 3,600,000. */
  readonly retryDelayMs?: number;
  /** What needs a human or a deployment is looked at again after this time. Default 60,000; 1,000 to 3,600,000. */
  readonly recheckDelayMs?: number;
  /**
   * Circuit breaker of each subscription: opens after `failures` (default 10; 1 to 1,000) in a row of different orders, for `openMs`
   * (default 30,000; 1,000 to 600,000). False: never.
   */
  readonly breaker?: { readonly failures?: number; readonly openMs?: number } | false;
  /** How often a round looks for new commits while a handler of another subscription runs. Default 1,000; 100 to 60,000. */
  readonly pollMs?: number;
  readonly clock?: Clock;
  readonly random?: () => number;
  readonly logger?: Logger;
}

/** An order that this worker has to itself. */
interface TakenOrder {
  readonly lease: HeldLease;
  /** What the lease was acquired on. */
  readonly blob: LeaseBlob;
  /** What was in the table when it was acquired, if that is known. */
  readonly found: OrderAndOutbox | undefined;
}

/** How often the lease blob may change under us (created, deleted, written by another round) before the wake-up is put back. */
const MAX_ACQUIRE_TRIES = 5;

/** @throws `invalid-option` */
export function createWorker(options: WorkerOptions): Worker {
  const { storage, subscriptions } = options;
  assertSubscriptions(options.workflow, subscriptions);
  const clock = options.clock ?? systemClock;
  const logger = options.logger ?? silentLogger;
  const random = options.random ?? Math.random;
  const leaseOptions: LeaseOptions = {
    leases: storage.leases,
    clock,
    logger,
    durationMs: wholeNumber("lease.durationMs", options.lease?.durationMs, { default: 30_000, min: MIN_LEASE_MS, max: MAX_LEASE_MS }),
  };
  const timeBudgetMs = wholeNumber("timeBudgetMs", options.timeBudgetMs, { default: 240_000, min: 1_000, max: 3_600_000 });
  const pauseCache = new PauseCache(storage.orders, clock, logger);
  const running = new Map<OrderId, Wakeable>();
  /** Orders that the host handles at once, as far as it has said. */
  let capacity: number | undefined;
  const slots = new Slots({
    clock,
    random,
    limit: (subscription) => concurrencyOf(subscriptions, subscription, capacity),
    runsHere: (orderId) => running.has(orderId),
    wake: (orderId) => wake(orderId),
  });
  const roundOptions: RoundOptions = {
    workflow: options.workflow,
    subscriptions,
    storage,
    clock,
    logger,
    random,
    breakers: new Breakers(resolveBreaker(options.breaker)),
    quarantine: new Quarantine(),
    endedStarts: new EndedStarts(),
    slots,
    switchOff: new SwitchOff({ storage, clock, random, logger, pauses: pauseCache }),
    retryDelayMs: wholeNumber("retryDelayMs", options.retryDelayMs, { default: 10_000, min: 1_000, max: 3_600_000 }),
    recheckDelayMs: wholeNumber("recheckDelayMs", options.recheckDelayMs, { default: 60_000, min: 1_000, max: 3_600_000 }),
    pollMs: wholeNumber("pollMs", options.pollMs, { default: 1_000, min: 100, max: 60_000 }),
  };
  const letGo = new LetGo();
  let stopping = false;

  async function handle(orderId: OrderId, wakeable: Wakeable, stop: AbortSignal): Promise<RoundResult> {
    const order = encodeOrderId(orderId);
    const endsAt = clock.monotonic() + timeBudgetMs;
    const mayStart = (): boolean => !stopping && !stop.aborted && clock.monotonic() < endsAt;
    const problems = new Set<string>();
    let handled = 0;
    const result = (status: RoundResult["status"], retryInMs: number): RoundResult => ({
      status,
      retryInMs,
      handled,
      problems: [...problems],
    });
    for (;;) {
      if (!mayStart()) return result("left", 0);
      wakeable.takePoke();
      const taken = await takeLease(order);
      if (taken === "taken") return result("taken", leaseOptions.durationMs);
      if (taken === "moving") return result("left", 1_000);
      const { lease, blob, found } = taken;
      const livingUpTo = letGo.take(order);
      const pauses = (): Promise<readonly Pause[] | undefined> => pauseCache.current();
      const freshPauses = (): Promise<readonly Pause[] | undefined> => pauseCache.fresh();
      // Asked for now, so that the first event need not wait for it. Never rejects.
      void pauses();
      const outcome = await underLease({ orderId, order, lease, blob, found, livingUpTo, mayStart, stop, wakeable, pauses, freshPauses });
      handled += outcome.handled;
      for (const problem of outcome.problems) problems.add(problem);
      if (lease.lost.aborted || !outcome.clean) return result("left", leaseOptions.durationMs);
      // The look after the release: a wake-up that found the lease taken went away quietly and relies on it (C09).
      const { lookAgainAfter } = outcome;
      const { outbox } = await storage.orders.readOutbox(order);
      if (lookAgainAfter !== undefined && outbox.some(({ sequence }) => sequence > lookAgainAfter)) continue;
      if (wakeable.takePoke()) continue;
      // In the same tick as the question above: a later wake-up starts a round of its own, so no poke is lost.
      running.delete(orderId);
      return outcome.retryInMs === undefined ? result("done", 0) : result("left", outcome.retryInMs);
    }
  }

  /** A slot is free for the order: its round here looks again, or else it gets one, here or in another process (W7). */
  async function wake(orderId: OrderId): Promise<void> {
    const present = running.get(orderId);
    if (present !== undefined) return present.poke();
    try {
      await storage.wakeUps.send(encodeWakeUp(orderId), 0);
    } catch (error) {
      logger.warn("an order that waits for a slot could not be woken; it looks again by itself", { orderId, error: describeError(error) });
    }
  }

  async function underLease(input: Omit<RoundInput, "mark">): Promise<RoundOutcome> {
    const { lease, order } = input;
    let outcome: RoundOutcome | undefined;
    try {
      outcome = await runRound(roundOptions, { ...input, mark: nextEventId(undefined, clock.now(), random) });
      if (outcome.failure !== undefined) throw outcome.failure;
      return outcome;
    } finally {
      // W3: a lease that runs out tells the next holder to look for what is left over.
      if (outcome?.clean !== true) letGo.add(order, outcome?.livingUpTo ?? input.livingUpTo);
      await (outcome?.clean === true ? lease.release() : lease.abandon());
    }
  }

  /** `taken`: somebody else holds it. `moving`: it could not be had for reasons that pass. */
  async function takeLease(order: OrderKey): Promise<TakenOrder | "taken" | "moving"> {
    for (let tries = 0; tries < MAX_ACQUIRE_TRIES; tries++) {
      const startedAt = clock.monotonic();
      try {
        const blob = (await storage.leases.read(order)) ?? (await storage.leases.create(order));
        if (blob.state === "taken") return "taken";
        // W3: the outbox is read beside the acquisition, one round trip less before the first event. It is as good as read afterwards: whoever held
        // the lease in between has left its progress as it was, so he has finished nothing (W2); and left nothing behind, for he gave it back
        // before it could run out.
        const [acquired, read] = await Promise.allSettled([HeldLease.acquire(order, blob, leaseOptions), storage.orders.readOutbox(order)]);
        if (acquired.status === "rejected") throw acquired.reason;
        const isSound = read.status === "fulfilled" && clock.monotonic() - startedAt < MIN_LEASE_MS;
        return { lease: acquired.value, blob, found: isSound ? read.value : undefined };
      } catch (error) {
        if (isOutboxError(error, "lease-taken")) return "taken";
        // Created by another worker, written by a round in between, or deleted by cleanup: look again (C34).
        if (!isOutboxError(error, "already-exists", "precondition-failed", "not-found")) throw error;
        logger.debug("the lease blob changed while it was being taken", { order, error: describeError(error) });
      }
    }
    return "moving";
  }

  return {
    async handle(rawOrderId, handleOptions = {}) {
      const orderId = parseOrderId(rawOrderId);
      capacity = handleOptions.capacity ?? capacity;
      const present = running.get(orderId);
      if (present !== undefined) {
        present.poke();
        return { status: "joined", retryInMs: leaseOptions.durationMs, handled: 0, problems: [] };
      }
      const wakeable = new Wakeable();
      running.set(orderId, wakeable);
      try {
        const result = await handle(orderId, wakeable, handleOptions.signal ?? new AbortController().signal);
        workerMetrics.roundEnded(result);
        return result;
      } finally {
        if (running.get(orderId) === wakeable) running.delete(orderId);
      }
    },
    stopStarting() {
      stopping = true;
      slots.stop();
    },
  };
}

/** Handlers of a subscription at once; undefined: no limit. A subscription that shares the host leaves a quarter of it to the others (G4). */
function concurrencyOf(subscriptions: readonly Subscription[], name: string, capacity: number | undefined): number | undefined {
  const own = subscriptions.find((subscription) => subscription.name === name)?.concurrency;
  if (own !== undefined || capacity === undefined || subscriptions.length === 1) return own;
  return Math.max(1, Math.floor((capacity * 3) / 4));
}

function resolveBreaker(options: WorkerOptions["breaker"]): BreakerOptions | undefined {
  if (options === false) return undefined;
  return {
    failures: wholeNumber("breaker.failures", options?.failures, { default: 10, min: 1, max: 1_000 }),
    openMs: wholeNumber("breaker.openMs", options?.openMs, { default: 30_000, min: 1_000, max: 600_000 }),
  };
}
