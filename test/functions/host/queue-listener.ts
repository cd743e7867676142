/**
 * The queue listener of the storage extension, as its sources describe it: each message is claimed for 10 minutes and the claim renewed while its
 * function runs; success deletes the message; failure makes it visible after `visibilityTimeout`; from `maxDequeueCount` on it is copied to
 * the poison queue instead. A queue without a poison queue of its own leaves a failed message to its claim. What the listener itself can't do
 * because storage is down stays undone: the claim then runs out by itself.
 */
import { setTimeout as delay } from "node:timers/promises";
import { QueueServiceClient, type DequeuedMessageItem, type QueueClient } from "@azure/storage-queue";
import type { FunctionsWorker } from "./worker.ts";

/** The members of `extensions.queues` in host.json, with the defaults that the extension has on one core. */
export interface QueueSettings {
  readonly batchSize?: number;
  readonly newBatchThreshold?: number;
  readonly maxDequeueCount?: number;
  /** `hh:mm:ss` */
  readonly visibilityTimeout?: string;
  readonly messageEncoding?: string;
}

export interface ListenerCounts {
  invoked: number;
  succeeded: number;
  failed: number;
  /** Copied to the poison queue. */
  poisoned: number;
  /** Failed or done, and the listener could not say so to the queue. */
  stuck: number;
}

const CLAIM_SECONDS = 600;
const RENEW_MS = (CLAIM_SECONDS / 2) * 1_000;
/** A test is watched: looks at an empty queue are closer together than `maxPollingInterval`, which has no say in what becomes of a message. */
const POLL_MS = 100;

export class QueueListener {
  readonly counts: ListenerCounts = { invoked: 0, succeeded: 0, failed: 0, poisoned: 0, stuck: 0 };
  readonly #queue: QueueClient;
  readonly #poison: QueueClient | undefined;
  readonly #worker: FunctionsWorker;
  readonly #functionName: string;
  readonly #settings: Required<QueueSettings>;
  readonly #inFlight = new Set<Promise<void>>();
  readonly #stop = new AbortController();
  readonly #loop: Promise<void>;

  constructor(connectionString: string, worker: FunctionsWorker, functionName: string, queueName: string, settings: QueueSettings) {
    // The listener's own calls do not wait for a service that is down: that is the next poll's business.
    const queues = QueueServiceClient.fromConnectionString(connectionString, { retryOptions: { maxTries: 1 } });
    this.#queue = queues.getQueueClient(queueName);
    this.#poison = queueName.endsWith("-poison") ? undefined : queues.getQueueClient(`${queueName}-poison`);
    this.#worker = worker;
    this.#functionName = functionName;
    const { batchSize = 16 } = settings;
    this.#settings = {
      batchSize,
      newBatchThreshold: settings.newBatchThreshold ?? batchSize / 2,
      maxDequeueCount: settings.maxDequeueCount ?? 5,
      visibilityTimeout: settings.visibilityTimeout ?? "00:00:00",
      messageEncoding: settings.messageEncoding ?? "base64",
    };
    this.#loop = this.#poll();
  }

  /** Takes nothing new; resolves when what runs has ended. */
  async stop(): Promise<void> {
    this.#stop.abort();
    await this.#loop;
    await Promise.all(this.#inFlight);
  }

  async #poll(): Promise<void> {
    while (!this.#stop.signal.aborted) {
      const messages = this.#inFlight.size > this.#settings.newBatchThreshold ? [] : await this.#receive();
      for (const message of messages) {
        const done = this.#process(message).finally(() => this.#inFlight.delete(done));
        this.#inFlight.add(done);
      }
      if (messages.length === 0) await delay(POLL_MS);
    }
  }

  async #receive(): Promise<readonly DequeuedMessageItem[]> {
    try {
      const { batchSize } = this.#settings;
      const answer = await this.#queue.receiveMessages({ numberOfMessages: batchSize, visibilityTimeout: CLAIM_SECONDS });
      return answer.receivedMessageItems;
    } catch {
      return [];
    }
  }

  async #process(message: DequeuedMessageItem): Promise<void> {
    if (this.#poison !== undefined && message.dequeueCount > this.#settings.maxDequeueCount)
      return this.#toPoison(message, message.popReceipt);
    let popReceipt = message.popReceipt;
    const renewals = setInterval(() => {
      void this.#queue.updateMessage(message.messageId, popReceipt, message.messageText, CLAIM_SECONDS).then(
        (renewed) => (popReceipt = renewed.popReceipt!),
        () => {},
      );
    }, RENEW_MS);
    let succeeded: boolean;
    try {
      succeeded = await this.#invoke(message);
    } finally {
      clearInterval(renewals);
    }
    try {
      if (succeeded) await this.#queue.deleteMessage(message.messageId, popReceipt);
      else if (this.#poison === undefined) return;
      else if (message.dequeueCount >= this.#settings.maxDequeueCount) await this.#toPoison(message, popReceipt);
      else {
        const seconds = secondsOf(this.#settings.visibilityTimeout);
        await this.#queue.updateMessage(message.messageId, popReceipt, message.messageText, seconds);
      }
    } catch {
      this.counts.stuck += 1;
    }
  }

  async #invoke({
    messageText,
    messageId,
    popReceipt,
    dequeueCount,
    insertedOn,
    expiresOn,
    nextVisibleOn,
  }: DequeuedMessageItem): Promise<boolean> {
    const text = this.#settings.messageEncoding === "none" ? messageText : decodeBase64(messageText);
    if (text === undefined) return false;
    this.counts.invoked += 1;
    try {
      await this.#worker.invoke(
        this.#functionName,
        { string: text },
        {
          QueueTrigger: { string: text },
          DequeueCount: { int: dequeueCount },
          ExpirationTime: { json: JSON.stringify(expiresOn) },
          Id: { string: messageId },
          InsertionTime: { json: JSON.stringify(insertedOn) },
          NextVisibleTime: { json: JSON.stringify(nextVisibleOn) },
          PopReceipt: { string: popReceipt },
        },
      );
      this.counts.succeeded += 1;
      return true;
    } catch {
      this.counts.failed += 1;
      return false;
    }
  }

  async #toPoison({ messageText, messageId }: DequeuedMessageItem, popReceipt: string): Promise<void> {
    await this.#poison!.sendMessage(messageText);
    this.counts.poisoned += 1;
    await this.#queue.deleteMessage(messageId, popReceipt);
  }
}

function decodeBase64(text: string): string | undefined {
  return /^(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?$/.test(text)
    ? Buffer.from(text, "base64").toString("utf8")
    : undefined;
}

export function secondsOf(span: string): number {
  const [hours, minutes, seconds] = span.split(":").map(Number) as [number, number, number];
  return (hours * 60 + minutes) * 60 + seconds;
}
