/**
 * Which wake-ups this process has put back hidden, so that it keeps one for an order that somebody else holds, not thirty (C10, W6).
 *
 * A wake-up may only be given up for one that surely is in the queue and comes no later. Hence: an entry counts once its hiding has
 * succeeded, until the time it becomes visible at the earliest, and not after its message was received again. Losing an entry is harmless: it
 * costs one more hidden copy.
 */
import type { Clock } from "../core/clock.ts";
import type { OrderId } from "../core/order-id.ts";

/** A host has seldom more than a few contended orders; this bounds the memory when it has. */
const MAX_ENTRIES = 10_000;

interface HiddenWakeUp {
  readonly messageId: string;
  /** By the monotonic clock, taken before the call: the queue counts from a later moment. */
  readonly visibleAt: number;
  /** Resolves to whether the queue took it; never rejects. */
  readonly succeeded: Promise<boolean>;
}

export class HiddenWakeUps {
  readonly #clock: Clock;
  readonly #entries = new Map<OrderId, HiddenWakeUp>();

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  /**
   * Hides a wake-up, unless another one of its order is hidden already and comes no later.
   *
   * @param hide puts it back; resolves to whether that succeeded and never rejects
   * @returns false if another one stands in: this one is not needed
   */
  async hide(orderId: OrderId, messageId: string, hiddenMs: number, hide: (hiddenMs: number) => Promise<boolean>): Promise<boolean> {
    const visibleAt = this.#clock.monotonic() + hiddenMs;
    for (let other = this.#live(orderId); other !== undefined && other.visibleAt <= visibleAt; other = this.#live(orderId)) {
      if (await other.succeeded) return false;
    }
    const entry: HiddenWakeUp = {
      messageId,
      visibleAt,
      succeeded: hide(hiddenMs).then((succeeded) => {
        // Before anybody who waits for this answer looks again.
        if (!succeeded) this.#remove(orderId, entry);
        return succeeded;
      }),
    };
    this.#add(orderId, entry);
    await entry.succeeded;
    return true;
  }

  /** A message was received: if it is the one we count on, we no longer do. */
  received(orderId: OrderId, messageId: string): void {
    if (this.#entries.get(orderId)?.messageId === messageId) this.#entries.delete(orderId);
  }

  #live(orderId: OrderId): HiddenWakeUp | undefined {
    const entry = this.#entries.get(orderId);
    if (entry === undefined || entry.visibleAt > this.#clock.monotonic()) return entry;
    this.#entries.delete(orderId);
    return undefined;
  }

  #add(orderId: OrderId, entry: HiddenWakeUp): void {
    this.#entries.delete(orderId);
    if (this.#entries.size >= MAX_ENTRIES) {
      const [oldest] = this.#entries.keys();
      if (oldest !== undefined) this.#entries.delete(oldest);
    }
    this.#entries.set(orderId, entry);
  }

  #remove(orderId: OrderId, entry: HiddenWakeUp): void {
    if (this.#entries.get(orderId) === entry) this.#entries.delete(orderId);
  }
}
