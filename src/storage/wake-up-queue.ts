/** The queue of wake-ups. The service counts in whole seconds; they exist in this file only. */
import type { QueueClient } from "@azure/storage-queue";
import { OutboxError, isOutboxError } from "../core/errors.ts";
import { MAX_HIDDEN_MS, type CallOptions, type Receipt, type ReceivedWakeUp, type WakeUpQueue } from "../core/ports.ts";
import { callStorage } from "./call.ts";
import type { ServiceAnswer } from "./storage-error.ts";

/** Never expires: the service's own default would drop wake-ups after 7 days. */
const NEVER_SECONDS = -1;
const MAX_RECEIVE = 32;

export class AzureWakeUpQueue implements WakeUpQueue {
  readonly #queue: QueueClient;
  readonly #timeoutMs: number;

  /** @param timeoutMs deadline of each request, SDK retries included */
  constructor(queue: QueueClient, timeoutMs: number) {
    this.#queue = queue;
    this.#timeoutMs = timeoutMs;
  }

  async send(text: string, hiddenMs: number, options?: CallOptions): Promise<Receipt> {
    const visibilityTimeout = hiddenSeconds(hiddenMs, 0);
    const { messageId, popReceipt } = await this.#call("send wake-up", options, (abortSignal) =>
      this.#queue.sendMessage(text, { abortSignal, visibilityTimeout, messageTimeToLive: NEVER_SECONDS }),
    );
    return { messageId, popReceipt };
  }

  async hide({ messageId, popReceipt }: Receipt, text: string, hiddenMs: number, options?: CallOptions): Promise<Receipt> {
    const visibilityTimeout = hiddenSeconds(hiddenMs, 0);
    const updated = await this.#call("hide wake-up", options, (abortSignal) =>
      this.#queue.updateMessage(messageId, popReceipt, text, visibilityTimeout, { abortSignal }),
    );
    if (updated.popReceipt === undefined) throw new OutboxError("storage", "hide wake-up: the service answered without a pop receipt");
    return { messageId, popReceipt: updated.popReceipt };
  }

  async delete({ messageId, popReceipt }: Receipt, options?: CallOptions): Promise<boolean> {
    try {
      await this.#call("delete wake-up", options, (abortSignal) => this.#queue.deleteMessage(messageId, popReceipt, { abortSignal }));
      return true;
    } catch (error) {
      if (isOutboxError(error, "not-found") && error.details.serviceCode !== "QueueNotFound") return false;
      throw error;
    }
  }

  async receive(max: number, hiddenMs: number, options?: CallOptions): Promise<readonly ReceivedWakeUp[]> {
    if (!Number.isInteger(max) || max < 1 || max > MAX_RECEIVE) {
      throw new OutboxError("invalid-option", `max is ${max}: a whole number from 1 to ${MAX_RECEIVE} is allowed`);
    }
    const visibilityTimeout = hiddenSeconds(hiddenMs, 1);
    const { receivedMessageItems } = await this.#call("receive wake-ups", options, (abortSignal) =>
      this.#queue.receiveMessages({ abortSignal, numberOfMessages: max, visibilityTimeout }),
    );
    return receivedMessageItems.map(({ messageText, messageId, popReceipt, dequeueCount }) => ({
      text: messageText,
      receipt: { messageId, popReceipt },
      dequeueCount,
    }));
  }

  #call<Result>(what: string, options: CallOptions | undefined, request: (signal: AbortSignal) => Promise<Result>): Promise<Result> {
    return callStorage({ what, timeoutMs: this.#timeoutMs, options, read: readStaleReceipt }, request);
  }
}

/** The reference says 400, the pages of the operations say 404; both mean that somebody else has the message, or that it is gone. */
function readStaleReceipt({ status, serviceCode }: ServiceAnswer): "not-found" | undefined {
  return status === 400 && serviceCode === "PopReceiptMismatch" ? "not-found" : undefined;
}

/** Rounded up: a message may come late, never early. */
function hiddenSeconds(hiddenMs: number, minSeconds: number): number {
  const seconds = Math.ceil(hiddenMs / 1000);
  if (!(hiddenMs >= 0 && hiddenMs <= MAX_HIDDEN_MS) || seconds < minSeconds) {
    throw new OutboxError("invalid-option", `hiddenMs is ${hiddenMs}: ${minSeconds * 1000} to ${MAX_HIDDEN_MS} is allowed`);
  }
  return seconds;
}
