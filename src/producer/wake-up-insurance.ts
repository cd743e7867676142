import type { Clock } from "../core/clock.ts";
import { describeError, isOutboxError } from "../core/errors.ts";
import type { Logger } from "../core/logger.ts";
import type { OrderId } from "../core/order-id.ts";
import type { CallOptions, Receipt, WakeUpQueue } from "../core/ports.ts";
import { encodeWakeUp } from "../core/wake-up.ts";

/**
 * The wake-up of one commit: sent hidden before, made visible after. Nothing in here ever fails a commit (C4): what can't be sent is logged,
 * and reconcile finds the order by its outbox.
 */
export class WakeUpInsurance {
  readonly #queue: WakeUpQueue;
  readonly #orderId: OrderId;
  readonly #text: string;
  readonly #safetyDelayMs: number;
  readonly #timeoutMs: number;
  readonly #clock: Clock;
  readonly #logger: Logger;
  #receipt: Receipt | undefined;
  #hiddenSince = 0;

  constructor(options: {
    readonly queue: WakeUpQueue;
    readonly orderId: OrderId;
    readonly safetyDelayMs: number;
    readonly timeoutMs: number;
    readonly clock: Clock;
    readonly logger: Logger;
  }) {
    this.#queue = options.queue;
    this.#orderId = options.orderId;
    this.#text = encodeWakeUp(options.orderId);
    this.#safetyDelayMs = options.safetyDelayMs;
    this.#timeoutMs = options.timeoutMs;
    this.#clock = options.clock;
    this.#logger = options.logger;
  }

  /** Sends the hidden wake-up. An aborted signal ends the wait for it. */
  async send(signal?: AbortSignal): Promise<void> {
    this.#hiddenSince = this.#clock.monotonic();
    await this.#quietly(
      "could not be sent before the commit",
      async (call) => {
        this.#receipt = await this.#queue.send(this.#text, this.#safetyDelayMs, call);
      },
      signal,
    );
  }

  /** Before the transaction: a slow decision must not let the hidden wake-up fire before there is something to find. */
  async refresh(): Promise<void> {
    if (this.#receipt === undefined || this.#clock.monotonic() - this.#hiddenSince < this.#safetyDelayMs / 2) return;
    const since = this.#clock.monotonic();
    await this.#update("could not be hidden for longer", this.#safetyDelayMs);
    this.#hiddenSince = since;
  }

  /** After the transaction: visible now. */
  async fire(): Promise<void> {
    await this.#update("could not be made visible; the hidden one fires by itself", 0);
  }

  /** Nothing was committed: takes the wake-up back. If that fails it fires for nothing, which is harmless (W7). */
  async cancel(): Promise<void> {
    const receipt = this.#receipt;
    if (receipt === undefined) return;
    await this.#quietly("could not be taken back", async (call) => {
      await this.#queue.delete(receipt, call);
    });
  }

  async #update(failure: string, hiddenMs: number): Promise<void> {
    await this.#quietly(failure, async (call) => {
      if (this.#receipt !== undefined) {
        try {
          this.#receipt = await this.#queue.hide(this.#receipt, this.#text, hiddenMs, call);
          return;
        } catch (error) {
          // Fired already, before there was anything to find: a fresh one is due.
          if (!isOutboxError(error, "not-found")) throw error;
        }
      }
      this.#receipt = await this.#queue.send(this.#text, hiddenMs, call);
    });
  }

  async #quietly(failure: string, action: (call: CallOptions) => Promise<void>, signal?: AbortSignal): Promise<void> {
    const timeout = AbortSignal.timeout(this.#timeoutMs);
    try {
      await action({ signal: signal === undefined ? timeout : AbortSignal.any([timeout, signal]) });
    } catch (error) {
      this.#logger.warn(`wake-up ${failure}`, { orderId: this.#orderId, error: describeError(error) });
    }
  }
}
