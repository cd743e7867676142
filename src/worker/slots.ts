/**
 * How many handlers of a subscription run at once in this process (G4): a slow subscription must leave room for the others.
 *
 * An order that finds no slot gives its place in the host back at once and stands in line. When a slot becomes free, the first in line is woken:
 * by a poke if its round still runs here, else by a wake-up (W7), which any process may receive. So the slot is kept for nobody: whoever comes
 * first takes it, and while it stays free the next in line are woken. One whose own wake-up is due is no longer in line: it comes by itself,
 * here or elsewhere. A line that did not forget it would fill with orders that other processes have served.
 *
 * An order keeps its slot from one event to the next for {@link SLICE_MS}, then it stands in line, and goes on at once if nobody is before it:
 * neither does each short handler cost a round, nor does one order with a long backlog keep the others waiting.
 */
import type { Clock } from "../core/clock.ts";
import type { OrderId } from "../core/order-id.ts";
import { jitteredBackoff, type BackoffRange } from "./jittered-backoff.ts";

export interface SlotsContext {
  readonly clock: Clock;
  /** Numbers in [0, 1), for jitter. */
  readonly random: () => number;
  /** Slots of a subscription; undefined: as many as there are orders. */
  readonly limit: (subscription: string) => number | undefined;
  /** Does a round of the order run here? Then it hears of a free slot however long it waits. */
  readonly runsHere: (orderId: OrderId) => boolean;
  /** Gets a round of the order to look again, here or elsewhere. It may fail, but never rejects. */
  readonly wake: (orderId: OrderId) => Promise<void>;
}

/** No slot: look again after `retryInMs`, or as soon as `freed` aborts. */
export interface InLine {
  /** How many there are. */
  readonly slots: number;
  readonly retryInMs: number;
  readonly freed: AbortSignal;
}

interface Waiter {
  /** How often it has come in vain. */
  readonly tries: number;
  /** By the monotonic clock: then its own wake-up is due. */
  readonly until: number;
  readonly freed: AbortController;
}

interface Line {
  /** Since when each order has its slot, by the monotonic clock. */
  readonly holders: Map<OrderId, number>;
  /** In the order in which they came. */
  readonly waiters: Map<OrderId, Waiter>;
  /** Are more to be woken soon, should slots stay free? */
  goesOn: boolean;
}

/** How long an order goes on with its slot before it asks for one again. */
export const SLICE_MS = 10_000;
/** How long a slot stays free before the next in line is woken. What a round takes until it starts its event. */
const STAYS_FREE_MS = 500;
/** Unless woken: a wake-up lost, or a slot of another process. */
const LOOK_AGAIN: BackoffRange = { minMs: 5_000, maxMs: 60_000 };
/** Who finds the line full looks again by itself. */
const MAX_WAITERS = 10_000;

export class Slots {
  readonly #context: SlotsContext;
  readonly #lines = new Map<string, Line>();
  /** Ends the timers. */
  readonly #stopped = new AbortController();

  constructor(context: SlotsContext) {
    this.#context = context;
  }

  /** Undefined: the order has a slot, until it leaves. Before each event; who stands in line leaves, too. */
  enter(subscription: string, orderId: OrderId): InLine | undefined {
    const slots = this.#context.limit(subscription);
    if (slots === undefined) return undefined;
    const { holders, waiters } = this.#line(subscription);
    const now = this.#context.clock.monotonic();
    const since = holders.get(orderId);
    if (since === undefined && holders.size < slots) {
      holders.set(orderId, now);
      waiters.delete(orderId);
      return undefined;
    }
    if (since !== undefined && now - since < SLICE_MS) return undefined;
    const known = waiters.get(orderId);
    const tries = (known?.tries ?? 0) + 1;
    const retryInMs = jitteredBackoff(LOOK_AGAIN, tries, this.#context.random);
    const waiter: Waiter = { tries, until: now + retryInMs, freed: known?.freed ?? new AbortController() };
    if (waiters.size < MAX_WAITERS) waiters.set(orderId, waiter);
    return { slots, retryInMs, freed: waiter.freed.signal };
  }

  /** The order starts no further handler of the subscription for now. Fine if it has no slot. */
  async leave(subscription: string, orderId: OrderId): Promise<void> {
    const line = this.#lines.get(subscription);
    if (line?.holders.delete(orderId) === true) await this.#wakeNext(subscription, line, 1);
  }

  /** Ends all timers: who is not woken yet comes by itself. No handler starts here any longer. */
  stop(): void {
    this.#stopped.abort();
  }

  async #wakeNext(subscription: string, line: Line, count: number): Promise<void> {
    const woken: Promise<void>[] = [];
    for (let next = this.#first(line.waiters); next !== undefined && woken.length < count; next = this.#first(line.waiters)) {
      line.waiters.get(next)?.freed.abort();
      line.waiters.delete(next);
      woken.push(this.#context.wake(next));
    }
    await Promise.all(woken);
    // Never rejects, and ends with the worker.
    if (woken.length > 0 && !line.goesOn) void this.#goOn(subscription, line);
  }

  /** A woken order may have come to a process where all slots are taken. */
  async #goOn(subscription: string, line: Line): Promise<void> {
    line.goesOn = true;
    try {
      await this.#context.clock.sleep(STAYS_FREE_MS, this.#stopped.signal);
    } catch {
      return;
    }
    line.goesOn = false;
    const free = (this.#context.limit(subscription) ?? Number.POSITIVE_INFINITY) - line.holders.size;
    await this.#wakeNext(subscription, line, free);
  }

  /** The first in line, after those who are no longer in it. */
  #first(waiters: Map<OrderId, Waiter>): OrderId | undefined {
    const now = this.#context.clock.monotonic();
    for (const [orderId, { until }] of waiters) {
      if (now < until || this.#context.runsHere(orderId)) return orderId;
      waiters.delete(orderId);
    }
    return undefined;
  }

  #line(subscription: string): Line {
    let line = this.#lines.get(subscription);
    if (line === undefined) {
      line = { holders: new Map(), waiters: new Map(), goesOn: false };
      this.#lines.set(subscription, line);
    }
    return line;
  }
}
