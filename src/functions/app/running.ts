/**
 * What runs in this process, and its end. The host waits 5 s for `appTerminate`, then kills; Node gets no signal for a single invocation. So:
 * no new events at once, the abort signal to what still runs after a while, and time left for leases to be released and telemetry to be sent.
 */
import { setTimeout as delay } from "node:timers/promises";
import { OutboxError } from "../../core/errors.ts";
import { startedApplication } from "./application.ts";

/** Together well below the 5 s of the host. */
const QUIET_END_MS = 2_500;
const ABORTED_END_MS = 1_500;

const running = new Set<Promise<unknown>>();
const abort = new AbortController();

/** Aborts when what runs has to end. */
export const aborting: AbortSignal = abort.signal;

/** Keeps the process from ending before the work does, for a while. */
export async function tracked<Result>(work: () => Promise<Result>): Promise<Result> {
  const promise = work();
  // The set's own copy never rejects: the failure is for whoever called.
  const ended = promise.then(
    () => {},
    () => {},
  );
  running.add(ended);
  try {
    return await promise;
  } finally {
    running.delete(ended);
  }
}

/** Resolves when nothing runs any more, or the time is over. Never rejects. */
export async function stopRunning(): Promise<void> {
  startedApplication()?.worker.stopStarting();
  if (await allEndWithin(QUIET_END_MS)) return;
  abort.abort(new OutboxError("aborted", "the function app stops"));
  await allEndWithin(ABORTED_END_MS);
}

async function allEndWithin(ms: number): Promise<boolean> {
  const timer = new AbortController();
  const timeIsOver = delay(ms, false, { signal: timer.signal }).catch(() => false);
  try {
    return await Promise.race([Promise.all(running).then(() => true), timeIsOver]);
  } finally {
    timer.abort();
  }
}
