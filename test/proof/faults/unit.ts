/** The smallest piece of the enumeration: one first strike, alone or with every possible second one. */
import type { Violation } from "../report.ts";
import { runOne, type RunOutcome } from "./run-one.ts";
import type { ScenarioName } from "./scenario.ts";
import { DEATHS, FAULTS, replayCommand, type FaultName, type Strike } from "./strikes.ts";
import type { WorldName, Worlds } from "./world.ts";

export interface Unit {
  readonly world: WorldName;
  readonly scenario: ScenarioName;
  readonly first: Strike;
  /** Which second faults to try, at every later call until nothing is left to do. Empty: the first strike alone. */
  readonly seconds: readonly FaultName[];
}

export interface Tally {
  readonly runs: number;
  /** Storage calls until the scenario was over, in the last run. */
  readonly calls: number;
  /** Runs in which a process died. */
  readonly deaths: number;
  /** Calls that met a fault. */
  readonly hits: number;
  readonly handlerCalls: number;
  readonly duplicates: number;
  /** See {@link RunOutcome}. */
  readonly maxRecoveryMs: number;
  readonly violations: readonly Violation[];
}

export const NO_RUNS: Tally = {
  runs: 0,
  calls: 0,
  deaths: 0,
  hits: 0,
  handlerCalls: 0,
  duplicates: 0,
  maxRecoveryMs: 0,

  violations: [],
};

export function addTallies(left: Tally, right: Tally): Tally {
  return {
    runs: left.runs + right.runs,
    calls: right.calls,
    deaths: left.deaths + right.deaths,
    hits: left.hits + right.hits,
    handlerCalls: left.handlerCalls + right.handlerCalls,
    duplicates: left.duplicates + right.duplicates,
    maxRecoveryMs: Math.max(left.maxRecoveryMs, right.maxRecoveryMs),
    violations: [...left.violations, ...right.violations],
  };
}

/** Every strike at one call: each fault once, each as an outage, each death. */
export function strikesAt(call: number): readonly Strike[] {
  return [
    ...FAULTS.map((fault) => ({ call, fault })),
    ...FAULTS.map((fault) => ({ call, fault, burst: true })),
    ...DEATHS.map((fault) => ({ call, fault })),
  ];
}

export async function runUnit(worlds: Worlds, { world, scenario, first, seconds }: Unit): Promise<Tally> {
  const single = await runOne(worlds, scenario, [first]);
  let tally = seconds.length === 0 ? tallyOf(world, scenario, single) : NO_RUNS;
  if (seconds.length === 0) return tally;
  for (let call = first.call + 1; call <= single.callsUntilQuiet; call++) {
    for (const fault of seconds)
      tally = addTallies(tally, tallyOf(world, scenario, await runOne(worlds, scenario, [first, { call, fault }])));
  }
  return tally;
}

function tallyOf(
  world: WorldName,
  scenario: ScenarioName,
  { strikes, violations, hits, calls, handlerCalls, duplicates, recoveryMs }: RunOutcome,
): Tally {
  return {
    runs: 1,
    calls,
    deaths: hits.some(({ fault }) => fault === "dies-before" || fault === "dies-after") ? 1 : 0,
    hits: hits.length,
    handlerCalls,
    duplicates,
    maxRecoveryMs: recoveryMs,
    violations:
      violations.length === 0
        ? []
        : [{ rule: ruleOf(violations[0]!), text: violations.join("\n"), replay: replayCommand(world, scenario, strikes) }],
  };
}

/** By what the audit says. */
function ruleOf(text: string): string {
  if (/half a commit|happened twice|is lost$/.test(text)) return "G1";
  if (text.includes("was started")) return "G2";
  if (/duplicates|was repeated|never handled/.test(text)) return "G3";
  if (/not recovered|: late$/.test(text)) return "G5";
  return "G6";
}
