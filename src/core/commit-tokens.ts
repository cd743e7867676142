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

/** What an `outcome-unknown` error carries: enough to recognise the commit and to answer a repetition with its events. */
export interface CommitReference {
  readonly token: string;
  /** See {@link findToken}. */
  readonly base: number;
  readonly events: readonly EventReference[];
}

export function encodeCommitReference(reference: CommitReference): string {
  return Buffer.from(JSON.stringify(reference)).toString("base64url");
}

/** Throws `invalid-option` for anything that {@link encodeCommitReference} did not write. */
export function decodeCommitReference(text: string): CommitReference {
  try {
    const { token, base, events } = JSON.parse(Buffer.from(text, "base64url").toString("utf8")) as CommitReference;
    if (!isEventId(token) || !Number.isSafeInteger(base) || !events.every(({ id }) => isEventId(id))) throw new Error("not a reference");
    return { token, base, events };
  } catch (cause) {
    throw new OutboxError("invalid-option", "commitToken is not one that an outcome-unknown error carried", { cause });
  }
}
