/** From counted calls to dollars. */
import type { CallCounts, PriceClass } from "../../src/storage/call-counter.ts";
import { CALLS_PER_10_000, SERVICE_BUS_STANDARD } from "./prices.ts";

export const MILLION = 1_000_000;

export function dollarsOf({ byPriceClass }: Pick<CallCounts, "byPriceClass">): number {
  return Object.entries(byPriceClass).reduce(
    (sum, [priceClass, count]) => sum + (count / 10_000) * CALLS_PER_10_000[priceClass as PriceClass],
    0,
  );
}

export function dollarsPerMillion(calls: Pick<CallCounts, "byPriceClass">, events: number): number {
  return (dollarsOf(calls) / events) * MILLION;
}

/** A month of Service Bus Standard: base charge, and operations by their steps. */
export function serviceBusMonth(operations: number): number {
  const { baseAMonth, includedOperations, perMillionTo100Million, perMillionBeyond } = SERVICE_BUS_STANDARD;
  const step = 100 * MILLION;
  const cheap = Math.max(0, operations - step);
  const middle = Math.max(0, Math.min(operations, step) - includedOperations);
  return baseAMonth + (middle / MILLION) * perMillionTo100Million + (cheap / MILLION) * perMillionBeyond;
}

/** More than any account has: what is not cheaper until then never is. */
const MOST_EVENTS = 1_000 * MILLION;

/**
 * Events a month from which Service Bus Standard costs less than an app with these dollars a month, idle and for a million events. Undefined if
 * it never does.
 */
export function serviceBusCheaperFrom(
  { idle, perMillion }: { readonly idle: number; readonly perMillion: number },
  operationsPerEvent: number,
): number | undefined {
  const isCheaper = (events: number): boolean => serviceBusMonth(events * operationsPerEvent) < idle + (events / MILLION) * perMillion;
  if (!isCheaper(MOST_EVENTS)) return undefined;
  let [dearer, cheaper] = [0, MOST_EVENTS];
  while (cheaper - dearer > 1) {
    const middle = (dearer + cheaper) / 2;
    if (isCheaper(middle)) cheaper = middle;
    else dearer = middle;
  }
  return cheaper;
}
