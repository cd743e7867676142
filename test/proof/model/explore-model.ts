/** All scenarios with all rules, and each rule left out in turn: what the exploration finds. */
import { setImmediate } from "node:timers/promises";
import { explore, type CounterExample, type Exploration } from "./explore.ts";
import { RULE_NAMES, RULES, type Rule } from "./rules.ts";
import { FULL, modelWithout, SMALL } from "./scenarios.ts";

export interface ScenarioReport extends Exploration {
  readonly name: string;
  readonly elapsedMs: number;
}

export interface RuleReport {
  readonly rule: Rule;
  readonly text: string;
  /** Undefined: the rule was left out and nothing went wrong, so the model does not show what it is for. */
  readonly counterExample: CounterExample | undefined;
  readonly states: number;
}

export interface ModelReport {
  /** Everything was explored, no violation was found, and each rule has its counter-example. */
  readonly proven: boolean;
  readonly states: number;
  readonly transitions: number;
  readonly violations: number;
  readonly scenarios: readonly ScenarioReport[];
  readonly rules: readonly RuleReport[];
}

export interface ModelOptions {
  /** Gets one line for each part that is done. */
  readonly progress?: (line: string) => void;
  /** A scenario that is not through by then is reported as incomplete, and nothing is proven. Default: as long as it takes. */
  readonly budgetMs?: number;
  /** The scenarios that take seconds instead of those that take minutes. Default false. */
  readonly small?: boolean;
}

/** Nothing in here is left to chance, so there is no seed: every run explores the same states. */
export async function exploreModel({ progress, budgetMs, small = false }: ModelOptions = {}): Promise<ModelReport> {
  const until = budgetMs === undefined ? Number.POSITIVE_INFINITY : performance.now() + budgetMs;
  const rules: RuleReport[] = [];
  for (const rule of RULE_NAMES) {
    const { counterExample, states } = explore(modelWithout(rule), { until });
    rules.push({ rule, text: RULES[rule], counterExample, states });
    progress?.(
      `without ${rule}: ${counterExample === undefined ? "no counter-example" : `${counterExample.guarantee}, ${counterExample.trace.length} steps: ${counterExample.text}`}`,
    );
    // Lets the caller show it.
    await setImmediate();
  }
  const scenarios: ScenarioReport[] = [];
  for (const { name, model } of small ? SMALL : FULL) {
    const startedAt = performance.now();
    const report = { name, ...explore(model, { until }), elapsedMs: Math.round(performance.now() - startedAt) };
    scenarios.push(report);
    progress?.(describeScenario(report));
    await setImmediate();
  }
  const sum = (count: (report: ScenarioReport) => number): number => scenarios.reduce((total, report) => total + count(report), 0);
  return {
    proven:
      scenarios.every(({ complete, counterExample }) => complete && counterExample === undefined) &&
      rules.every(({ counterExample }) => counterExample !== undefined),
    states: sum(({ states }) => states),
    transitions: sum(({ transitions }) => transitions),
    violations: sum(({ counterExample }) => (counterExample === undefined ? 0 : 1)),
    scenarios,
    rules,
  };
}

function describeScenario({ name, states, transitions, depth, complete, counterExample, elapsedMs }: ScenarioReport): string {
  const counts = `${states.toLocaleString("en")} states, ${transitions.toLocaleString("en")} transitions, depth ${depth}`;
  const verdict =
    counterExample !== undefined
      ? `VIOLATED: ${counterExample.guarantee}, ${counterExample.text}`
      : complete
        ? "0 violations"
        : "INCOMPLETE";
  return `${name}: ${counts}, ${verdict} (${(elapsedMs / 1000).toFixed(1)} s)`;
}

/** One step a line, numbered. */
export function describeCounterExample({ guarantee, text, trace }: CounterExample): string {
  return [...trace.map((step, index) => `${String(index + 1).padStart(3)}. ${step}`), `     => ${guarantee}: ${text}`].join("\n");
}
