/** The index of dead letters: one blob each under `dead/`, so that listing them costs what there are, not what there was (design §3). */
import { OutboxError } from "./errors.ts";
import { isEventId, type EventId } from "./event-id.ts";
import { decodeMetadataText, decodeWhole, encodeMetadataText } from "./metadata-text.ts";
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

/** Dead letters that failed alike share this: the reason without numbers, ids and quotes. */
export function errorGroup(reason: string): string {
  return reason
    .replace(/"[^"]*"|'[^']*'/g, "…")
    .replace(/\b[0-9A-Fa-f]{8}(?:-?[0-9A-Fa-f]{4}){3}-?[0-9A-Fa-f]{12}\b|\b[0-9A-HJKMNP-TV-Z]{26}\b|\d+/g, "#")
    .slice(0, 200);
}
