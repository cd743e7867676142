/** Is a figure flat? The line of least squares through its samples tells how much it grows from the first to the last. */

export interface Bounds {
  /** Growth that is no growth: of the mean. */
  readonly share: number;
  /** Growth that is no growth, whatever the mean. */
  readonly least: number;
}

export interface Trend {
  readonly first: number;
  readonly last: number;
  readonly mean: number;
  readonly highest: number;
  /** By the line, over all samples. */
  readonly growth: number;
  /** What it may grow. */
  readonly allowed: number;
  readonly isFlat: boolean;
}

/** @param values at equal intervals, at least two */
export function trendOf(values: readonly number[], { share, least }: Bounds): Trend {
  const mean = values.reduce((sum, value) => sum + value, 0) / values.length;
  const middle = (values.length - 1) / 2;
  const covariance = values.reduce((sum, value, index) => sum + (index - middle) * (value - mean), 0);
  const variance = values.reduce((sum, _value, index) => sum + (index - middle) ** 2, 0);
  const growth = (covariance / variance) * (values.length - 1);
  const allowed = Math.max(least, share * mean);
  return { first: values[0]!, last: values.at(-1)!, mean, highest: Math.max(...values), growth, allowed, isFlat: growth <= allowed };
}
