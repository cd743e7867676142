/** Options are checked and defaulted here, once. A bad one is refused with its name, its value and what is allowed. */
import { OutboxError, printable } from "./errors.ts";

export interface NumberBounds {
  readonly default: number;
  readonly min: number;
  readonly max: number;
}

/** A whole number within bounds, or the default when undefined. Throws `invalid-option`. */
export function wholeNumber(name: string, value: unknown, bounds: NumberBounds): number {
  if (value === undefined) return bounds.default;
  if (typeof value !== "number" || !Number.isInteger(value) || value < bounds.min || value > bounds.max) {
    throw new OutboxError(
      "invalid-option",
      `${name} is ${typeof value === "number" ? value : printable(JSON.stringify(value) ?? String(value), 60)}: a whole number from ${bounds.min} to ${bounds.max} is allowed (default ${bounds.default})`,
    );
  }
  return value;
}
