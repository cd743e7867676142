/** The wake-up queue in memory. */
import type { Clock } from "../../src/core/clock.ts";
import { OutboxError } from "../../src/core/errors.ts";
import { MAX_HIDDEN_MS, type Receipt, type ReceivedWakeUp } from "../../src/core/ports.ts";

/** A message as tests see it, hidden or not. */
export interface QueuedMessage {
  readonly text: string;
  readonly hiddenForMs: number;
  readonly dequeueCount: number;
}

interface Message {
  readonly id: string;
  readonly text: string;
  readonly popReceipt: string;
  readonly visibleAt: number;
  readonly dequeueCount: number;
}

export class MemoryQueue {
  readonly #clock: Clock;
  #messages: readonly Message[] = [];
  #last = 0;

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  send(text: string, hiddenMs: number): Receipt {
    const message: Message = {
      id: `message-${this.#next()}`,
      text,
      popReceipt: this.#receipt(),
      visibleAt: this.#after(hiddenMs, 0),
      dequeueCount: 0,
    };
    this.#messages = [...this.#messages, message];
    return { messageId: message.id, popReceipt: message.popReceipt };
  }

  hide(receipt: Receipt, text: string, hiddenMs: number): Receipt {
    const visibleAt = this.#after(hiddenMs, 0);
    const message = this.#held(receipt);
    if (message === undefined) throw new OutboxError("not-found", "hide wake-up: somebody else has it", { details: { status: 404 } });
    const popReceipt = this.#receipt();
    this.#replace(message, { ...message, text, popReceipt, visibleAt });
    return { messageId: message.id, popReceipt };
  }

  delete(receipt: Receipt): boolean {
    const message = this.#held(receipt);
    this.#messages = this.#messages.filter((each) => each !== message);
    return message !== undefined;
  }

  receive(max: number, hiddenMs: number): readonly ReceivedWakeUp[] {
    if (!Number.isInteger(max) || max < 1 || max > 32) throw new OutboxError("invalid-option", `max is ${max}: 1 to 32 is allowed`);
    const visibleAt = this.#after(hiddenMs, 1);
    const visible = this.#messages
      .filter((message) => message.visibleAt <= this.#clock.monotonic())
      .sort((a, b) => a.visibleAt - b.visibleAt);
    return visible.slice(0, max).map((message) => {
      const received: Message = { ...message, popReceipt: this.#receipt(), visibleAt, dequeueCount: message.dequeueCount + 1 };
      this.#replace(message, received);
      return {
        text: received.text,
        receipt: { messageId: received.id, popReceipt: received.popReceipt },
        dequeueCount: received.dequeueCount,
      };
    });
  }

  inspect(): readonly QueuedMessage[] {
    const now = this.#clock.monotonic();
    return this.#messages
      .toSorted((a, b) => a.visibleAt - b.visibleAt)
      .map(({ text, visibleAt, dequeueCount }) => ({ text, hiddenForMs: Math.max(0, visibleAt - now), dequeueCount }));
  }

  #held({ messageId, popReceipt }: Receipt): Message | undefined {
    return this.#messages.find((message) => message.id === messageId && message.popReceipt === popReceipt);
  }

  #replace(message: Message, next: Message): void {
    this.#messages = this.#messages.map((each) => (each === message ? next : each));
  }

  #receipt(): string {
    return `receipt-${this.#next()}`;
  }

  #next(): number {
    this.#last += 1;
    return this.#last;
  }

  /** Whole seconds, rounded up, as the service counts. */
  #after(hiddenMs: number, minSeconds: number): number {
    const seconds = Math.ceil(hiddenMs / 1000);
    if (!(hiddenMs >= 0 && hiddenMs <= MAX_HIDDEN_MS) || seconds < minSeconds) {
      throw new OutboxError("invalid-option", `hiddenMs is ${hiddenMs}: ${minSeconds * 1000} to ${MAX_HIDDEN_MS} is allowed`);
    }
    return this.#clock.monotonic() + seconds * 1000;
  }
}
