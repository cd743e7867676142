import { describeError, isOutboxError } from "../core/errors.ts";
import { silentLogger } from "../core/logger.ts";
import type { OrderId } from "../core/order-id.ts";
import type { Receipt } from "../core/ports.ts";
import { encodeWakeUp } from "../core/wake-up.ts";
import type { OperationsContext } from "./context.ts";

/** As long as a producer's: a process that dies after a commit leaves a wake-up that shows by itself then. */
const SAFETY_DELAY_MS = 60_000;
const NOT_SENT = "a wake-up could not be sent; reconcile will find the order";
const STILL_HIDDEN = `a wake-up could not be made visible; it shows by itself within ${SAFETY_DELAY_MS / 1000} s of the first commit`;

/**
 * The wake-up of one order's replay: sent hidden before the first commit, made visible after the last. It fails nothing (C4): a hidden one
 * shows by itself, and with the queue down reconcile finds the order by its outbox.
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
    await this.#quietly(NOT_SENT, async () => {
      this.#receipt = await this.#context.storage.wakeUps.send(encodeWakeUp(this.#orderId), SAFETY_DELAY_MS);
    });
  }

  /** Nothing if nothing was to be committed. One too many does no harm (W7). */
  async fire(): Promise<void> {
    if (!this.#due) return;
    const { wakeUps } = this.#context.storage;
    const text = encodeWakeUp(this.#orderId);
    const receipt = this.#receipt;
    let gone = receipt === undefined;
    if (receipt !== undefined) {
      await this.#quietly(STILL_HIDDEN, async () => {
        try {
          await wakeUps.hide(receipt, text, 0);
        } catch (error) {
          // Fired already, perhaps before the last batch.
          if (!isOutboxError(error, "not-found")) throw error;
          gone = true;
        }
      });
    }
    if (gone) await this.#quietly(NOT_SENT, () => wakeUps.send(text, 0));
  }

  async #quietly(failure: string, action: () => Promise<unknown>): Promise<void> {
    const { logger = silentLogger } = this.#context;
    try {
      await action();
    } catch (error) {
      logger.warn(failure, { orderId: this.#orderId, error: describeError(error) });
    }
  }
}
