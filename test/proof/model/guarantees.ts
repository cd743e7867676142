/** What must hold in every state. The starts of handlers are judged where they happen (worker.ts), G2 and G3. */
import { Violation, type Model } from "./model.ts";
import { PRODUCER_AT } from "./producer.ts";
import { eventsOf, IDLE, upTo, type State } from "./state.ts";

export function judge(model: Model, state: State): void {
  const { shared, producers, workers } = state;
  // G1: the order entity and its events, dense; between two halves of a commit that is split, only its producer may be at fault.
  if (shared.born !== upTo(shared.order) && !producers.some(({ at }) => at === PRODUCER_AT.insert))
    throw new Violation(
      "G1",
      `the order is at sequence ${shared.order}, but only these events are stored: ${eventsOf(shared.born).join(", ") || "none"}`,
    );
  // G6: an event is somewhere; at worst in the hands of a process that is about to store it.
  let stored = shared.outbox | shared.events | shared.archive;
  for (const { create } of workers) stored |= create;
  const vanished = shared.born & ~stored;
  if (vanished !== 0) throw new Violation("G6", `event ${eventsOf(vanished).join(", ")} is stored nowhere`);
  // W4
  const bound = killBound(model);
  if (shared.kills > bound)
    throw new Violation("W4", `the handler of event ${model.poison} has killed ${shared.kills} processes, ${bound} at most are allowed`);
  if (model.poison === 0) judgeRest(model, state);
}

/**
 * Whatever else goes wrong in between. The first start of a fresh event is not counted before it happens, and nothing dies of the guess that the
 * next holder makes of it: so two starts are always granted.
 */
function killBound({ maxCrashes }: Model): number {
  return Math.max(2, maxCrashes);
}

/** Nothing goes on, and no wake-up is to be had without waiting: may anything be pending then? */
function judgeRest({ faults }: Model, { shared, producers, workers }: State): void {
  if (shared.visible > 0 || workers.some(({ at }) => at !== IDLE) || producers.some(({ at }) => at >= PRODUCER_AT.fire)) return;
  const pending = shared.outbox | (shared.events & ~upTo(shared.done));
  if (pending === 0) return;
  const used =
    faults.expiries -
    shared.expiriesLeft +
    faults.unanswered -
    shared.unansweredLeft +
    faults.queue -
    shared.queueFaultsLeft +
    faults.stops -
    shared.stopsLeft;
  const died = faults.crashes - shared.crashesLeft;
  if (used + died === 0)
    throw new Violation("G5", `nothing went wrong, and event ${eventsOf(pending).join(", ")} waits for a time to pass`);
  if (used === 0 && died === 1 && shared.hidden === 0 && producers.every(({ insured }) => insured !== 1))
    throw new Violation("G5", `a process died, and event ${eventsOf(pending).join(", ")} has no wake-up left`);
}

/** Everything that was committed is handled and put away, and nobody is at work: where every schedule must be able to get to. */
export function isSettled({ commits, poison }: Model, { shared, producers, workers }: State): boolean {
  if (shared.outbox !== 0 || workers.some(({ at }) => at !== IDLE)) return false;
  if (!producers.every(({ commit }, index) => commit === commits[index]!.length)) return false;
  if (poison !== 0 && shared.done + 1 === poison && shared.order >= poison) return shared.blocked === 1;
  return shared.events === 0 && shared.done === shared.order;
}
