/** All steps that can be taken from a state, each with the state that it leads to. */
import { environmentSteps, receiveSteps } from "./environment.ts";
import { judge } from "./guarantees.ts";
import { Violation, type Emit, type Model, type Step } from "./model.ts";
import { producerSteps } from "./producer.ts";
import { finishLocally } from "./round-plan.ts";
import { copy, type State } from "./state.ts";
import { isSpent } from "./storage.ts";
import { workerSteps } from "./worker.ts";

export function steps(model: Model, state: State): Step[] {
  const found: Step[] = [];
  const emit: Emit = (label, change, kind = "own") => {
    const next = copy(state);
    let violation: Violation | undefined;
    try {
      change(next);
      for (const index of next.workers.keys()) finishLocally(model, next, index);
      if (next.late.length > 0) next.late.splice(0, next.late.length, ...next.late.filter((late) => !isSpent(model, next, late)));
      judge(model, next);
    } catch (error) {
      if (!(error instanceof Violation)) throw error;
      violation = error;
    }
    found.push({ label, kind, next, ...(violation === undefined ? {} : { violation }) });
  };
  for (const index of state.producers.keys()) producerSteps(model, state, index, emit);
  receiveSteps(model, state, emit);
  for (const index of state.workers.keys()) workerSteps(model, state, index, emit);
  environmentSteps(model, state, emit);
  return found;
}
