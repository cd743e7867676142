import { oneLine } from "./errors.ts";

/**
 * JSON on one line (or, with `indent`, on several) in which the characters are escaped that a terminal might act upon or that can't be seen;
 * the values stay what they are.
 */
export function printableJson(value: unknown, indent?: number): string {
  const lines = JSON.stringify(value, undefined, indent).split("\n");
  return lines.map((line) => oneLine(line, Number.POSITIVE_INFINITY)).join("\n");
}
