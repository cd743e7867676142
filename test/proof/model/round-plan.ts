/** What a round decides between two storage calls; nothing in here takes a step (src/worker/round.ts, relay-step.ts, drain.ts). */
import type { Model } from "./model.ts";
import { bit, eventsOf, highest, idleWorker, lowest, queuedOf, setQueued, upTo, type State, type Worker } from "./state.ts";
import { AT } from "./worker-at.ts";

/** `assertHeld`: by the holder's clock the lease can't be anybody else's. */
export function isHeld({ kept }: Model, { believes }: Worker): boolean {
  return believes === 1 || !kept["W5-lost"];
}

/** W3: does the progress know of all events up to the order's sequence that are not among the entities just read? */
function onRecord({ kept }: Model, worker: Worker): boolean {
  if (!kept["W3-list"]) return true;
  const { abandoned, seen, entities, top } = worker;
  if (abandoned === 1 && kept["W3-abandoned"]) return false;
  return seen + eventsOf(entities).length === top && (lowest(entities) || seen + 1) === seen + 1;
}

export function mustList(model: Model, worker: Worker): boolean {
  if (!onRecord(model, worker)) return true;
  const isNew = worker.clean === 0 && worker.relayed === 0 && worker.known === 0;
  return worker.known === 1 ? worker.waits > worker.done : !isNew;
}

/** Which entities are relayed, and what is missing. */
export function planRelay(model: Model, worker: Worker, listed: number): void {
  const evidence = worker.entities | listed;
  for (let event = worker.seen + 1; event <= worker.top && worker.gap === 0; event++) {
    if ((evidence & bit(event)) === 0) worker.gap = event;
  }
  const events = worker.gap === 0 ? worker.entities : worker.entities & upTo(worker.gap - 1);
  worker.nextSeen = Math.max(worker.seen, worker.gap === 0 ? worker.top : highest(events));
  worker.top = 0;
  worker.entities = 0;
  worker.remove = events;
  worker.create = events & ~upTo(worker.streamDone);
  worker.ready = worker.create;
  let last: number | undefined;
  for (const event of eventsOf(worker.create)) {
    setQueued(worker, event, last ?? lastBefore(worker, event));
    last = event;
  }
  if (events === 0) relayed(model, worker);
  else if (!model.kept.W1) worker.at = AT.remove;
  else if (worker.create === 0) beforeRemoval(worker);
  else if (worker.known === 1) worker.at = AT.create;
  else {
    // A stream that the progress does not know is put on record before it has blobs.
    want(worker, { clean: worker.clean, relayed: worker.relayed, waits: waitsOf(worker) });
    worker.at = AT.name;
  }
}

function lastBefore({ queue, streamDone, streamWaits }: Worker, event: number): number {
  return Math.min(event - 1, Math.max(highest(queue & upTo(event - 1)), streamDone, streamWaits < event ? streamWaits : 0));
}

/** All blobs exist. */
export function created(model: Model, worker: Worker): void {
  if (model.kept.W1) beforeRemoval(worker);
  else relayed(model, worker);
}

/** Before an entity goes the progress has to tell of an event that has no blob any more. */
function beforeRemoval(worker: Worker): void {
  if (worker.ready === worker.remove) {
    worker.at = AT.remove;
    return;
  }
  want(worker, {
    clean: worker.clean,
    relayed: Math.max(worker.relayed, highest(worker.remove)),
    waits: Math.max(waitsOf(worker), highest(worker.ready)),
  });
  worker.at = AT.relayed;
}

/** The entities are gone. */
export function removed(model: Model, worker: Worker): void {
  worker.remove = 0;
  if (worker.create !== 0) worker.at = AT.create;
  else relayed(model, worker);
}

function relayed(model: Model, worker: Worker): void {
  worker.queue |= worker.ready;
  worker.ready = 0;
  worker.remove = 0;
  worker.seen = worker.nextSeen;
  worker.nextSeen = 0;
  const isRecorded = worker.seen === 0 || worker.known === 1;
  if (worker.again === 0 && isClean(worker) && (worker.clean < worker.seen || !isRecorded)) {
    wantProgress(worker);
    worker.at = AT.clean;
  } else onward(model, worker);
}

