/** What an answer means for the event. */
import { printable } from "../core/errors.ts";
import { PermanentError, RetryableError, SubscriptionGoneError } from "../core/retry.ts";
import { retryAfterMs } from "./retry-after.ts";

/** What becomes of an event that the receiver refuses with a 4xx that no retry is known to help with. */
export type ClientErrorPolicy = "dead" | "retry";

export interface Answer {
  readonly status: number;
  readonly retryAfter: string | undefined;
  /** The beginning of the body, as it came. */
  readonly bytes: Uint8Array;
  /** `Content-Encoding`, if it has one. */
  readonly encoding: string | undefined;
}

export interface AnswerContext {
  /** Scheme, host and port of the receiver; path and query may be a key. */
  readonly origin: string;
  readonly clientErrors: ClientErrorPolicy;
  readonly nowMs: number;
  readonly redact: (text: string) => string;
}

const MAX_EXCERPT_LENGTH = 200;
/** Request timeout, too early, too many requests: the receiver asks for another try. */
const RETRYABLE: ReadonlySet<number> = new Set([408, 425, 429]);

/** Returns when the answer says that the event has arrived. Throws what the worker is to do with it otherwise. */
export function judgeAnswer(answer: Answer, context: AnswerContext): void {
  const { status } = answer;
  if (status >= 200 && status < 300) return;
  const redirected = status >= 300 && status < 400 ? " (redirects are not followed)" : "";
  const text = `${context.origin} answered ${status}${redirected}${excerpt(answer, context.redact)}`;
  if (status === 410) throw new SubscriptionGoneError(text);
  const refused = status >= 400 && status < 500 && !RETRYABLE.has(status);
  if (refused && context.clientErrors === "dead") throw new PermanentError(text);
  throw new RetryableError(text, retryAfterMs(answer.retryAfter, context.nowMs));
}

function excerpt({ bytes, encoding }: Answer, redact: (text: string) => string): string {
  if (bytes.length === 0) return "";
  // Never unpacked: an answer can be a bomb, and nobody asked for a packed one.
  if (encoding !== undefined && encoding !== "identity") return `: a body in ${printable(encoding, 20)}`;
  return `: ${printable(redact(new TextDecoder().decode(bytes)).trim(), MAX_EXCERPT_LENGTH)}`;
}
