/** The receiver's side: is this request from somebody who knows the secret, and from now? */
import { timingSafeEqual } from "node:crypto";
import { isOutboxError } from "../core/errors.ts";
import { systemClock } from "../system/clock.ts";
import { signatures, signerOf } from "./secrets.ts";

/** Header names in lower case, as Node and most frameworks give them; or a `Headers` object. */
export type ReceivedHeaders = Headers | Readonly<Record<string, string | readonly string[] | undefined>>;

export interface VerifyWebhookOptions {
  /** Default: the system clock. Milliseconds since 1970. */
  readonly nowMs?: number;
  /** How far the timestamp may be from now, in both directions. Default 300,000. */
  readonly toleranceMs?: number;
}

/**
 * - `bad-secret`: none or an unusable one was given, the receiver is configured wrongly.
 * - `missing-header`: `webhook-id`, `webhook-timestamp` or `webhook-signature` is missing, empty or there more than once.
 * - `bad-timestamp`: no whole number of seconds. `too-old`, `too-new`: outside the tolerance.
 * - `bad-body`: not UTF-8.
 * - `bad-signature`: no signature fits any secret.
 */
export type WebhookRefusal = "bad-secret" | "missing-header" | "bad-timestamp" | "too-old" | "too-new" | "bad-body" | "bad-signature";

export type VerifiedWebhook =
  | {
      readonly ok: true;
      /** The event's id: the same for every attempt, the idempotency key. */
      readonly id: string;
      /** When this attempt was sent, in ms since 1970. */
      readonly timestampMs: number;
      /** The event, exactly as it was committed. */
      readonly text: string;
    }
  | { readonly ok: false; readonly reason: WebhookRefusal };

const DEFAULT_TOLERANCE_MS = 300_000;
/** A sender has two secrets at most; a header full of guesses is not worth the time. */
const MAX_SIGNATURES = 16;

/**
 * Verifies a received webhook by Standard Webhooks. Never throws, whatever was received.
 *
 * @param secrets `whsec_…`; during a rotation both
 * @param rawBody the bytes as they came: a body that was parsed and serialised again has another signature
 */
export function verifyWebhook(
  secrets: string | readonly string[],
  headers: ReceivedHeaders,
  rawBody: Uint8Array | string,
  options: VerifyWebhookOptions = {},
): VerifiedWebhook {
  const { nowMs = systemClock.now(), toleranceMs = DEFAULT_TOLERANCE_MS } = options;
  const signers = signersOf(secrets);
  if (signers === undefined) return refused("bad-secret");
  const id = headerOf(headers, "webhook-id");
  const timestamp = headerOf(headers, "webhook-timestamp");
  const signature = headerOf(headers, "webhook-signature");
  if (id === undefined || timestamp === undefined || signature === undefined) return refused("missing-header");
  if (!/^\d{1,12}$/.test(timestamp)) return refused("bad-timestamp");
  const timestampMs = Number(timestamp) * 1_000;
  // In whole seconds, as the sender counts. Asked this way round, a time that is no number is refused too.
  const ageMs = Math.floor(nowMs / 1_000) * 1_000 - timestampMs;
  if (!(ageMs <= toleranceMs)) return refused("too-old");
  if (!(ageMs >= -toleranceMs)) return refused("too-new");
  const text = textOf(rawBody);
  if (text === undefined) return refused("bad-body");
  const given = signature.split(" ", MAX_SIGNATURES);
  const fits = signatures(signers, id, timestampMs, text)
    .split(" ")
    .some((expected) => given.some((candidate) => equal(candidate, expected)));
  return fits ? { ok: true, id, timestampMs, text } : refused("bad-signature");
}

function refused(reason: WebhookRefusal): VerifiedWebhook {
  return { ok: false, reason };
}

function signersOf(secrets: string | readonly string[]): ReturnType<typeof signerOf>[] | undefined {
  // From JavaScript, a setting that is missing comes as undefined.
  const all: unknown = typeof secrets === "string" ? [secrets] : secrets;
  if (!Array.isArray(all) || all.length === 0) return undefined;
  try {
    return all.map((secret) => signerOf("secret", secret));
  } catch (error) {
    if (isOutboxError(error, "invalid-option")) return undefined;
    throw error;
  }
}

function headerOf(headers: ReceivedHeaders, name: string): string | undefined {
  const value = headers instanceof Headers ? headers.get(name) : headers?.[name];
  const single: unknown = Array.isArray(value) && value.length === 1 ? value[0] : value;
  return typeof single === "string" && single !== "" ? single : undefined;
}

/** Not what a tolerant decoder makes of it: other bytes with the same replacement characters would pass for the signed ones. */
function textOf(rawBody: unknown): string | undefined {
  if (typeof rawBody === "string") return rawBody.isWellFormed() ? rawBody : undefined;
  try {
    return new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }).decode(rawBody as Uint8Array);
  } catch {
    return undefined;
  }
}

/** Takes the same time for every wrong text of the right length; the length itself is no secret. */
function equal(given: string, expected: string): boolean {
  const bytes = Buffer.from(given);
  const expectedBytes = Buffer.from(expected);
  return bytes.length === expectedBytes.length && timingSafeEqual(bytes, expectedBytes);
}
