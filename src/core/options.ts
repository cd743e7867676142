/** Options are checked and defaulted here, once. A bad one is refused with its name, its value and what is allowed. */
import { describeError, OutboxError, printable } from "./errors.ts";

export interface NumberBounds {
  readonly default: number;
  readonly min: number;
  readonly max: number;
  /** What the message calls a default that is no number. */
  readonly defaultText?: string;
}

/** A whole number within bounds, or the default when undefined. Throws `invalid-option`. */
export function wholeNumber(name: string, value: unknown, bounds: NumberBounds): number {
  if (value === undefined) return bounds.default;
  if (typeof value !== "number" || !Number.isInteger(value) || value < bounds.min || value > bounds.max) {
    throw new OutboxError(
      "invalid-option",
      `${name} is ${valueText(value)}: a whole number from ${bounds.min} to ${bounds.max} is allowed (default ${bounds.defaultText ?? bounds.default})`,
    );
  }
  return value;
}

function valueText(value: unknown): string {
  if (typeof value === "number") return String(value);
  return printable(typeof value === "string" ? JSON.stringify(value) : describeError(value), 60);
}
