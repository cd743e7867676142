/**
 * The loop around the naive worker. Not the package's own host: that one keeps a single wake-up of an order that is to come back, because one
 * stands for all events; here every message stands for an event of its own.
 */
import { setTimeout as delay } from "node:timers/promises";
import type { ReceivedWakeUp, WakeUpQueue } from "../../src/core/ports.ts";
import type { Worker } from "../../src/worker/round-result.ts";
import type { RunningHost } from "./until-handled.ts";

const VISIBILITY_MS = 60_000;
/** The shortest time for which a queue hides a message. */
const COMES_BACK_MS = 1_000;

export function startNaiveHost(
  worker: Worker,
  wakeUps: WakeUpQueue,
  options: { readonly concurrency: number; readonly pollMs: number },
): RunningHost {
  const { concurrency, pollMs } = options;
  const inFlight = new Set<Promise<void>>();
  const failure = Promise.withResolvers<never>();
  let stopped = false;

  /** A failed message would come back a minute later, and the run measure that. */
  function fail(error: unknown): void {
    stopped = true;
    failure.reject(error);
  }

  async function handle({ text, receipt }: ReceivedWakeUp): Promise<void> {
    const { status } = await worker.handle(JSON.parse(text) as string);
    await (status === "done" ? wakeUps.delete(receipt) : wakeUps.hide(receipt, text, COMES_BACK_MS));
  }

  async function poll(): Promise<void> {
    while (!stopped) {
      const free = concurrency - inFlight.size;
      if (free === 0) {
        await Promise.race(inFlight);
        continue;
      }
      const messages = await wakeUps.receive(free, VISIBILITY_MS);
      for (const message of messages) {
        const work = handle(message)
          .catch(fail)
          .finally(() => inFlight.delete(work));
        inFlight.add(work);
      }
      if (messages.length === 0) await delay(pollMs);
    }
    await Promise.all(inFlight);
  }

  const loop = poll().catch(fail);
  return {
    inFlight: () => inFlight.size,
    failed: failure.promise,
    stop: () => {
      stopped = true;
      return loop;
    },
  };
}
