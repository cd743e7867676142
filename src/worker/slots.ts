/**
 * How many handlers of a subscription run at once in this process (G4): a slow subscription must leave room for the others.
 *
 * An order that finds no slot gives its place in the host back at once and stands in line. A slot that becomes free is offered to the first in
 * line, who is woken: by a poke if its round still runs here, else by a wake-up (W7). For a short time nobody else gets that slot. One who does
 * not come in time leaves the line (another process may have received the wake-up), and the slot is offered to the next: it keeps a hidden
 * wake-up of its own in any case.
 *
 * An order keeps its slot from one event to the next for {@link SLICE_MS}, then the next in line gets it: neither does each short handler cost
 * a round, nor does one order with a long backlog keep the others waiting.
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
  /** Gets a round of the order to look again. False if that failed; never rejects. */
  readonly wake: (orderId: OrderId) => Promise<boolean>;
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
  tries: number;
  offered: AbortController;
  /** Of the slot that is kept for it; aborts when it is taken or given up. Undefined: none is kept. */
  offer: AbortController | undefined;
}

interface Line {
  /** Since when each order has its slot, by the monotonic clock. */
  readonly holders: Map<OrderId, number>;
  /** In the order in which they came. */
  readonly waiters: Map<OrderId, Waiter>;
}

/** How long an order goes on with its slot while others wait. */
export const SLICE_MS = 10_000;
/** How long a free slot is kept for the order that was woken. More than a poll of a busy host takes. */
const OFFER_MS = 2_000;
/** Without an offer: a wake-up lost, or a slot of another process. */
const LOOK_AGAIN: BackoffRange = { minMs: 5_000, maxMs: 60_000 };
/** Who finds the line full looks again by itself. */
const MAX_WAITERS = 10_000;

export class Slots {
  readonly #context: SlotsContext;
  readonly #lines = new Map<string, Line>();
  #stopped = false;

  constructor(context: SlotsContext) {
    this.#context = context;
  }

  /** Undefined: the order has a slot, until it leaves. Before each event; a round may do so again and again. */
  async enter(subscription: string, orderId: OrderId): Promise<InLine | undefined> {
    const limit = this.#context.limit(subscription);
    if (limit === undefined) return undefined;
    const now = this.#context.clock.monotonic();
    const line = this.#line(subscription);
    const since = line.holders.get(orderId);
    if (since !== undefined) {
      if (now - since < SLICE_MS || line.waiters.size === 0) return undefined;
      await this.leave(subscription, orderId);
    }
    if (line.holders.size + kept(line, orderId) < limit) {
      line.holders.set(orderId, now);
      remove(line, orderId);
      return undefined;
    }
    const waiter = line.waiters.get(orderId) ?? { tries: 0, offered: new AbortController(), offer: undefined };
    waiter.tries += 1;
    if (waiter.offered.signal.aborted) waiter.offered = new AbortController();
    endOffer(waiter);
    if (line.waiters.size < MAX_WAITERS) line.waiters.set(orderId, waiter);
    return { slots: limit, retryInMs: jitteredBackoff(LOOK_AGAIN, waiter.tries, this.#context.random), freed: waiter.offered.signal };
  }

  /** The order starts no further handler of the subscription for now. Fine if it has no slot. */
  async leave(subscription: string, orderId: OrderId): Promise<void> {
    const line = this.#lines.get(subscription);
    const limit = this.#context.limit(subscription);
    if (line === undefined || !line.holders.delete(orderId) || limit === undefined) return;
    await this.#offer(line, limit);
  }

  /** Ends the timers of all offers: what is not taken yet is passed on no more. No handler starts here any longer. */
  stop(): void {
    this.#stopped = true;
    for (const { waiters } of this.#lines.values()) for (const waiter of waiters.values()) endOffer(waiter);
  }

  /** Offers each free slot to the first in line who has no offer yet. */
  async #offer(line: Line, limit: number): Promise<void> {
    for (const [waiting, waiter] of line.waiters) {
      if (line.holders.size + kept(line) >= limit) return;
      if (waiter.offer !== undefined) continue;
      const offer = new AbortController();
      waiter.offer = offer;
      waiter.offered.abort();
      // Never rejects, and ends with its offer.
      if (!this.#stopped) void this.#passOn(line, limit, waiting, offer.signal);
      if (!(await this.#context.wake(waiting)) && waiter.offer === offer) remove(line, waiting);
    }
  }

  /** An offer that is not taken in time goes to the next in line. */
  async #passOn(line: Line, limit: number, waiting: OrderId, ended: AbortSignal): Promise<void> {
    try {
      await this.#context.clock.sleep(OFFER_MS, ended);
    } catch {
      return;
    }
    remove(line, waiting);
    await this.#offer(line, limit);
  }

  #line(subscription: string): Line {
    let line = this.#lines.get(subscription);
    if (line === undefined) {
      line = { holders: new Map(), waiters: new Map() };
      this.#lines.set(subscription, line);
    }
    return line;
  }
}

/** How many free slots are kept for orders other than this one. */
function kept({ waiters }: Line, orderId?: OrderId): number {
  let count = 0;
  for (const [waiting, { offer }] of waiters) if (waiting !== orderId && offer !== undefined) count += 1;
  return count;
}

function endOffer(waiter: Waiter): void {
  waiter.offer?.abort();
  waiter.offer = undefined;
}

function remove(line: Line, orderId: OrderId): void {
  const waiter = line.waiters.get(orderId);
  if (waiter !== undefined) endOffer(waiter);
  line.waiters.delete(orderId);
}
