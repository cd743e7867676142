/** A run from the start of the worker hosts until the last event is handled and nothing is in hand any more. */
import { setTimeout as delay } from "node:timers/promises";

export interface RunningHost {
  /** Wake-ups in work. */
  readonly inFlight: () => number;
  /** Rejects with the first error that makes the run worthless. Undefined if the host sees to its errors itself. */
  readonly failed?: Promise<never>;
  readonly stop: () => Promise<unknown>;
}

export interface HandledRun {
  readonly ms: number;
  /** The longest time in which no handler was called. */
  readonly longestPauseMs: number;
}

export interface Run<Result> {
  /** For errors. */
  readonly name: string;
  /** Handler calls to wait for. */
  readonly events: number;
  readonly deadlineMs: number;
  readonly startHosts: (handle: () => void) => readonly RunningHost[];
  /** What goes on beside the hosts: commits. */
  readonly work: () => Promise<unknown>;
  /** Called at the end, before the hosts are stopped. */
  readonly result: (run: HandledRun) => Result;
}

/** Throws the first error of `work` or of a host, and if the deadline passes. */
export async function untilHandled<Result>({ name, events, deadlineMs, startHosts, work, result }: Run<Result>): Promise<Result> {
  const startedAt = performance.now();
  let handled = 0;
  let [lastAt, longestPauseMs] = [startedAt, 0];
  const all = Promise.withResolvers<void>();
  const handle = (): void => {
    const now = performance.now();
    longestPauseMs = Math.max(longestPauseMs, now - lastAt);
    lastAt = now;
    handled += 1;
    if (handled === events) all.resolve();
  };
  const late = Promise.withResolvers<never>();
  const timer = setTimeout(
    () => late.reject(new Error(`${name}: ${handled} of ${events} events were handled within ${deadlineMs} ms`)),
    deadlineMs,
  );
  const hosts = startHosts(handle);
  const idle = async (): Promise<void> => {
    await work();
    await all.promise;
    while (hosts.some((host) => host.inFlight() > 0)) await delay(1);
  };
  try {
    await Promise.race([idle(), late.promise, ...hosts.flatMap(({ failed }) => failed ?? [])]);
    return result({ ms: performance.now() - startedAt, longestPauseMs });
  } finally {
    clearTimeout(timer);
    await Promise.all(hosts.map((host) => host.stop()));
  }
}
