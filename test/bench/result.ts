/** What a part of the bench finds. */

export interface Goal {
  readonly atLeast?: number;
  readonly atMost?: number;
}

/** A number that there is a goal for. */
export interface Figure {
  readonly name: string;
  readonly value: number;
  readonly unit: string;
  readonly goal: Goal;
}

export interface Table {
  readonly title: string;
  readonly columns: readonly string[];
  readonly rows: readonly (readonly string[])[];
  /** Not for the README. */
  readonly detail?: true;
}

export interface PartResult {
  readonly figures: readonly Figure[];
  readonly tables: readonly Table[];
  /** What has to be known to read the tables. */
  readonly notes: readonly string[];
}

/** A part's result with what was going on around it. */
export interface FinishedPart extends PartResult {
  readonly name: string;
  readonly title: string;
  readonly seconds: number;
  /** Processors of the machine that others kept busy meanwhile, on average: above 0.2 the part's times are not to be trusted much. */
  readonly busyWithOthers: number;
}

export interface FailedPart {
  readonly name: string;
  readonly title: string;
  readonly error: string;
}

export interface PartContext {
  /** Tells how far the part is. */
  readonly tell: (text: string) => void;
}

export function isReached({ value, goal: { atLeast, atMost } }: Figure): boolean {
  return !Number.isNaN(value) && (atLeast === undefined || value >= atLeast) && (atMost === undefined || value <= atMost);
}

/** Three significant digits, as many as a measurement is good for. */
export function short(value: number): string {
  if (!Number.isFinite(value)) return "–";
  if (value === 0) return "0";
  if (Math.abs(value) >= 1_000) return Math.round(value).toLocaleString("en-US");
  return String(Number(value.toPrecision(3)));
}

export function dollars(value: number): string {
  return `$${value.toFixed(2)}`;
}

export function median(values: readonly number[]): number {
  const sorted = values.toSorted((left, right) => left - right);
  const middle = sorted.length / 2;
  return sorted.length % 2 === 1 ? sorted[Math.floor(middle)]! : (sorted[middle - 1]! + sorted[middle]!) / 2;
}
