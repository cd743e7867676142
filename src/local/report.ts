/** What a run says at its end: to people, and to programs (`--json`). */
import { counted } from "../core/counted.ts";
import { printable } from "../core/errors.ts";
import { callTable } from "./calls.ts";
import type { RunResult } from "./run.ts";

/** The last line of `--json`. */
export interface JsonReport {
  readonly orders: number;
  readonly events: number;
  readonly handled: number;
  readonly duplicates: number;
  readonly outOfOrder: number;
  readonly missing: number;
  readonly unexpected: number;
  readonly seconds: number;
  readonly storageCalls: number;
  readonly storageCallsPerEvent: number;
  readonly verified: boolean;
  /** Only with `--kill`. */
  readonly kills?: number;
}

const MAX_FINDINGS_SHOWN = 20;
const MAX_FINDING_LENGTH = 300;

export function isVerified({ audit, failures }: RunResult): boolean {
  return audit.verified && failures.length === 0;
}

export function jsonReport(result: RunResult, { kill }: { readonly kill: boolean }): JsonReport {
  const { orders, events, handled, duplicates, outOfOrder, missing, unexpected } = result.audit;
  return {
    orders,
    events,
    handled,
    duplicates,
    outOfOrder,
    missing,
    unexpected,
    seconds: round(result.seconds),
    storageCalls: result.calls.total,
    storageCallsPerEvent: events === 0 ? 0 : round(result.calls.total / events),
    verified: isVerified(result),
    ...(kill ? { kills: result.kills } : {}),
  };
}

export function textReport(result: RunResult, { kill }: { readonly kill: boolean }): string {
  const { audit, failures, seconds, calls, kills } = result;
  const findings = audit.findings.slice(0, MAX_FINDINGS_SHOWN).map(({ kind, text }) => `  ${kind}: ${printable(text, MAX_FINDING_LENGTH)}`);
  if (audit.findings.length > findings.length) findings.push(`  and ${audit.findings.length - findings.length} more findings`);
  return [
    "Storage calls of all processes:",
    callTable(calls, audit.events),
    ...(kill ? ["Calls that a killed worker made after its last report (at most half a second) are not in this table."] : []),
    "",
    `Audit: ${counted(audit.events, "event")} of ${counted(audit.orders, "order")} committed, ${audit.handled} handled in ${seconds.toFixed(1)} s.`,
    `  duplicates ${audit.duplicates}, out of order ${audit.outOfOrder}, missing ${audit.missing}, unexpected ${audit.unexpected}` +
      (kill ? `, workers killed ${kills}` : ""),
    ...(audit.unexplainedDuplicates === 0
      ? []
      : [`  ${audit.unexplainedDuplicates} of the duplicates without a kill: a storage call had no answer in time, or a lease was lost`]),
    ...(audit.earlier === 0 ? [] : [`  ${audit.earlier} handled events were left by an earlier run and are not counted`]),
    ...findings,
    ...failures.map((text) => `  failed: ${printable(text, MAX_FINDING_LENGTH)}`),
    isVerified(result)
      ? "Verified: every committed event was handled, in commit order, with the bytes that were committed."
      : "NOT VERIFIED",
  ].join("\n");
}

function round(value: number): number {
  return Math.round(value * 100) / 100;
}
