/**
 * "Was it mine?" (C2). Every commit leaves a token in the order entity, numbered along the order. A writer that meets a conflict, because a
 * client repeated its transaction after a lost answer or because another writer was faster, looks for its own token.
 */
import { OutboxError } from "./errors.ts";
import { isEventId, type EventId } from "./event-id.ts";

/** How many commits an order entity remembers. */
export const KEPT_COMMIT_TOKENS = 16;

export interface EventReference {
  readonly id: EventId;
  readonly sequence: number;
  readonly type: string;
  readonly time: string;
}

/** The tokens after one more commit. */
export function appendToken(tokens: readonly string[], token: string): string[] {
  return [...tokens, `${lastNumber(tokens) + 1}:${token}`].slice(-KEPT_COMMIT_TOKENS);
}

/**
 * @param base number of the commit that the writer decided on, from {@link lastNumber}
 * @param tokens what the order remembers by now
 * @returns `unknown` if so many commits came in between that the writer's own may have been pushed out
 */
export function findToken(base: number, tokens: readonly string[], token: string): "mine" | "not-mine" | "unknown" {
  if (tokens.some((entry) => entry.slice(entry.indexOf(":") + 1) === token)) return "mine";
  return lastNumber(tokens) - base <= tokens.length ? "not-mine" : "unknown";
}

/** Number of the newest commit of the order; 0 before the first. */
export function lastNumber(tokens: readonly string[]): number {
  const number = Number(tokens.at(-1)?.split(":", 1)[0] ?? 0);
  return Number.isSafeInteger(number) ? number : 0;
}

/** Enough to recognise an attempt at a commit, and to answer a repetition with its events. */
export interface CommitReference {
  readonly token: string;
  /** See {@link findToken}. */
  readonly base: number;
  readonly events: readonly EventReference[];
}

/**
 * What an `outcome-unknown` error carries: all attempts at the commit, oldest first. Any of them may still land, at most one will, and only
 * its own token tells which events the order got.
 */
export function encodeCommitReferences(attempts: readonly CommitReference[]): string {
  return Buffer.from(JSON.stringify(attempts)).toString("base64url");
}

/** Throws `invalid-option` for anything that {@link encodeCommitReferences} did not write. */
export function decodeCommitReferences(text: string): readonly CommitReference[] {
  try {
    const attempts = JSON.parse(Buffer.from(text, "base64url").toString("utf8")) as unknown;
    if (!Array.isArray(attempts) || attempts.length === 0 || !attempts.every(isReference)) throw new Error("not a list of attempts");
    return attempts;
  } catch (cause) {
    throw new OutboxError("invalid-option", "commitToken is not one that an outcome-unknown error carried", { cause });
  }
}

function isReference(value: unknown): value is CommitReference {
  const { token, base, events } = value as Record<keyof CommitReference, unknown>;
  return typeof token === "string" && isEventId(token) && isWhole(base) && Array.isArray(events) && events.every(isEventReference);
}

function isEventReference(value: unknown): value is EventReference {
  const { id, sequence, type, time } = value as Record<keyof EventReference, unknown>;
  return typeof id === "string" && isEventId(id) && isWhole(sequence) && typeof type === "string" && typeof time === "string";
}

function isWhole(value: unknown): value is number {
  return Number.isSafeInteger(value) && (value as number) >= 0;
}
