/** What a run says at its end: to people, and to programs (`--json`). */
import { counted } from "../core/counted.ts";
import { printable } from "../core/errors.ts";
import { callTable } from "./calls.ts";
import type { RunResult } from "./run.ts";
import { total, type RunAudit } from "./run-audit.ts";

/** Figures of one subscription, or of all together. */
interface Figures {
  readonly duplicates: number;
  readonly outOfOrder: number;
  readonly missing: number;
  readonly unexpected: number;
}

/** The last line of `--json`. */
export interface JsonReport extends Figures {
  readonly orders: number;
  readonly events: number;
  readonly handled: number;
  readonly subscriptions: Readonly<Record<string, Figures & { readonly events: number; readonly handled: number }>>;
  /** Deliveries that the partner refused, to be tried again. */
  readonly refused: number;
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
  const { orders, events, handled, subscriptions } = result.audit;
  return {
    orders,
    events,
    handled,
    duplicates: total(result.audit, "duplicates"),
    outOfOrder: total(result.audit, "outOfOrder"),
    missing: total(result.audit, "missing"),
    unexpected: total(result.audit, "unexpected"),
    subscriptions: Object.fromEntries(
      Object.entries(subscriptions).map(([name, own]) => [
        name,
        {
          events: own.events,
          handled: own.handled,
          duplicates: own.duplicates,
          outOfOrder: own.outOfOrder,
          missing: own.missing,
          unexpected: own.unexpected,
        },
      ]),
    ),
    refused: result.refused,
    seconds: round(result.seconds),
    storageCalls: result.calls.total,
    storageCallsPerEvent: events === 0 ? 0 : round(result.calls.total / events),
    verified: isVerified(result),
    ...(kill ? { kills: result.kills } : {}),
  };
}

export function textReport(result: RunResult, { kill }: { readonly kill: boolean }): string {
  const { audit, failures, seconds, calls, kills } = result;
  const unexplained = total(audit, "unexplainedDuplicates");
  const earlier = total(audit, "earlier");
  return [
    "Storage calls of all processes:",
    callTable(calls, audit.events),
    ...(kill ? ["Calls that a killed worker made after its last report (at most half a second) are not in this table."] : []),
    "",
    `Audit: ${counted(audit.events, "event")} of ${counted(audit.orders, "order")} committed, ${audit.handled} handled in ${seconds.toFixed(1)} s.`,
    ...subscriptionTable(audit),
    `The partner refused ${result.refused} deliveries, which were made again.${kill ? ` Workers killed: ${kills}.` : ""}`,
    ...(unexplained === 0
      ? []
      : [`  ${unexplained} of the duplicates without a kill: a storage call had no answer in time, or a lease was lost`]),
    ...(earlier === 0 ? [] : [`  ${earlier} handled events were left by an earlier run and are not counted`]),
    ...findingLines(audit),
    ...failures.map((text) => `  failed: ${printable(text, MAX_FINDING_LENGTH)}`),
    isVerified(result)
      ? "Verified: each subscription was handed every event it wants, in commit order, with the bytes that were committed."
      : "NOT VERIFIED",
  ].join("\n");
}

function subscriptionTable({ subscriptions }: RunAudit): string[] {
  const header = ["subscription", "wanted", "handled", "duplicates", "out of order", "missing", "unexpected"];
  const rows = Object.entries(subscriptions).map(([name, own]) => [
    name,
    ...[own.events, own.handled, own.duplicates, own.outOfOrder, own.missing, own.unexpected].map(String),
  ]);
  return [header, ...rows].map((cells) => `  ${cells.map((cell, index) => (index === 0 ? cell.padEnd(18) : cell.padStart(12))).join(" ")}`);
}

function findingLines({ subscriptions, findings }: RunAudit): string[] {
  const all = [
    ...findings,
    ...Object.entries(subscriptions).flatMap(([name, own]) => own.findings.map(({ kind, text }) => ({ kind, text: `${name}: ${text}` }))),
  ];
  const shown = all.slice(0, MAX_FINDINGS_SHOWN).map(({ kind, text }) => `  ${kind}: ${printable(text, MAX_FINDING_LENGTH)}`);
  return all.length > shown.length ? [...shown, `  and ${all.length - shown.length} more findings`] : shown;
}

function round(value: number): number {
  return Math.round(value * 100) / 100;
}
