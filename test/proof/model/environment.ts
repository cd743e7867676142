/** What happens by itself: times that come, late writes that arrive, the sweeps, and what goes wrong. */
import { apply, WRITE } from "./storage.ts";
import type { Emit, Model } from "./model.ts";
import { ABANDONED, eventsOf, FREE, IDLE, idleWorker, TAKEN, upTo, type State } from "./state.ts";
import { describeHead, readHead } from "./lease-head.ts";

const WRITE_NAMES = Object.fromEntries(Object.entries(WRITE).map(([name, kind]) => [kind, name]));

export function environmentSteps(model: Model, state: State, emit: Emit): void {
  const { shared, workers, late } = state;
  // While another one is visible it may as well stay hidden a little longer: who receives it can't tell them apart.
  if (shared.hidden > 0 && shared.visible === 0)
    emit("a hidden wake-up becomes visible", (next) => {
      next.shared.hidden -= 1;
      next.shared.visible += 1;
    });
  for (const [index, each] of late.entries()) {
    const events = each.kind === WRITE.deleteBlobs || each.kind === WRITE.deleteEntities ? eventsOf(each.x).join(", ") : each.x;
    emit(
      `late arrives: ${WRITE_NAMES[each.kind]} ${each.kind === WRITE.progress ? `"${each.done} is finished"` : events || ""}`,
      (next) => {
        const [arrived] = next.late.splice(index, 1);
        apply(model, next, arrived!);
      },
      "late",
    );
  }
  leaseSteps(state, emit);
  sweepSteps(model, state, emit);
  for (const [index, { at, holds }] of workers.entries()) {
    if (at === IDLE) continue;
    if (shared.crashesLeft > 0)
      emit(
        `worker ${index + 1} dies`,
        (next) => {
          next.shared.crashesLeft -= 1;
          die(model, next, index);
        },
        "fault",
      );
    if (holds === 1 && shared.queueFaultsLeft > 0)
      emit(
        `the wake-up that worker ${index + 1} holds becomes visible again`,
        (next) => {
          next.shared.queueFaultsLeft -= 1;
          next.shared.visible += 1;
          next.workers[index]!.holds = 0;
        },
        "fault",
      );
  }
}

/** The wake-up comes back, the lease runs out some time, and what was sent may still arrive. A new process takes its place. */
export function die(model: Model, state: State, index: number): void {
  if (state.workers[index]!.holds === 1) state.shared.hidden += 1;
  state.workers[index] = idleWorker();
  // Without W5 the id is the process's.
  if (!model.kept.W5) for (const each of state.late) if (each.by === index) each.by = state.workers.length;
}

function leaseSteps({ shared, workers }: State, emit: Emit): void {
  if (shared.lease !== TAKEN) return;
  const holder = workers.findIndex(({ at, mine, believes }) => at !== IDLE && mine === 1 && believes === 1);
  if (holder === -1) emit("the lease, which nobody renews, runs out", (next) => void (next.shared.lease = ABANDONED));
  else if (shared.expiriesLeft > 0)
    emit(
      `worker ${holder + 1} is cut off or frozen for so long that its lease runs out`,
      (next) => {
        next.shared.expiriesLeft -= 1;
        next.shared.lease = ABANDONED;
        next.workers[holder]!.believes = 0;
      },
      "fault",
    );
}

/**
 * They run all the time; what matters is that they come when nothing else does. A sweep that comes earlier sends a second wake-up, which is
 * among the queue's faults.
 */
function sweepSteps({ kept }: Model, { shared, workers, producers }: State, emit: Emit): void {
  if (shared.visible + shared.hidden > 0 || workers.some(({ at }) => at !== IDLE) || producers.some(({ insured }) => insured === 1)) return;
  if (kept.reconcile && shared.outbox !== 0)
    emit("reconcile finds old outbox entities and sends a wake-up", (next) => void (next.shared.visible += 1));
  if (!kept.sweep || shared.events === 0 || shared.lease === TAKEN || shared.blocked === 1) return;
  const hasGhost = (shared.events & upTo(shared.done)) !== 0;
  if (shared.lease === FREE && hasGhost && kept.mark)
    emit("the sweep finds a leftover, takes the lease, lets it run out, and sends a wake-up", (next) => {
      next.shared.lease = ABANDONED;
      next.shared.visible += 1;
      for (const each of [...next.workers, ...next.late]) each.mine = 0;
    });
  else emit("the sweep finds a pending event and sends a wake-up", (next) => void (next.shared.visible += 1));
}

/** Wake-ups: to a process that has a round of the order it is a poke, the message stays hidden (C09). */
export function receiveSteps(model: Model, state: State, emit: Emit): void {
  const { shared, workers } = state;
  if (shared.visible === 0) return;
  for (const [index, { at, poke }] of workers.entries()) {
    if (at === IDLE)
      emit(`worker ${index + 1} receives a wake-up and ${describeHead(state)}`, (next) => {
        next.shared.visible -= 1;
        next.workers[index]!.holds = 1;
        readHead(model, next, index);
      });
    else if (poke === 0)
      emit(`worker ${index + 1} receives a wake-up while its round runs, and puts it back hidden`, (next) => {
        next.shared.visible -= 1;
        next.shared.hidden += 1;
        next.workers[index]!.poke = 1;
      });
  }
}
