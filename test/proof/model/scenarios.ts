/** What is explored with all rules kept, and where each rule is missed when it is not. */
import type { Model } from "./model.ts";
import { allBut, type Rule } from "./rules.ts";
import type { Faults } from "./state.ts";

export interface Scenario {
  readonly name: string;
  readonly model: Model;
}

type Sizes = readonly [first: readonly number[], second: readonly number[]] | readonly [only: readonly number[]];

const NONE: Faults = { crashes: 0, expiries: 0, unanswered: 0, queue: 0, stops: 0 };
const FAULT_NAMES: Readonly<Record<keyof Faults, readonly [one: string, many: string]>> = {
  crashes: ["crash", "crashes"],
  expiries: ["expiry", "expiries"],
  unanswered: ["unanswered write", "unanswered writes"],
  queue: ["queue fault", "queue faults"],
  stops: ["early end of a round", "early ends of rounds"],
};

interface Poison {
  readonly poison: number;
  readonly maxCrashes: number;
}

const NO_POISON: Poison = { poison: 0, maxCrashes: 1 };

function modelOf(commits: Sizes, faults: Partial<Faults>, poison: Poison = NO_POISON, without?: Rule): Model {
  return { kept: allBut(without), commits, workers: 2, faults: { ...NONE, ...faults }, ...poison };
}

function scenario(commits: Sizes, faults: Partial<Faults>, poison: Poison = NO_POISON): Scenario {
  const events = commits.flat().reduce((sum, count) => sum + count, 0);
  const wrong = Object.entries({ ...NONE, ...faults })
    .filter(([, count]) => count > 0)
    .map(([name, count]) => `${count} ${FAULT_NAMES[name as keyof Faults][count === 1 ? 0 : 1]}`);
  const parts = [
    [counted(commits.length, "producer"), counted(commits.flat().length, "commit"), counted(events, "event"), "2 workers"].join(", "),
    ...(poison.poison === 0 ? [] : [`event ${poison.poison} kills its process, maxCrashes ${poison.maxCrashes}`]),
    wrong.length === 0 ? "no fault" : `up to ${wrong.join(", ")}`,
  ];
  return { name: parts.join("; "), model: modelOf(commits, faults, poison) };
}

function counted(count: number, what: string): string {
  return `${count} ${what}${count === 1 ? "" : "s"}`;
}

/** Seconds: every kind of fault by itself, and the smallest pairs. */
export const SMALL: readonly Scenario[] = [
  scenario([[1], [1]], {}),
  scenario([[2], [1]], { crashes: 1 }),
  scenario([[1], [1]], { expiries: 1 }),
  scenario([[1]], { crashes: 1, expiries: 1, unanswered: 1 }),
  scenario([[1]], { crashes: 1, queue: 1 }),
  scenario([[2]], { expiries: 1, stops: 1 }, { poison: 1, maxCrashes: 3 }),
];

/** Minutes. */
export const FULL: readonly Scenario[] = [
  scenario([[2], [1]], {}),
  scenario([[2], [1]], { crashes: 2, expiries: 2 }),
  scenario([[2], [1]], { unanswered: 2 }),
  scenario([[2], [1]], { expiries: 1, queue: 1 }),
  scenario([[1, 1], [1]], { expiries: 1 }),
  scenario([[1, 1], [1]], { unanswered: 1 }),
  scenario([[1], [1]], { crashes: 1, queue: 1 }),
  scenario([[2], [1]], { crashes: 1, expiries: 1, stops: 1 }),
  scenario([[2]], { crashes: 2, expiries: 2, unanswered: 1, stops: 1 }),
  scenario([[2], [1]], { crashes: 1, stops: 1 }, { poison: 2, maxCrashes: 3 }),
  scenario([[1], [1]], { expiries: 1, unanswered: 1 }, { poison: 2, maxCrashes: 2 }),
  scenario([[2], [1]], { crashes: 1, expiries: 1, unanswered: 1 }),
];

/** The least that has to go wrong for a rule to be missed. */
const MISSED: Readonly<Record<Rule, readonly [Sizes, Partial<Faults>, Poison?]>> = {
  C1: [[[1], [1]], {}],
  C2: [[[1]], { unanswered: 1 }],
  C5: [[[1]], { crashes: 1 }],
  insurance: [[[1]], { crashes: 1 }],
  reconcile: [[[1]], { crashes: 1, queue: 1 }],
  sweep: [[[1]], { unanswered: 1 }],
  mark: [[[1]], { unanswered: 1 }],
  W1: [[[1]], { crashes: 1 }],
  "W2-recorded": [[[2]], {}],
  "W2-fence": [[[1]], { expiries: 1, unanswered: 1 }],
  "W2-etag": [[[2]], { crashes: 1, unanswered: 1 }],
  "W2-ghost": [[[1]], { crashes: 1 }],
  "W3-list": [[[1]], { crashes: 1 }],
  "W3-abandoned": [[[1]], { unanswered: 1 }],
  "W3-etag": [[[1]], { crashes: 1, queue: 1 }],
  W4: [[[1]], {}, { poison: 1, maxCrashes: 2 }],
  W5: [[[1]], { unanswered: 1, queue: 1 }],
  "W5-lost": [[[1]], { expiries: 1, queue: 1 }],
  "W6-kept": [[[1]], { crashes: 1 }],
  look: [[[1], [1]], {}],
  archive: [[[1]], {}],
};

export function modelWithout(rule: Rule): Model {
  const [commits, faults, poison] = MISSED[rule];
  return modelOf(commits, faults, poison ?? NO_POISON, rule);
}

/** The same events and faults, with all rules kept. */
export function modelWith(rule: Rule): Model {
  return { ...modelWithout(rule), kept: allBut() };
}
