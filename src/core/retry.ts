/** What becomes of an event whose handler failed (design §6, F1–F3): decided here, done by the worker. */
import { counted } from "./counted.ts";
import { describeError, OutboxError, printable } from "./errors.ts";
import { wholeNumber } from "./options.ts";

/** The handler says: trying again is of no use. The event becomes a dead letter at once. */
export class PermanentError extends Error {
  constructor(message: string, options?: ErrorOptions) {
    super(message, options);
    this.name = "PermanentError";
  }
}

/** The handler says: try again, not before `retryAfterMs` (0 to 7 days; larger values are cut). */
export class RetryableError extends Error {
  readonly retryAfterMs: number;

  constructor(message: string, retryAfterMs: number = 0, options?: ErrorOptions) {
    super(message, options);
    this.name = "RetryableError";
    this.retryAfterMs = retryAfterMs;
  }
}

/**
 * The handler says: whoever this subscription is for is gone for good (an endpoint that answers 410). The subscription is switched off, as
 * `ordered-outbox pause` does it: the event keeps its place without an attempt, and everything waits until somebody resumes the subscription.
 */
export class SubscriptionGoneError extends Error {
  /** Why, for whoever finds the subscription paused. */
  readonly reason: string;

  constructor(reason: string, options?: ErrorOptions) {
    super(reason, options);
    this.name = "SubscriptionGoneError";
    this.reason = reason;
  }
}

/** What happens to a stream when its head becomes a dead letter: it waits for a human, or it goes on without the event. */
export type DeadLetterPolicy = "block" | "skip";

/** Settings of a subscription, or of one event type of it. Everything is optional. */
export interface RetryOptions {
  /** Starts in a burst of short retries. Default 3; 1 to 20. */
  readonly shortStarts?: number;
  /** Wait before the second start of a burst; it doubles with each further one and is drawn from 0 to that (full jitter). Default 1,000; 0 to 60,000. */
  readonly shortDelayMs?: number;
  /** Long waits, each followed by a burst, before the event is dead. Default 10; 0 to 1,000. */
  readonly longRetries?: number;
  /** First long wait; it doubles with each further one. Default 10,000; 1,000 to 2,592,000,000 (30 days). */
  readonly longDelayMs?: number;
  /** Longest long wait. Default 1,800,000 (30 minutes); `longDelayMs` to 2,592,000,000. */
  readonly longMaxDelayMs?: number;
  /** How long a handler may take before it counts as failed and its signal aborts. Default 60,000; 10 to 3,600,000. */
  readonly timeoutMs?: number;
  /** After how many starts in a row that ended with the process the event is dead. Default 5; 1 to 100. */
  readonly maxCrashes?: number;
  /** Default `block`. */
  readonly onDead?: DeadLetterPolicy;
}

export type RetryPolicy = Readonly<Required<RetryOptions>>;

const MAX_LONG_DELAY_MS = 30 * 24 * 60 * 60 * 1000;
/** The longest wait that a handler can ask for. */
export const MAX_RETRY_AFTER_MS: number = 7 * 24 * 60 * 60 * 1000;
/** A wait up to this is spent inside the round; a longer one parks the event. */
const MAX_WAIT_IN_ROUND_MS = 5_000;

