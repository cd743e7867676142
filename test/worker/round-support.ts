/** A workflow of numbered events, subscriptions that write down what they handle, and workers on memory storage with a manual clock. */
import { z } from "zod";
import type { StoredEvent } from "../../src/core/event.ts";
import { encodeOrderId, parseOrderId, type OrderKey } from "../../src/core/order-id.ts";
import type { Storage } from "../../src/core/ports.ts";
import { decodeProgress, type Progress } from "../../src/core/progress.ts";
import type { RetryOptions } from "../../src/core/retry.ts";
import { defineSubscription, defineWorkflow, type HandlerContext, type Subscription } from "../../src/core/workflow.ts";
import { createOutbox } from "../../src/producer/outbox.ts";
import type { Worker } from "../../src/worker/round-result.ts";
import { createWorker, type WorkerOptions } from "../../src/worker/worker.ts";
import { archivedEntries } from "../support/archived-entries.ts";
import { ManualClock, settle } from "../support/manual-clock.ts";
import { createMemoryStorage, type MemoryStorage } from "../support/memory-storage.ts";

export const workflow = defineWorkflow({
  name: "test",
  state: z.object({ committed: z.number() }),
  events: { step: z.object({ n: z.number() }), other: z.object({ n: z.number() }) },
});

export interface HandlerCall {
  readonly n: number;
  readonly sequence: number;
  readonly context: HandlerContext;
}

export class Scene {
  readonly clock = new ManualClock();
  readonly storage: MemoryStorage = createMemoryStorage(this.clock);
  /** What the handlers were called with, in order: `audit E1`. */
  readonly log: string[] = [];
  /** What handlers do besides writing down; by default nothing. */
  onHandle: (entry: string, call: HandlerCall) => Promise<void> | void = () => undefined;

  /** Sees every event that a handler gets. */
  onEvent: (event: StoredEvent) => void = () => undefined;

  subscription(
    name: string,
    options: { readonly events?: readonly ("step" | "other")[]; readonly when?: Subscription["wants"]; readonly retry?: RetryOptions } = {},
  ): Subscription {
    return defineSubscription(workflow, {
      name,
      // One start a burst, so that a failure parks at once; what retries do has tests of its own.
      retry: { shortStarts: 1, longDelayMs: 10_000 },
      ...options,
      handle: async (event, context) => {
        const entry = `${name} E${event.data.n}`;
        this.log.push(entry);
        this.onEvent(event);
        await this.onHandle(entry, { n: event.data.n, sequence: event.sequence, context });
      },
    });
  }

  worker(subscriptions: readonly Subscription[] = [this.subscription("audit")], options: Partial<WorkerOptions> = {}): Worker {
    return createWorker({ workflow, subscriptions, storage: this.storage, clock: this.clock, random: () => 0.5, ...options });
  }

  /** Commits the numbers as events of one transaction. */
  async commit(orderId: string, numbers: readonly number[], type: "step" | "other" = "step"): Promise<void> {
    const outbox = createOutbox({ workflow, storage: this.storage, clock: this.clock });
    await outbox.commit(orderId, (state) => ({
      state: { committed: (state?.committed ?? 0) + numbers.length },
      events: numbers.map((n) => ({ type, data: { n } })),
    }));
  }

  progress(orderId = "o-1"): Progress {
    return decodeProgress(this.storage.leaseOf(key(orderId))?.metadata ?? {});
  }

  /** Names in `container` without subscription and order: the ULIDs, in order. */
  ids(container: "events" | "archive", subscription = "audit", orderId = "o-1"): string[] {
    const prefix = `${subscription}/${key(orderId)}/`;
    const entries = container === "archive" ? archivedEntries(this.storage) : this.storage.blobEntries(container);
    return entries.filter(([name]) => name.startsWith(prefix)).map(([name]) => name.slice(prefix.length, -".json".length));
  }

  outboxRows(orderId = "o-1"): string[] {
    return this.storage
      .rows(key(orderId))
      .map(({ rowKey }) => rowKey)
      .filter((rowKey) => rowKey.startsWith("outbox:"));
  }

  /** Lets the worker run until nothing more happens without time, and time until `done` is settled. */
  async until<T>(promise: Promise<T>, maxMs = 600_000): Promise<T> {
    let settled = false;
    const mark = (): void => void (settled = true);
    promise.then(mark, mark);
    await settle();
    for (let spent = 0; !settled && spent < maxMs; spent += 1_000) await this.clock.advance(1_000);
    if (!settled) throw new Error("still not done");
    return promise;
  }
}

export function key(orderId: string): OrderKey {
  return encodeOrderId(parseOrderId(orderId));
}

export type Fate = "dies-before" | "dies-after" | "loses-response" | "is-refused";

/** `storage`, with every request made by `pass`; of a listing, only its beginning. */
export function passing(storage: Storage, pass: (real: () => Promise<unknown>) => Promise<unknown>): Storage {
  const wrap = <Port extends object>(port: Port): Port =>
    new Proxy(port, {
      get(target, method, receiver) {
        const real = Reflect.get(target, method, receiver) as (...args: unknown[]) => unknown;
        // No request: it answers at once.
        if (method === "check") return real.bind(target);
        if (method === "list") {
          return async function* (...args: unknown[]) {
            await pass(() => Promise.resolve());
            yield* real.apply(target, args) as AsyncIterable<unknown>;
          };
        }
        return (...args: unknown[]) => pass(() => real.apply(target, args) as Promise<unknown>);
      },
    });
  return { orders: wrap(storage.orders), wakeUps: wrap(storage.wakeUps), leases: wrap(storage.leases), blobs: wrap(storage.blobs) };
}

/**
 * One process' view of a storage account: its calls are counted, and from a given call on the process is dead (nothing it sends arrives,
 * nothing comes back), or that one call meets a fault.
 */
export function mortal(
  storage: Storage,
  at: number,
  fate: Fate,
  fault: Error,
): { readonly storage: Storage; readonly calls: () => number } {
  let count = 0;
  let dead = false;
  const never = (): Promise<never> => new Promise(() => undefined);
  async function pass(real: () => Promise<unknown>): Promise<unknown> {
    if (dead) return never();
    count += 1;
    if (count !== at) return real();
    switch (fate) {
      case "is-refused":
        throw fault;
      case "loses-response":
        await real();
        throw fault;
      case "dies-before":
        dead = true;
        return never();
      case "dies-after":
        dead = true;
        await real().catch(() => undefined);
        return never();
    }
  }
  return {
    storage: passing(storage, pass),
    calls: () => count,
  };
}
