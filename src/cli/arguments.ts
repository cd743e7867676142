/** Texts of the command line as values. What can't be one is a usage error. */
import { InvalidArgumentError } from "commander";
import { OutboxError, printable } from "../core/errors.ts";
import { isEventId, type EventId } from "../core/event-id.ts";

/** Bounds are checked where the value is used. */
export function wholeNumberArgument(text: string): number {
  if (!/^[0-9]{1,9}$/.test(text)) throw new InvalidArgumentError("A whole number is needed.");
  return Number(text);
}

const UNITS_MS: Readonly<Record<string, number>> = { s: 1_000, m: 60_000, h: 3_600_000, d: 86_400_000 };

/** `90s`, `15m`, `2h` or `7d` in milliseconds. */
export function durationArgument(text: string): number {
  const match = /^([0-9]{1,6})([smhd])$/.exec(text);
  if (match === null) throw new InvalidArgumentError("A time span like 90s, 15m, 2h or 7d is needed.");
  return Number(match[1]) * UNITS_MS[match[2]!]!;
}

/** Throws `invalid-option`. */
export function eventIdOption(text: string | undefined): EventId | undefined {
  if (text === undefined) return undefined;
  if (!isEventId(text))
    throw new OutboxError("invalid-option", `--event is ${JSON.stringify(printable(text, 60))}: an event id (ULID) is needed`);
  return text;
}
