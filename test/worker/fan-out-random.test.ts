/**
 * G2, G3, G4, C14: many subscriptions, orders and events, with handlers that fail and processes that die at random (seeded). What the handlers
 * wrote down is audited subscription by subscription, without asking the pipeline.
 */
import { expect, test } from "vitest";
import { OutboxError } from "../../src/core/errors.ts";
import { RetryableError, type RetryOptions } from "../../src/core/retry.ts";
import type { Storage } from "../../src/core/ports.ts";
import { decodeWakeUp } from "../../src/core/wake-up.ts";
import type { Subscription } from "../../src/core/workflow.ts";
import { seededRandom } from "../../src/local/seeded-random.ts";
import { createSweeper } from "../../src/operations/sweep.ts";
import { createReconciler } from "../../src/operations/reconcile.ts";
import type { Worker } from "../../src/worker/round-result.ts";
import { settle } from "../support/manual-clock.ts";
import { auditStreams, type Start } from "../support/stream-audit.ts";
import { FULL_SIZE } from "../support/full-size.ts";
import { findings } from "./operator-support.ts";
import { mortal, Scene } from "./round-support.ts";

interface Size {
  readonly subscriptions: number;
  readonly orders: number;
  readonly events: number;
}

const BIG: Size = FULL_SIZE ? { subscriptions: 10, orders: 50, events: 20 } : { subscriptions: 10, orders: 12, events: 10 };
const SMALL: Size = { subscriptions: 4, orders: 6, events: 8 };
const RETRY: RetryOptions = {
  shortStarts: 2,
  shortDelayMs: 200,
  longRetries: 1_000,
  longDelayMs: 1_000,
  longMaxDelayMs: 1_000,
  maxCrashes: 100,
};

/** One process: a worker, and the mark by which its handlers know that they are dead. */
interface Life {
  readonly worker: Worker;
  readonly dead: () => boolean;
}

async function play(seed: number, size: Size, kills: number): Promise<void> {
  const random = seededRandom(seed);
  const scene = new Scene();
  const names = Array.from({ length: size.subscriptions }, (_, index) => `s-${index}`);
  const orderIds = Array.from({ length: size.orders }, (_, index) => `o-${index}`);
  const starts: Start[] = [];
  let life = 0;

  const birth = (): Life => {
    life += 1;
    const own = life;
    // Dies at a call somewhere ahead; the last life lasts.
    const at = own > kills ? -1 : 1 + Math.floor(random() * size.orders * size.subscriptions * 2);
    const disturbed = mortal(scene.storage, at, random() < 0.5 ? "dies-before" : "dies-after", new OutboxError("unavailable", "unused"));
    const dead = (): boolean => at > 0 && disturbed.calls() >= at;
    const flaky = withFaults(disturbed.storage, random, own > kills ? 0 : 0.002);
    const subscriptions = names.map((name, index): Subscription => {
      const base = scene.subscription(name, { retry: RETRY });
      return {
        ...base,
        // Some have few slots.
        concurrency: index % 3 === 0 ? 2 : undefined,
        async handle({ orderId, sequence }) {
          const start: Start = { subscription: name, orderId, sequence, life: own, outcome: "died" };
          starts.push(start);
          if (random() < 0.3) await scene.clock.sleep(Math.floor(random() * 50));
          if (dead()) return new Promise(() => undefined);
          if (random() < 0.1) {
            start.outcome = "failed";
            throw random() < 0.5 ? new Error("busy") : new RetryableError("busy", 300);
          }
          start.outcome = "handled";
          return undefined;
        },
      };
    });
    return { worker: scene.worker(subscriptions, { storage: flaky, random, breaker: false }), dead };
  };

  let current = birth();
  const sweeper = createSweeper({ storage: scene.storage, clock: scene.clock });
  const reconciler = createReconciler({ storage: scene.storage, clock: scene.clock });
  const total = size.subscriptions * size.orders * size.events;
  const finished = (): boolean => scene.storage.blobEntries("archive").length >= total && scene.storage.blobEntries("events").length === 0;
  let committed = 0;
  for (let second = 0; second < 3_000 && (committed < size.events || !finished()); second++) {
    if (committed < size.events) {
      for (const orderId of orderIds) await scene.commit(orderId, [committed]);
      committed += 1;
    }
    if (second % 60 === 59) {
      await sweeper.sweep();
      await reconciler.reconcile();
    }
    const messages = await scene.storage.wakeUps.receive(32, 30_000);
    for (const { text, receipt } of messages) {
      const { worker } = current;
      const process = async (): Promise<void> => {
        const { status, retryInMs } = await worker.handle(decodeWakeUp(text), { capacity: 16 });
        if (status === "done") await scene.storage.wakeUps.delete(receipt);
        else await scene.storage.wakeUps.hide(receipt, text, Math.max(1_000, retryInMs));
      };
      // A message that was received again meanwhile, or a storage fault: it comes back by itself.
      void process().catch(() => undefined);
    }
    if (messages.length < 32) await scene.clock.advance(1_000);
    else await settle();
    if (current.dead()) current = birth();
  }
  expect(life).toBe(kills + 1);
  const report = auditStreams(starts, names, orderIds, size.events);
  expect(report.problems).toEqual([]);
  // Something did go wrong on the way, and each repetition has its reason.
  expect(report.failed).toBeGreaterThan(0);
  expect(await findings(scene)).toEqual([]);
  expect(scene.storage.blobEntries("dead")).toEqual([]);
}

/** Calls that fail now and then although the process lives; answers that are lost. */
function withFaults(storage: Storage, random: () => number, share: number): Storage {
  const wrap = <Port extends object>(port: Port): Port =>
    new Proxy(port, {
      get(target, method, receiver) {
        const real = Reflect.get(target, method, receiver) as (...args: unknown[]) => unknown;
        if (method === "list" || method === "check") return real.bind(target);
        return async (...args: unknown[]) => {
          const fault = random() < share;
          const before = random() < 0.5;
          if (fault && before) throw new OutboxError("unavailable", "the request was lost");
          const result = await (real.apply(target, args) as Promise<unknown>);
          if (fault) throw new OutboxError("unavailable", "the answer was lost");
          return result;
        };
      },
    });
  return { orders: wrap(storage.orders), wakeUps: wrap(storage.wakeUps), leases: wrap(storage.leases), blobs: wrap(storage.blobs) };
}

test.each(Array.from({ length: 25 }, (_, index) => index + 1))("seed %i: 4 subscriptions × 6 orders × 8 events, 4 kills", (seed) =>
  play(seed, SMALL, 4),
);

test.each(FULL_SIZE ? [1, 2, 3] : [1])(
  `seed %i: ${BIG.subscriptions} subscriptions × ${BIG.orders} orders × ${BIG.events} events, 6 kills`,
  { timeout: 300_000 },
  (seed) => play(seed, BIG, 6),
);
