/** Texts of the command line as values. What can't be one is a usage error. */
import { InvalidArgumentError, Option } from "commander";
import { OutboxError, printable } from "../core/errors.ts";
import { isEventId, type EventId } from "../core/event-id.ts";
import { assertSubscriptionName } from "../core/names.ts";
import { OUTBOX_PAGES } from "../operations/unrelayed.ts";

export interface ArgumentBounds {
  readonly min: number;
  readonly max: number;
  /** A word for what a number can't say: `all`. */
  readonly default: number | string;
}

/** An option that takes a whole number. Its help tells bounds and default. */
export function numberOption(flags: string, meaning: string, bounds: ArgumentBounds): Option {
  const { min, max } = bounds;
  return new Option(flags, `${meaning}: ${min} to ${max} (default: ${bounds.default})`).argParser((text) => {
    const value = /^[0-9]{1,10}$/.test(text) ? Number(text) : Number.NaN;
    if (!(value >= min && value <= max)) throw new InvalidArgumentError(`A whole number from ${min} to ${max} is needed.`);
    return value;
  });
}

/** How commands that look for unrelayed events bound that look. */
export function outboxPagesOption(): Option {
  return numberOption("--max-pages <pages>", "pages of the table to look through for events that are not relayed", OUTBOX_PAGES);
}

/** What is said when that look ended before the end of the table. */
export const STOPPED_EARLY = "The look through the table stopped early, there may be more: see --max-pages.";

/** The biggest first. */
const UNITS_MS = [
  ["d", 86_400_000],
  ["h", 3_600_000],
  ["m", 60_000],
  ["s", 1_000],
] as const;

/**
 * An option that takes a time span: `90s`, `15m`, `2h` or `7d`; its value and its bounds are milliseconds. Its help tells bounds and default.
 *
 * @param settings `bareSeconds`: a number without a unit is one of seconds. Default: it is refused, since it might be meant as anything.
 */
export function spanOption(
  flags: string,
  meaning: string,
  bounds: ArgumentBounds,
  settings: { readonly bareSeconds?: boolean } = {},
): Option {
  const { min, max } = bounds;
  const fallback = typeof bounds.default === "number" ? spanText(bounds.default) : bounds.default;
  return new Option(flags, `${meaning}: ${spanText(min)} to ${spanText(max)} (default: ${fallback})`).argParser((text) => {
    const [, count, unit = settings.bareSeconds === true ? "s" : undefined] = /^([0-9]{1,9})([smhd])?$/.exec(text) ?? [];
    const value = Number(count) * (UNITS_MS.find(([name]) => name === unit)?.[1] ?? Number.NaN);
    if (value >= min && value <= max) return value;
    throw new InvalidArgumentError(`A time span like 90s, 15m, 2h or 7d is needed, from ${spanText(min)} to ${spanText(max)}.`);
  });
}

/** In the biggest unit that leaves nothing over. */
function spanText(ms: number): string {
  const [unit, size] = UNITS_MS.find(([, unitMs]) => ms > 0 && ms % unitMs === 0) ?? (["s", 1_000] as const);
  return `${ms / size}${unit}`;
}

/** Throws `invalid-option`. */
export function subscriptionOption(name: string | undefined): string | undefined {
  if (name !== undefined) assertSubscriptionName(name);
  return name;
}

/** Throws `invalid-option`. */
export function eventIdOption(text: string | undefined): EventId | undefined {
  if (text === undefined) return undefined;
  if (!isEventId(text))
    throw new OutboxError(
      "invalid-option",
      `--event is "${printable(text, 60)}": an event id (ULID) is needed, as \`orders show\` has them`,
    );
  return text;
}
