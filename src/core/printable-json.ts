import { MAX_ERROR_TEXT_LENGTH, oneLine } from "./errors.ts";

/**
 * JSON on one line (or, with `indent`, on several) in which the characters are escaped that a terminal might act upon or that can't be seen;
 * the values stay what they are.
 */
export function printableJson(value: unknown, indent?: number): string {
  const lines = JSON.stringify(value, undefined, indent).split("\n");
  return lines.map((line) => oneLine(line, Number.POSITIVE_INFINITY)).join("\n");
}

/** What a log keeps of a text, as it is: at most {@link MAX_ERROR_TEXT_LENGTH} UTF-16 units and a mark that there was more. */
export function cutText(text: string): string {
  return text.length > MAX_ERROR_TEXT_LENGTH ? `${text.slice(0, MAX_ERROR_TEXT_LENGTH).toWellFormed()}…` : text;
}
