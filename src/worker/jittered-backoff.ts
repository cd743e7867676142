/** Growing delays that many hosts don't spend in step. */
export interface BackoffRange {
  /** No delay is shorter. */
  readonly minMs: number;
  /** No delay is longer. */
  readonly maxMs: number;
}

/**
 * A whole number of milliseconds, evenly spread between `minMs` and a ceiling that doubles with every attempt until it reaches `maxMs`.
 *
 * @param attempts how often it went wrong (or was in vain) in a row, at least 1
 * @param random returns numbers in [0, 1)
 */
export function jitteredBackoff({ minMs, maxMs }: BackoffRange, attempts: number, random: () => number): number {
  const ceilingMs = Math.min(maxMs, minMs * 2 ** attempts);
  return Math.round(minMs + random() * (ceilingMs - minMs));
}
