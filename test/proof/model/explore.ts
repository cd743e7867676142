/** Breadth-first search through all states, so that the first violation found is one of the shortest. */
import { decode, encode } from "./codec.ts";
import { isSettled } from "./guarantees.ts";
import { Violation, type Model, type StepKind } from "./model.ts";
import { initialState } from "./state.ts";
import { steps } from "./steps.ts";
import { Numbers, Visited } from "./visited.ts";

export interface CounterExample {
  readonly guarantee: string;
  readonly text: string;
  /** What happens, from the first state on. */
  readonly trace: readonly string[];
}

export interface Exploration {
  readonly states: number;
  readonly transitions: number;
  /** The longest of the shortest ways to a state. */
  readonly depth: number;
  /** False: it was stopped by one of the options, and what was not reached is not judged. */
  readonly complete: boolean;
  readonly settled: number;
  readonly counterExample?: CounterExample;
}

export interface ExploreOptions {
  /** Stop after that many states. Default: never. */
  readonly maxStates?: number;
  readonly onLevel?: (depth: number, states: number) => void;
  /** Stop at that time of `performance.now()`. Default: never. */
  readonly until?: number;
  /** Judge also whether every state leads to one where everything is handled. Default true. */
  readonly liveness?: boolean;
}

export function explore(model: Model, options: ExploreOptions = {}): Exploration {
  const { maxStates = Number.POSITIVE_INFINITY, until = Number.POSITIVE_INFINITY, onLevel, liveness = true } = options;
  const symmetric = model.kept.W5;
  const visited = new Visited();
  const parents = new Numbers();
  const edges = new Numbers();
  const firstEdge = new Numbers();
  const settled: boolean[] = [];
  const first = encode(initialState(model.commits.length, model.workers, model.faults), symmetric);
  visited.add(first);
  parents.push(0);
  let level: string[] = [first];
  let expanded = 0;
  let transitions = 0;
  let depth = 0;
  const result = (complete: boolean, found?: CounterExample): Exploration => ({
    states: visited.size,
    transitions,
    depth,
    complete,
    settled: settled.filter(Boolean).length,
    ...(found === undefined ? {} : { counterExample: found }),
  });
  while (level.length > 0) {
    const nextLevel: string[] = [];
    for (const text of level) {
      const state = decode(text, model.commits.length, model.workers);
      const index = expanded++;
      if (index % 1024 === 0 && (visited.size > maxStates || performance.now() > until)) return result(false);
      firstEdge.push(edges.size);
      settled.push(isSettled(model, state));
      for (const { label, kind, next, violation } of steps(model, state)) {
        transitions += 1;
        if (violation !== undefined) return result(false, counterExample(model, visited, parents, index, violation, label));
        const nextText = encode(next, symmetric);
        let target = visited.add(nextText);
        if (target === -1) target = visited.last;
        else {
          parents.push(index);
          nextLevel.push(nextText);
        }
        if (liveness && leads(kind)) edges.push(target);
      }
    }
    level = nextLevel;
    if (level.length > 0) depth += 1;
    onLevel?.(depth, visited.size);
  }
  firstEdge.push(edges.size);
  const stuck = liveness ? firstStuck(settled, firstEdge, edges) : -1;
  if (stuck === -1) return result(true);
  const violation = new Violation(
    "G3",
    "from here on, whatever happens, there will always be an event that is not handled or not put away",
  );
  return result(true, counterExample(model, visited, parents, stuck, violation));
}

/** Nobody may hope for another fault, nor for a late write to arrive after all. */
function leads(kind: StepKind): boolean {
  return kind === "own";
}

/** The first state from which no way leads to a settled one; -1: there is none. */
function firstStuck(settled: readonly boolean[], firstEdge: Numbers, edges: Numbers): number {
  const good = Uint8Array.from(settled, Number);
  for (let changed = true; changed;) {
    changed = false;
    for (let index = good.length - 1; index >= 0; index--) {
      if (good[index] === 1) continue;
      const end = firstEdge.at(index + 1);
      for (let edge = firstEdge.at(index); edge < end; edge++) {
        if (good[edges.at(edge)] !== 1) continue;
        good[index] = 1;
        changed = true;
        break;
      }
    }
  }
  return good.indexOf(0);
}

/** Takes the way to a state once more, for its labels: worker 1 stays worker 1 on it. */
function counterExample(
  model: Model,
  visited: Visited,
  parents: Numbers,
  last: number,
  { guarantee, message }: Violation,
  lastLabel?: string,
): CounterExample {
  const path: number[] = [];
  for (let index = last; index !== 0; index = parents.at(index)) path.unshift(index);
  const trace: string[] = [];
  let state = initialState(model.commits.length, model.workers, model.faults);
  for (const index of path) {
    const step = steps(model, state).find(({ next }) => visited.has(encode(next, model.kept.W5), index));
    if (step === undefined) throw new Error("the way to the violation is lost");
    trace.push(step.label);
    state = step.next;
  }
  if (lastLabel !== undefined) trace.push(steps(model, state).find(({ violation }) => violation?.message === message)?.label ?? lastLabel);
  return { guarantee, text: message, trace };
}
