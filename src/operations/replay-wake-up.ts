import { describeError, isOutboxError } from "../core/errors.ts";
import { silentLogger } from "../core/logger.ts";
import type { OrderId } from "../core/order-id.ts";
import type { Receipt } from "../core/ports.ts";
import { encodeWakeUp } from "../core/wake-up.ts";
import type { OperationsContext } from "./context.ts";

/** As long as a producer's: a process that dies after a commit leaves a wake-up that shows by itself then. */
const SAFETY_DELAY_MS = 60_000;

/**
 * The wake-up of one order's replay: sent hidden before the first commit, made visible after the last. It fails nothing (C4): with the queue
 * down, reconcile finds the order by its outbox.
 */
export class ReplayWakeUp {
  readonly #context: OperationsContext;
  readonly #orderId: OrderId;
  #receipt: Receipt | undefined;
  #due = false;

  constructor(context: OperationsContext, orderId: OrderId) {
    this.#context = context;
    this.#orderId = orderId;
  }

  /** Before every commit. */
  async prepare(): Promise<void> {
    if (this.#due) return;
    this.#due = true;
    await this.#quietly(async () => {
      this.#receipt = await this.#context.storage.wakeUps.send(encodeWakeUp(this.#orderId), SAFETY_DELAY_MS);
    });
  }

  /** Nothing if nothing was to be committed. One too many does no harm (W7). */
  async fire(): Promise<void> {
    if (!this.#due) return;
    const { wakeUps } = this.#context.storage;
    const text = encodeWakeUp(this.#orderId);
    await this.#quietly(async () => {
      if (this.#receipt !== undefined) {
        try {
          await wakeUps.hide(this.#receipt, text, 0);
          return;
        } catch (error) {
          // Fired already, perhaps before the last batch.
          if (!isOutboxError(error, "not-found")) throw error;
        }
      }
      await wakeUps.send(text, 0);
    });
  }

  async #quietly(action: () => Promise<void>): Promise<void> {
    const { logger = silentLogger } = this.#context;
    try {
      await action();
    } catch (error) {
      logger.warn("a wake-up could not be sent; reconcile will find the order", { orderId: this.#orderId, error: describeError(error) });
    }
  }
}
