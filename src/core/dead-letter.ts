/** The index of dead letters: one blob each under `dead/`, so that listing them costs what there are, not what there was (design §3). */
import { oneLine, OutboxError, printable } from "./errors.ts";
import { isEventId, type EventId } from "./event-id.ts";
import { decodeMetadataText, decodeWhole, encodeMetadataText } from "./metadata-text.ts";
import { encodeOrderId, type OrderId } from "./order-id.ts";
import type { DeadLetterPolicy } from "./retry.ts";
import type { FailureRecord } from "./pending-event.ts";

export interface DeadLetter {
  readonly orderId: string;
  readonly subscription: string;
  readonly id: EventId;
  readonly sequence: number;
  /** Undefined if the event can't be read. */
  readonly type: string | undefined;
  /** Why it is dead. */
  readonly reason: string;
  readonly attempts: number;
  /** Under `skip` the stream has gone on without the event. */
  readonly policy: DeadLetterPolicy;
  /** ISO 8601. */
  readonly diedAt: string;
  readonly history: readonly FailureRecord[];
}

/** What a listing shows of a dead letter. */
export type DeadLetterSummary = Pick<DeadLetter, "sequence" | "type" | "reason" | "attempts" | "policy" | "diedAt">;

const MAX_ENCODED_REASON = 3_000;

export function encodeDeadLetter(letter: DeadLetter): { readonly bytes: Uint8Array; readonly metadata: Record<string, string> } {
  return {
    bytes: new TextEncoder().encode(JSON.stringify(letter)),
    metadata: {
      sequence: String(letter.sequence),
      ...(letter.type === undefined ? {} : { type: encodeMetadataText(letter.type, 600) }),
      reason: encodeMetadataText(letter.reason === "" ? "unknown" : letter.reason, MAX_ENCODED_REASON),
      attempts: String(letter.attempts),
      policy: letter.policy,
      diedat: letter.diedAt,
    },
  };
}

/** Undefined for metadata that {@link encodeDeadLetter} did not write. */
export function decodeDeadLetterSummary(metadata: Readonly<Record<string, string>>): DeadLetterSummary | undefined {
  const sequence = decodeWhole(metadata["sequence"]);
  const { type, reason, policy, diedat } = metadata;
  if (sequence === undefined || reason === undefined || diedat === undefined) return undefined;
  return {
    sequence,
    type: type === undefined ? undefined : decodeMetadataText(type),
    reason: decodeMetadataText(reason),
    attempts: decodeWhole(metadata["attempts"]) ?? 0,
    policy: policy === "skip" ? "skip" : "block",
    diedAt: diedat,
  };
}

/** Throws `corrupt` for bytes that {@link encodeDeadLetter} did not write. */
export function decodeDeadLetter(bytes: Uint8Array): DeadLetter {
  try {
    const letter = JSON.parse(new TextDecoder("utf-8", { fatal: true }).decode(bytes)) as DeadLetter;
    if (
      typeof letter.id !== "string" ||
      !isEventId(letter.id) ||
      typeof letter.subscription !== "string" ||
      !Array.isArray(letter.history)
    ) {
      throw new Error("no dead letter");
    }
    return letter;
  } catch (cause) {
    throw new OutboxError("corrupt", "the blob is no dead letter of ours", { cause });
  }
}

/** The longest text of a group; it is shown as a whole, so that it can be given back. */
export const MAX_ERROR_GROUP_LENGTH = 200;

/**
 * What differs between failures of one kind: times, ids, hexadecimal numbers and digests, numbers. The longest form first. A status of HTTP,
 * caught as the group `status`, is the kind itself: what a receiver answers with 401 and with 422 has not the same cause.
 */
const VARIABLE = new RegExp(
  [
    /(?<=\b(?:answered|status|status code|http(?:\/\d(?:\.\d)?)?)[ :=]{1,2})(?<status>[1-5]\d\d)(?![0-9A-Za-z]|[.,-]\d)/,
    /\d{4}-\d\d-\d\d(?:[T ]\d\d:\d\d(?::\d\d(?:[.,]\d+)?)?(?:Z|[+-]\d\d:?\d\d)?)?/,
    /(?<![0-9A-Za-z])[0-9a-f]{8}(?:-?[0-9a-f]{4}){3}-?[0-9a-f]{12}(?![0-9A-Za-z])/,
    /(?<![0-9A-Za-z])[0-9A-HJKMNP-TV-Z]{26}(?![0-9A-Za-z])/,
    /(?<![0-9A-Za-z])0x[0-9a-f]+(?![0-9A-Za-z])/,
    /(?<![0-9A-Za-z])(?=[0-9a-f]*\d)(?=\d*[a-f])[0-9a-f]{6,}(?![0-9A-Za-z])/,
    /\d+(?:[.,]\d+)*/,
  ]
    .map(({ source }) => source)
    .join("|"),
  "gi",
);

/**
 * Dead letters that failed alike share this: the reason with `#` for the order's own id, times, ids and numbers (but for the status of an HTTP answer), and `…` for what is quoted.
 * One printable line without spaces at its ends.
 */
export function errorGroup(reason: string, orderId: OrderId): string {
  const text = reason
    .replaceAll(ownId(orderId), "#")
    .replaceAll(/"[^"]*"|(?<![\p{L}\p{N}])'[^']*'(?![\p{L}\p{N}])/gu, "…")
    .replaceAll(VARIABLE, (...match) => (match.at(-1) as { readonly status?: string }).status ?? "#")
    .replaceAll(/\s+/g, " ")
    .trim();
  return oneLine(text, MAX_ERROR_GROUP_LENGTH).trimEnd();
}

/** The id as texts have it: as it is, printable, in keys and blob names, in addresses. Never inside of a longer word or number. */
function ownId(orderId: OrderId): RegExp {
  const forms = [orderId, printable(orderId), encodeOrderId(orderId), encodeURIComponent(orderId)];
  const alternatives = [...new Set(forms)].sort((a, b) => b.length - a.length).map(inRegExp);
  return new RegExp(`(?<![\\p{L}\\p{N}])(?:${alternatives.join("|")})(?![\\p{L}\\p{N}])`, "gu");
}

function inRegExp(text: string): string {
  return text.replaceAll(/[$()*+./?[\\\]^{|}]/g, "\\$&");
}
