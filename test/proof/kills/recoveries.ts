/** From the death of a worker to the next event of the order that it held; if the next holder dies before that, from its death. */
export interface Distribution {
  readonly count: number;
  readonly medianMs: number;
  readonly p90Ms: number;
  readonly p99Ms: number;
  readonly maxMs: number;
}

export class Recoveries {
  readonly #waiting = new Map<string, number>();
  readonly #times: number[] = [];

  get waiting(): number {
    return this.#waiting.size;
  }

  /** @param order what the worker held, if anything */
  killed(order: string | undefined, at: number = performance.now()): void {
    if (order !== undefined) this.#waiting.set(order, at);
  }

  progressed(order: string, at: number = performance.now()): void {
    const since = this.#waiting.get(order);
    if (since === undefined) return;
    this.#waiting.delete(order);
    this.#times.push(at - since);
  }

  distribution(): Distribution {
    const sorted = this.#times.toSorted((left, right) => left - right);
    const at = (share: number): number => Math.round(sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * share))] ?? 0);
    return { count: sorted.length, medianMs: at(0.5), p90Ms: at(0.9), p99Ms: at(0.99), maxMs: at(1) };
  }
}

export function describeDistribution({ count, medianMs, p90Ms, p99Ms, maxMs }: Distribution): string {
  const seconds = (ms: number): string => (ms / 1000).toFixed(1);
  return `${count} orders, median ${seconds(medianMs)} s, 90 % ${seconds(p90Ms)} s, 99 % ${seconds(p99Ms)} s, maximum ${seconds(maxMs)} s`;
}
