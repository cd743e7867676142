/** Storage calls of all processes of a run. */
import { addCounts, NO_CALLS, priceClassOf, type CallCounts, type StorageService } from "../storage/call-counter.ts";

export class CallLedger {
  readonly #byProcess = new Map<string, CallCounts>();

  /** @param calls cumulative since that process started */
  report(process: string, calls: CallCounts): void {
    this.#byProcess.set(process, calls);
  }

  total(): CallCounts {
    return [...this.#byProcess.values()].reduce(addCounts, NO_CALLS);
  }
}

/** One row an operation, grouped by service and price class, then the total of each price class. */
export function callTable(calls: CallCounts, events: number): string {
  const perEvent = (count: number): string => (events === 0 ? "-" : (count / events).toFixed(2));
  const operations = Object.entries(calls.byOperation)
    .map(([key, count]) => {
      const [service, operation] = key.split(" ") as [StorageService, string];
      return [service, operation, priceClassOf(service, operation), String(count), perEvent(count)];
    })
    .sort((left, right) => compare(left[0]!, right[0]!) || compare(left[2]!, right[2]!) || compare(left[1]!, right[1]!));
  const classes = Object.entries(calls.byPriceClass)
    .map(([priceClass, count]) => ["all", "", priceClass, String(count), perEvent(count)])
    .sort((left, right) => compare(left[2]!, right[2]!));
  return formatTable([
    ["service", "operation", "price class", "calls", "per event"],
    ...operations,
    ...classes,
    ["all", "", "", String(calls.total), perEvent(calls.total)],
  ]);
}

function compare(left: string, right: string): number {
  return left < right ? -1 : left > right ? 1 : 0;
}

/** Texts to the left, the last two columns (numbers) to the right. */
function formatTable(rows: readonly (readonly string[])[]): string {
  const columns = rows[0]?.length ?? 0;
  const widths = Array.from({ length: columns }, (_, column) => Math.max(...rows.map((row) => row[column]!.length)));
  const format = (row: readonly string[]): string =>
    row.map((cell, column) => (column < columns - 2 ? cell.padEnd(widths[column]!) : cell.padStart(widths[column]!))).join("  ");
  return rows.map(format).join("\n");
}
