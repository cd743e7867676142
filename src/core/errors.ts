/**
 * Every way in which this package fails on purpose. The list is closed: callers switch on `error.code`, never on the text.
 *
 * - `invalid-option`: a setting or argument is out of bounds; the message names it, the value and what is allowed.
 * - `invalid-order-id`: the text can't be an OrderId.
 * - `invalid-state`, `invalid-event`: refused by the workflow's schema, or not representable without loss. Nothing was written.
 * - `unknown-event-type`: the workflow doesn't declare this type.
 * - `too-large`: a limit of the storage service would be exceeded. Nothing was written.
 * - `sequence-mismatch`: the order is not at the `expectedSequence`. Nothing was written.
 * - `conflict`: other writers kept winning; of a commit or a decision nothing was written. Safe to repeat.
 * - `outcome-unknown`: the transaction was sent and no answer could be had. Repeat with the same idempotency key or `commitToken`.
 * - `aborted`: the caller's signal ended the call: a commit before anything was written, an operation between two steps, and the steps done
 *   stay done.
 * - `timeout`, `unavailable`: no answer in time; the service is busy, down or unreachable.
 * - `forbidden`: the credential is refused or lacks a role.
 * - `not-found`, `already-exists`, `precondition-failed`: what a conditional storage call ran into.
 * - `lease-taken`, `lease-lost`: the order belongs to another worker.
 * - `corrupt`: stored data that this package did not write, or that was changed behind its back.
 * - `gap`: an event that must exist can't be found; the stream stops rather than skip it.
 * - `handler-missing`: no handler for this event type is deployed yet; the event waits.
 * - `unsupported-account`: the storage account has a feature on that breaks the guarantees.
 * - `storage`: any other answer of the storage service.
 * - `bug`: an assumption of our own code did not hold.
 */
export type ErrorCode =
  | "invalid-option"
  | "invalid-order-id"
  | "invalid-state"
  | "invalid-event"
  | "unknown-event-type"
  | "too-large"
  | "sequence-mismatch"
  | "conflict"
  | "outcome-unknown"
  | "aborted"
  | "timeout"
  | "unavailable"
  | "forbidden"
  | "not-found"
  | "already-exists"
  | "precondition-failed"
  | "lease-taken"
  | "lease-lost"
  | "corrupt"
  | "gap"
  | "handler-missing"
  | "unsupported-account"
  | "storage"
  | "bug";

export interface ErrorDetails {
  /** HTTP status of the storage answer, where there was one. */
  readonly status?: number;
  /** Error code of the storage service, where there was one. */
  readonly serviceCode?: string;
  /** Position of the refused operation inside a table transaction. */
  readonly operationIndex?: number;
  /** For `outcome-unknown`: pass it as `commitToken` to repeat the commit safely. */
  readonly commitToken?: string;
}

/** The one error class of this package. The message starts with the code; `cause` keeps what was underneath. */
export class OutboxError extends Error {
  readonly code: ErrorCode;
  readonly details: ErrorDetails;

  constructor(code: ErrorCode, message: string, options: { cause?: unknown; details?: ErrorDetails } = {}) {
    super(`${code}: ${message}`, "cause" in options ? { cause: options.cause } : undefined);
    this.name = "OutboxError";
    this.code = code;
    this.details = options.details ?? {};
  }
}

/** True for an {@link OutboxError}, of one of the given codes if any are given. */
export function isOutboxError(error: unknown, ...codes: readonly ErrorCode[]): error is OutboxError {
  return error instanceof OutboxError && (codes.length === 0 || codes.includes(error.code));
}

/** The longest error text that is ever stored or logged. */
export const MAX_ERROR_TEXT_LENGTH = 1_000;
const MAX_STACK_LENGTH = 4_000;

/** One bounded line for anything that can be thrown: `undefined`, strings, cyclic objects, errors with 1 MB messages. */
export function describeError(error: unknown): string {
  try {
    return describe(error);
  } catch {
    // Getters and toString can throw whatever they like.
    return "something was thrown that can't be described";
  }
}

/** The stack of an error as one bounded line, if it has one that can be read. */
export function describeStack(error: unknown): string | undefined {
  try {
    if (!(error instanceof Error) || typeof error.stack !== "string") return undefined;
    return error instanceof OutboxError ? oneLine(error.stack, MAX_STACK_LENGTH) : printable(error.stack, MAX_STACK_LENGTH);
  } catch {
    return undefined;
  }
}

function describe(error: unknown): string {
  // What our own messages quote went through `printable` when they were made.
  if (error instanceof OutboxError) return oneLine(error.message.slice(0, MAX_ERROR_TEXT_LENGTH + 1), MAX_ERROR_TEXT_LENGTH);
  let text: string;
  if (error instanceof Error) text = `${error.name}: ${error.message}`;
  else if (typeof error === "string") text = error;
  else return oneLine(jsonOf(error).slice(0, MAX_ERROR_TEXT_LENGTH + 1), MAX_ERROR_TEXT_LENGTH);
  return printable(text.slice(0, MAX_ERROR_TEXT_LENGTH + 1), MAX_ERROR_TEXT_LENGTH);
}

function jsonOf(value: unknown): string {
  try {
    return JSON.stringify(value) ?? String(value);
  } catch {
    return Object.prototype.toString.call(value);
  }
}

/**
 * What a forged log line or a terminal sequence needs, and what can't be seen: control and format characters (bidirectional ones, joiners,
 * tags), ends of lines, characters that are drawn as nothing, and spaces that are not the usual one.
 */
const ACTIVE = "\\p{Cc}\\p{Cf}\\p{Zl}\\p{Zp}\\p{Default_Ignorable_Code_Point}";
const OTHER_SPACE = "(?! )\\p{Zs}";
const ACTIVE_CHARACTER = new RegExp(`[${ACTIVE}]|${OTHER_SPACE}`, "gu");
const ACTIVE_OR_LIKE_AN_ESCAPE = new RegExp(`[${ACTIVE}]|${OTHER_SPACE}|\\\\(?=u[0-9A-Fa-f]{4})`, "gu");

/**
 * `text` without characters that a terminal or a line-based reader acts upon or that can't be seen, cut at `maxLength` UTF-16 units. Each of
 * their units is written as `\u` and four digits, and so is a backslash that such an escape might be read from: two texts that differ never
 * print the same visible characters, unless they are cut. Letters that look alike are left, and so are accents of their own.
 *
 * For texts from outside, once: what went through here already is for {@link oneLine}.
 */
export function printable(text: string, maxLength: number = 200): string {
  return escaped(text, ACTIVE_OR_LIKE_AN_ESCAPE, maxLength);
}

/** As {@link printable}, for texts made of pieces that went through it: escapes that are there already stay as they are. */
export function oneLine(text: string, maxLength: number): string {
  return escaped(text, ACTIVE_CHARACTER, maxLength);
}

function escapedUnits(character: string): string {
  return Array.from({ length: character.length }, (_each, index) => `\\u${character.charCodeAt(index).toString(16).padStart(4, "0")}`).join(
    "",
  );
}

function escaped(text: string, characters: RegExp, maxLength: number): string {
  const whole = text.toWellFormed().replace(characters, escapedUnits);
  return whole.length > maxLength ? `${whole.slice(0, maxLength).toWellFormed()}…` : whole;
}