/** @param name of the subscription (and event type), for messages. Throws `invalid-option`. */
export function resolveRetryPolicy(name: string, options: RetryOptions = {}): RetryPolicy {
  const at = (option: keyof RetryOptions): string => `${name}: ${option}`;
  const onDead: unknown = options.onDead ?? "block";
  if (onDead !== "block" && onDead !== "skip") {
    throw new OutboxError("invalid-option", `${at("onDead")} is ${JSON.stringify(onDead)}: "block" or "skip" is allowed (default "block")`);
  }
  const longDelayMs = wholeNumber(at("longDelayMs"), options.longDelayMs, { default: 10_000, min: 1_000, max: MAX_LONG_DELAY_MS });
  return {
    shortStarts: wholeNumber(at("shortStarts"), options.shortStarts, { default: 3, min: 1, max: 20 }),
    shortDelayMs: wholeNumber(at("shortDelayMs"), options.shortDelayMs, { default: 1_000, min: 0, max: 60_000 }),
    longRetries: wholeNumber(at("longRetries"), options.longRetries, { default: 10, min: 0, max: 1_000 }),
    longDelayMs,
    longMaxDelayMs: wholeNumber(at("longMaxDelayMs"), options.longMaxDelayMs, {
      default: Math.max(1_800_000, longDelayMs),
      min: longDelayMs,
      max: MAX_LONG_DELAY_MS,
    }),
    timeoutMs: wholeNumber(at("timeoutMs"), options.timeoutMs, { default: 60_000, min: 10, max: 3_600_000 }),
    maxCrashes: wholeNumber(at("maxCrashes"), options.maxCrashes, { default: 5, min: 1, max: 100 }),
    onDead,
  };
}

export type RetryDecision =
  /** Start it again in this round, after the wait. */
  | { readonly kind: "again"; readonly delayMs: number }
  /** Give the order back and look again after the wait; nothing of the stream passes meanwhile. */
  | { readonly kind: "park"; readonly delayMs: number }
  | { readonly kind: "dead"; readonly reason: string };

/**
 * Bursts of short retries alternate with long waits: `shortStarts` starts, 10 s, `shortStarts` starts, 20 s, … until `longRetries` waits
 * have been spent.
 *
 * @param attempts starts so far, the failed one included
 * @param random a number in [0, 1)
 */
export function decideRetry(policy: RetryPolicy, attempts: number, error: unknown, random: number): RetryDecision {
  if (isA(PermanentError, error)) return { kind: "dead", reason: describeError(error) };
  const askedMs = isA(RetryableError, error) ? retryAfterOf(error) : 0;
  // Starts that ended with their process are counted too, so a burst need not end with a failure.
  if (attempts >= policy.shortStarts * (policy.longRetries + 1)) {
    return { kind: "dead", reason: `gave up after ${counted(attempts, "start")}: ${describeError(error)}` };
  }
  const inBurst = attempts % policy.shortStarts;
  if (inBurst !== 0) {
    const delayMs = Math.max(askedMs, Math.floor(random * policy.shortDelayMs * 2 ** (inBurst - 1)));
    return { kind: delayMs <= MAX_WAIT_IN_ROUND_MS ? "again" : "park", delayMs };
  }
  const waits = attempts / policy.shortStarts;
  const delayMs = Math.max(askedMs, Math.min(policy.longMaxDelayMs, policy.longDelayMs * 2 ** (waits - 1)));
  return { kind: "park", delayMs };
}

/** Longest reason of a pause. */
const MAX_REASON_LENGTH = 499;

/** Why the subscription is to be switched off; undefined if the error does not say so. */
export function goneReason(error: unknown): string | undefined {
  if (!isA(SubscriptionGoneError, error)) return undefined;
  try {
    const reason: unknown = error.reason;
    if (typeof reason === "string" && reason.trim() !== "") return printable(reason, MAX_REASON_LENGTH);
  } catch {
    // A getter of the handler's own.
  }
  return "its handler says that it is gone";
}

/** Has whoever the event was for answered, if only to refuse it? Then it is not down (F8). */
export function isAnswer(error: unknown): boolean {
  return isA(PermanentError, error) || isA(SubscriptionGoneError, error);
}

/** What is thrown may be anything, a revoked Proxy too: asking for its class must not throw. */
function isA<Kind extends Error>(kind: abstract new (...args: never) => Kind, error: unknown): error is Kind {
  try {
    return error instanceof kind;
  } catch {
    return false;
  }
}

function retryAfterOf(error: RetryableError): number {
  try {
    const ms: unknown = error.retryAfterMs;
    return clampRetryAfter(Number(ms));
  } catch {
    return 0;
  }
}

function clampRetryAfter(ms: number): number {
  return ms > 0 ? Math.min(MAX_RETRY_AFTER_MS, Math.ceil(ms)) : 0;
}