function waitsOf({ streamWaits, streamDone, queue }: Worker): number {
  return Math.max(streamWaits, streamDone, highest(queue));
}

function isMissing(worker: Worker): boolean {
  let last = worker.streamDone;
  for (const event of eventsOf(worker.queue)) {
    if (queuedOf(worker, event) > last) return true;
    last = event;
  }
  return worker.streamWaits > last;
}

export function isClean(worker: Worker): boolean {
  return worker.gap === 0 && worker.queue === 0 && !isMissing(worker);
}

/** Everything as it stands. */
export function wantProgress(worker: Worker): void {
  want(worker, {
    clean: isClean(worker) ? worker.seen : worker.clean,
    relayed: Math.max(worker.relayed, worker.seen),
    waits: waitsOf(worker),
  });
}

function want(worker: Worker, { clean, relayed: upToEvent, waits }: { clean: number; relayed: number; waits: number }): void {
  Object.assign(worker, { toClean: clean, toRelayed: upToEvent, toDone: worker.streamDone, toWaits: waits });
}

/** The drain: what comes next, if anything may. */
export function onward(model: Model, worker: Worker): void {
  const head = lowest(worker.queue);
  const goesOn = worker.failed === 0 && isHeld(model, worker);
  const runnable =
    head !== 0 && goesOn && worker.stopped === 0 && queuedOf(worker, head) <= worker.streamDone && (worker.gap === 0 || head < worker.gap);
  if (runnable && !(head === model.poison && worker.headBlocked === 1)) {
    worker.at = (worker.suspect & bit(head)) !== 0 && model.kept.W4 ? AT.count : AT.start;
    return;
  }
  if (goesOn && worker.poke === 1) {
    worker.poke = 0;
    worker.at = AT.more;
    return;
  }
  if (goesOn && waitsOf(worker) > (worker.known === 1 ? worker.waits : 0)) {
    wantProgress(worker);
    worker.at = AT.waiting;
    return;
  }
  worker.at = AT.archive;
}

/** Does the order need another look without a new wake-up? A dead letter does not: it waits for a human. */
export function isLeft(model: Model, worker: Worker): boolean {
  if (worker.gap !== 0) return true;
  const head = lowest(worker.queue);
  if (head !== 0) return !(head === model.poison && worker.headBlocked === 1);
  return isMissing(worker);
}

/** The wake-up goes back to the queue; a fresh one, if somebody else has it by now. */
export function putBack(state: State, index: number, letGo: number): void {
  state.shared.hidden += 1;
  state.workers[index] = idleWorker(letGo);
}

/** A new look at the order from the beginning, with the same wake-up. */
export function startOver(worker: Worker): void {
  const { holds, letGo, poke } = worker;
  Object.assign(worker, idleWorker(letGo), { holds, poke, at: AT.head });
}

/** After `start` or the drain have failed: what is finished is archived all the same. */
export function fail(worker: Worker): void {
  worker.failed = 1;
  worker.at = AT.archive;
}

/** What the holder before died in, the next round of this process is still to find out. */
function letsGo({ doubt, living, seen }: Worker): number {
  return doubt === 1 ? living : seen;
}

/** What a process does without anybody else noticing is no step of its own: to find its lease lost, to end a round. */
export function finishLocally(model: Model, state: State, index: number): void {
  const worker = state.workers[index]!;
  const writes = worker.at >= AT.name && worker.at <= AT.release && worker.at !== AT.handle;
  if (!writes) return;
  if (!isHeld(model, worker)) {
    // W3: a lease that runs out tells the next holder to look for what is left over.
    const isOver = worker.at >= AT.more && worker.failed === 0 && worker.toArchive === 0;
    putBack(state, index, isOver ? worker.letGo : letsGo(worker));
    return;
  }
  if (worker.at !== AT.archive || worker.toArchive !== 0) return;
  if (worker.failed === 1) putBack(state, index, letsGo(worker));
  else worker.at = AT.release;
}
