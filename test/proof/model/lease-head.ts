/** The read of the lease blob that every round begins with (src/worker/worker.ts, takeLease). */
import type { Model } from "./model.ts";
import { putBack } from "./round-plan.ts";
import { ABANDONED, idleWorker, TAKEN, type State } from "./state.ts";
import { AT } from "./worker-at.ts";

export function describeHead({ shared }: State): string {
  if (shared.lease === TAKEN) return "finds the lease taken";
  return `reads the lease blob: ${shared.lease === ABANDONED ? "abandoned" : "free"}, event ${shared.done} is finished`;
}

export function readHead(model: Model, state: State, index: number): void {
  const { lease, clean, relayed, known, done, waits } = state.shared;
  const worker = state.workers[index]!;
  if (lease === TAKEN) isTaken(model, state, index);
  else
    Object.assign(worker, {
      clean,
      relayed,
      known,
      done,
      waits,
      fresh: 1,
      poke: 0,
      abandoned: lease === ABANDONED ? 1 : 0,
      at: AT.acquire,
    });
}

/** The wake-up comes back after a while: the holder may die before it looks again. */
export function isTaken({ kept }: Model, state: State, index: number): void {
  const { letGo } = state.workers[index]!;
  if (kept["W6-kept"]) putBack(state, index, letGo);
  else state.workers[index] = idleWorker(letGo);
}
