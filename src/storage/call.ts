/** The frame around every request: caller's signal, own deadline (C8), and errors of ours only. */
import { setTimeout as sleep } from "node:timers/promises";
import { OutboxError, isOutboxError } from "../core/errors.ts";
import type { CallOptions } from "../core/ports.ts";
import { storageError, type AnswerReader } from "./storage-error.ts";

export interface Call {
  /** What is being done, for messages: `read order o-1`. */
  readonly what: string;
  /** The deadline, in milliseconds from now, SDK retries included. */
  readonly timeoutMs: number;
  readonly options: CallOptions | undefined;
  /** How the port reads answers that mean something special to it. */
  readonly read?: AnswerReader;
}

/**
 * Runs one request. Settles at the deadline or at the caller's abort even if the request does not: credentials and HTTP clients may
 * ignore the signal they are given. Leaves no timer and no listener behind.
 *
 * Why no `AbortSignal.timeout`: its timer could not be cleared, and a busy worker would carry ten seconds' worth of them.
 */
export async function callStorage<Result>(
  { what, timeoutMs, options, read }: Call,
  request: (signal: AbortSignal) => Promise<Result>,
): Promise<Result> {
  const caller = options?.signal;
  const abortedByCaller = (): OutboxError => new OutboxError("aborted", `${what}: the caller gave up`, { cause: caller?.reason });
  if (caller?.aborted) throw abortedByCaller();

  const controller = new AbortController();
  const end = Promise.withResolvers<never>();
  const giveUp = (error: OutboxError): void => {
    // Reject first: what the request throws on abort must not win the race.
    end.reject(error);
    controller.abort(error);
  };
  const onAbort = (): void => giveUp(abortedByCaller());
  const timer = setTimeout(() => giveUp(new OutboxError("timeout", `${what}: no answer within ${timeoutMs} ms`)), timeoutMs);
  caller?.addEventListener("abort", onAbort, { once: true });
  try {
    return await Promise.race([request(controller.signal), end.promise]);
  } catch (error) {
    throw storageError(error, what, read);
  } finally {
    clearTimeout(timer);
    caller?.removeEventListener("abort", onAbort);
  }
}

const MAX_REPEATS = 2;
const REPEAT_DELAY_MS = 100;

/**
 * Runs `request` under `signal` and repeats it at most twice while it fails with `unavailable` and `mayRepeat` agrees.
 * For clients without SDK retries.
 */
export async function repeatUnavailable<Result>(
  signal: AbortSignal,
  request: () => Promise<Result>,
  mayRepeat: (error: OutboxError) => boolean = () => true,
): Promise<Result> {
  for (let repeats = 0; ; repeats++) {
    try {
      return await request();
    } catch (error) {
      const mapped = storageError(error, "repeatable call");
      if (repeats >= MAX_REPEATS || !isOutboxError(mapped, "unavailable") || !mayRepeat(mapped)) throw error;
    }
    await sleep(REPEAT_DELAY_MS * 2 ** repeats, undefined, { signal });
  }
}
