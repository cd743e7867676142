/**
 * A received wake-up in the hands of this process: kept hidden while its round runs, then deleted or hidden until later.
 *
 * Nothing here throws. A queue call that fails costs a repeated round at worst: the message comes back when its time is over, and a round for
 * an order without work is a no-op.
 */
import type { Clock } from "../core/clock.ts";
import { describeError, isOutboxError } from "../core/errors.ts";
import type { Logger } from "../core/logger.ts";
import type { ReceivedWakeUp, Receipt, WakeUpQueue } from "../core/ports.ts";

export interface HeldWakeUpContext {
  readonly queue: WakeUpQueue;
  /** How long each renewal hides it. */
  readonly visibilityMs: number;
  readonly clock: Clock;
  readonly logger: Logger;
}

export class HeldWakeUp {
  readonly messageId: string;
  readonly text: string;
  readonly dequeueCount: number;
  readonly #context: HeldWakeUpContext;
  readonly #ended = new AbortController();
  readonly #renewing: Promise<void>;
  /** The newest one: every receive and every renewal makes the ones before worthless (C33). */
  #receipt: Receipt;
  /** Somebody else received it, or it is gone: it is no longer ours to change. */
  #lost = false;
  #abandoned = false;

  constructor(message: ReceivedWakeUp, context: HeldWakeUpContext) {
    this.messageId = message.receipt.messageId;
    this.text = message.text;
    this.dequeueCount = message.dequeueCount;
    this.#receipt = message.receipt;
    this.#context = context;
    this.#renewing = this.#renew();
  }

  /** The queue handed the same message to this process again, before its time or after a renewal failed: it is ours again. */
  receivedAgain(receipt: Receipt): void {
    this.#receipt = receipt;
    this.#lost = false;
  }

  /** The wake-up is used up. */
  async delete(): Promise<void> {
    if (!(await this.#release())) return;
    try {
      await this.#context.queue.delete(this.#receipt);
    } catch (error) {
      this.#warn("a used wake-up could not be deleted and will come back", error);
    }
  }

  /**
   * Back to the queue, visible after `hiddenMs`. If somebody else has it by now a fresh one is sent: the other host may have let it go in
   * favour of one that we used up. False if that failed: it comes back when its present hiding ends.
   */
  async hide(hiddenMs: number): Promise<boolean> {
    if (!(await this.#release())) return this.#abandoned ? false : this.#sendAgain(hiddenMs);
    try {
      await this.#context.queue.hide(this.#receipt, this.text, hiddenMs);
      return true;
    } catch (error) {
      if (isOutboxError(error, "not-found")) return this.#sendAgain(hiddenMs);
      this.#warn("a wake-up could not be hidden and will come back sooner", error);
      return false;
    }
  }

  async #sendAgain(hiddenMs: number): Promise<boolean> {
    try {
      await this.#context.queue.send(this.text, hiddenMs);
      return true;
    } catch (error) {
      this.#warn("a wake-up that another host has received could not be sent again", error);
      return false;
    }
  }

  /** Leaves it to the queue: it becomes visible to others when its present hiding ends. No call is made from now on. */
  abandon(): void {
    this.#abandoned = true;
    this.#lost = true;
    this.#ended.abort();
  }

  /** Ends the renewals and waits for one in flight, for only its answer has the receipt that counts. False if there is nothing to release. */
  async #release(): Promise<boolean> {
    this.#ended.abort();
    await this.#renewing;
    return !this.#lost;
  }

  async #renew(): Promise<void> {
    const { clock, visibilityMs } = this.#context;
    for (;;) {
      try {
        await clock.sleep(visibilityMs / 3, this.#ended.signal);
      } catch {
        return; // released or abandoned
      }
      if (!this.#lost) await this.#renewOnce();
    }
  }

  async #renewOnce(): Promise<void> {
    const { queue, visibilityMs, logger } = this.#context;
    const used = this.#receipt;
    try {
      const renewed = await queue.hide(used, this.text, visibilityMs);
      if (this.#receipt === used) this.#receipt = renewed;
    } catch (error) {
      if (!isOutboxError(error, "not-found")) this.#warn("a wake-up could not be renewed", error);
      else if (this.#receipt === used) {
        // The round goes on: the lease keeps the order, not the message. Whoever has the message finds the lease taken.
        this.#lost = true;
        logger.info("another host has received a wake-up whose round runs here", { messageId: this.messageId });
      }
    }
  }

  #warn(message: string, error: unknown): void {
    this.#context.logger.warn(message, { messageId: this.messageId, error: describeError(error) });
  }
}
