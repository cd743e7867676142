/** As the Scene of round-support, on Azurite: real leases, blobs, rows and messages, and a clock that stands still until a test turns it. */
import { decodeDeadLetterSummary, type DeadLetterSummary } from "../../src/core/dead-letter.ts";
import { parseOrderId } from "../../src/core/order-id.ts";
import { decodePendingState, type PendingState } from "../../src/core/pending-event.ts";
import type { Metadata, Storage } from "../../src/core/ports.ts";
import type { RetryOptions } from "../../src/core/retry.ts";
import { defineSubscription, type HandlerContext, type Subscription } from "../../src/core/workflow.ts";
import type { OperationsContext } from "../../src/operations/context.ts";
import { verifyAll } from "../../src/operations/verify.ts";
import { createOutbox } from "../../src/producer/outbox.ts";
import type { Worker } from "../../src/worker/round-result.ts";
import { createWorker, type WorkerOptions } from "../../src/worker/worker.ts";
import { connectTestStorage, endLease, type TestStorage } from "../support/azurite-storage.ts";
import { ManualClock } from "../support/manual-clock.ts";
import { key, workflow } from "./round-support.ts";

type Container = "events" | "archive" | "dead";

export class AzuriteScene {
  readonly clock: WatchedClock = new WatchedClock();
  readonly storage: Storage;
  /** What the handlers were called with, in order: `audit E1`. */
  readonly log: string[] = [];
  /** How long the wake-ups were hidden that were sent since the last commit, in milliseconds. */
  readonly hiddenMs: number[] = [];
  /** What handlers do besides writing down; by default nothing. */
  onHandle: (entry: string, context: HandlerContext) => Promise<void> | void = () => undefined;
  readonly #connected: TestStorage;

  static async connect(): Promise<AzuriteScene> {
    return new AzuriteScene(await connectTestStorage());
  }

  private constructor(connected: TestStorage) {
    this.#connected = connected;
    this.storage = { ...connected, wakeUps: this.#recording() };
  }

  get context(): OperationsContext {
    return { storage: this.storage, clock: this.clock };
  }

  /** At once, as its time would. */
  endLease(orderId: string): Promise<void> {
    return endLease(this.#connected, key(orderId));
  }

  subscription(name: string, retry: RetryOptions = { shortStarts: 1, longDelayMs: 10_000 }): Subscription {
    return defineSubscription(workflow, {
      name,
      retry,
      handle: async (event, context) => {
        const entry = `${name} E${event.data.n}`;
        this.log.push(entry);
        await this.onHandle(entry, context);
      },
    });
  }

  /** Of a process of its own. */
  worker(subscriptions: readonly Subscription[] = [this.subscription("audit")], options: Partial<WorkerOptions> = {}): Worker {
    return createWorker({ workflow, subscriptions, storage: this.storage, clock: this.clock, random: () => 0.5, ...options });
  }

  /** Commits the numbers as events of one transaction. */
  async commit(orderId: string, numbers: readonly number[]): Promise<void> {
    const outbox = createOutbox({ workflow, storage: this.#connected, clock: this.clock });
    await outbox.commit(orderId, (state) => ({
      state: { committed: (state?.committed ?? 0) + numbers.length },
      events: numbers.map((n) => ({ type: "step", data: { n } })),
    }));
    this.hiddenMs.length = 0;
  }

  /** Fails while its event is in `broken`. */
  failWhile(broken: ReadonlySet<string>, error: () => unknown = () => new Error("carrier is down")): void {
    this.onHandle = (entry) => {
      if (broken.has(entry)) throw error();
    };
  }

  /** State of the pending events of a stream, oldest first. */
  async pending(orderId: string = "o-1", subscription: string = "audit"): Promise<readonly PendingState[]> {
    return (await this.#metadata("events", orderId, subscription)).map((metadata) => decodePendingState(metadata)!);
  }

  archived(orderId: string = "o-1", subscription: string = "audit"): Promise<readonly Metadata[]> {
    return this.#metadata("archive", orderId, subscription);
  }

  async dead(orderId: string = "o-1", subscription: string = "audit"): Promise<readonly DeadLetterSummary[]> {
    return (await this.#metadata("dead", orderId, subscription)).map((metadata) => decodeDeadLetterSummary(metadata)!);
  }

  /** Replaces the bytes of the oldest pending event of `o-1`. */
  async damageHead(damage: (bytes: Uint8Array) => Uint8Array): Promise<void> {
    const { blobs } = this.storage;
    const [head] = await Array.fromAsync(blobs.list("events", `audit/${key("o-1")}/`));
    const content = (await blobs.read("events", head!.name))!;
    await blobs.delete("events", [head!.name]);
    await blobs.create("events", head!.name, damage(content.bytes), content.metadata);
  }

  /** What the audit of storage finds. */
  async findings(): Promise<readonly string[]> {
    const { findings } = await verifyAll(this.context);
    return findings.map(({ kind, text }) => `${kind}: ${text}`);
  }

  async #metadata(container: Container, orderId: string, subscription: string): Promise<readonly Metadata[]> {
    const blobs = await Array.fromAsync(this.storage.blobs.list(container, `${subscription}/${key(parseOrderId(orderId))}/`));
    return blobs.map(({ metadata }) => metadata);
  }

  #recording(): Storage["wakeUps"] {
    const { wakeUps } = this.#connected;
    return {
      send: (text, hiddenMs, options) => {
        this.hiddenMs.push(hiddenMs);
        return wakeUps.send(text, hiddenMs, options);
      },
      hide: wakeUps.hide.bind(wakeUps),
      delete: wakeUps.delete.bind(wakeUps),
      receive: wakeUps.receive.bind(wakeUps),
    };
  }
}

/** Says when somebody has gone to sleep: what comes before that is real I/O, for which no turn of the clock waits. */
export class WatchedClock extends ManualClock {
  readonly #slept: number[] = [];
  #changed: PromiseWithResolvers<void> = Promise.withResolvers();

  override sleep(ms: number, signal?: AbortSignal): Promise<void> {
    this.#slept.push(ms);
    this.#changed.resolve();
    this.#changed = Promise.withResolvers();
    return super.sleep(ms, signal);
  }

  /** Waits until somebody has gone to sleep for exactly `ms`; each sleep counts once. */
  async asleep(ms: number): Promise<void> {
    while (!this.#slept.includes(ms)) await this.#changed.promise;
    this.#slept.splice(this.#slept.indexOf(ms), 1);
  }
}
