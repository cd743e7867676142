/**
 * Which orders were woken for what, and when they may be woken for the same again.
 *
 * Why: under load a wake-up waits in the queue for longer than a sweep's interval, and a sweep that sends another one each minute makes the
 * load worse. The length of the queue would not tell: it counts hidden messages and doubles, and says nothing about a single order (design
 * §7). So the pause before the same wake-up is sent again grows. It never gets endless: the wake-up may have been lost for good.
 */
import type { Clock } from "../core/clock.ts";
import type { OrderKey } from "../core/order-id.ts";

/** A little under the interval of sweeps: the next one may wake again although it comes early. */
const FIRST_PAUSE_MS = 50_000;
const MAX_PAUSE_MS = 30 * 60_000;
/** Orders remembered; the one woken longest ago is forgotten first, which costs a wake-up too many. */
const MAX_ORDERS = 50_000;

interface Woken {
  readonly reasons: ReadonlySet<string>;
  readonly pauseMs: number;
  readonly until: number;
}

export class WakeMemory {
  readonly #clock: Clock;
  readonly #orders = new Map<OrderKey, Woken>();

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  /** @param reasons what is to be done in the order: anything new among it is reason enough */
  mayWake(order: OrderKey, reasons: readonly string[]): boolean {
    const woken = this.#orders.get(order);
    return woken === undefined || isNew(woken, reasons) || this.#clock.monotonic() >= woken.until;
  }

  /** To be called when the wake-up was sent. */
  wasWoken(order: OrderKey, reasons: readonly string[]): void {
    const woken = this.#orders.get(order);
    const pauseMs = woken === undefined || isNew(woken, reasons) ? FIRST_PAUSE_MS : Math.min(MAX_PAUSE_MS, woken.pauseMs * 2);
    this.#orders.delete(order);
    this.#orders.set(order, { reasons: new Set(reasons), pauseMs, until: this.#clock.monotonic() + pauseMs });
    if (this.#orders.size > MAX_ORDERS) {
      const [oldest] = this.#orders.keys();
      if (oldest !== undefined) this.#orders.delete(oldest);
    }
  }
}

function isNew(woken: Woken, reasons: readonly string[]): boolean {
  return reasons.some((reason) => !woken.reasons.has(reason));
}
