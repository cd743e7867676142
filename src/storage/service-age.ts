import { OutboxError } from "../core/errors.ts";

/**
 * How long ago something changed, by the clock of the service alone: the date of its answer less the date of the change. Ours may be hours
 * off, and retention must not follow it (F7).
 *
 * @returns milliseconds, at least 0: the date of an answer has whole seconds, and the service has more than one machine
 */
export function serviceAge(answeredAt: Date | undefined, changedAt: Date | undefined, what: string): number {
  const ageMs = (answeredAt?.getTime() ?? Number.NaN) - (changedAt?.getTime() ?? Number.NaN);
  if (Number.isNaN(ageMs)) throw new OutboxError("storage", `${what}: the service answered without its date or that of the change`);
  return Math.max(0, ageMs);
}
