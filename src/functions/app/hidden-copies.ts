/**
 * Wake-ups that outlive their message. The host deletes the message of a function that succeeded, and counts the failures of one that did
 * not; so "look again later" is a fresh message, sent before the function ends well (W6, C10).
 */
import { randomUUID } from "node:crypto";
import type { Clock } from "../../core/clock.ts";
import type { OrderId } from "../../core/order-id.ts";
import type { WakeUpQueue } from "../../core/ports.ts";
import { encodeWakeUp } from "../../core/wake-up.ts";
import { HiddenWakeUps } from "../../worker/hidden-wake-ups.ts";

/** One for the order and process, however many wake-ups are turned away: several instances have one each, and find each other's later. */
export class HiddenCopies {
  readonly #queue: WakeUpQueue;
  readonly #hidden: HiddenWakeUps;

  constructor(queue: WakeUpQueue, clock: Clock) {
    this.#queue = queue;
    this.#hidden = new HiddenWakeUps(clock);
  }

  /** Resolves when a wake-up that comes no later is in the queue. Throws what the queue throws. */
  async send(orderId: OrderId, hiddenMs: number): Promise<void> {
    let failure: { readonly error: unknown } | undefined;
    // Its message can't come back before its time, so nobody asks for this id.
    await this.#hidden.hide(orderId, randomUUID(), hiddenMs, async (ms) => {
      try {
        await this.#queue.send(encodeWakeUp(orderId), ms);
        return true;
      } catch (error) {
        failure = { error };
        return false;
      }
    });
    if (failure !== undefined) throw failure.error;
  }
}
