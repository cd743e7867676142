/** A worker: src/worker/worker.ts and what it calls, one storage call, start or end of a handler a step. */
import { Violation, type Emit, type Model } from "./model.ts";
import { HeadSteps, knowHead } from "./head.ts";
import { describeHead, isTaken, readHead } from "./lease-head.ts";
import { created, fail, isHeld, isLeft, mustList, onward, planRelay, putBack, removed, startOver, wantProgress } from "./round-plan.ts";
import { bit, eventsOf, highest, idleWorker, lowest, previousOf, setQueued, upTo, type Shared, type State, type Worker } from "./state.ts";
import { apply, request, WRITE } from "./storage.ts";
import { AT, CHECK } from "./worker-at.ts";
import { WorkerEmit } from "./worker-emit.ts";

export function workerSteps(model: Model, state: State, index: number, emit: Emit): void {
  const worker = state.workers[index]!;
  if (worker.at !== AT.idle) new WorkerSteps(model, state, index, emit).all();
}

class WorkerSteps {
  readonly #model: Model;
  readonly #state: State;
  readonly #index: number;
  readonly #emit: WorkerEmit;
  readonly #headRun: HeadSteps;
  readonly #now: Worker;

  constructor(model: Model, state: State, index: number, emit: Emit) {
    this.#model = model;
    this.#state = state;
    this.#index = index;
    this.#emit = new WorkerEmit(model, state, index, emit);
    this.#headRun = new HeadSteps(this.#emit);
    this.#now = state.workers[index]!;
  }

  all(): void {
    const now = this.#now;
    const { shared } = this.#state;
    switch (now.at) {
      case AT.head:
        return this.#head();
      case AT.acquire:
        return this.#acquire();
      case AT.more:
        return this.#more();
      case AT.list:
        return this.#emit.step(`lists the event blobs: ${names(shared.events)}`, (worker, { shared: found }) =>
          this.#listed(worker, found),
        );
      case AT.create:
        for (const event of eventsOf(now.create)) this.#create(event);
        return;
      case AT.name:
      case AT.relayed:
      case AT.clean:
      case AT.record:
      case AT.waiting:
        return this.#writeProgress(now);
      case AT.name + CHECK:
      case AT.relayed + CHECK:
      case AT.clean + CHECK:
      case AT.record + CHECK:
      case AT.waiting + CHECK:
        return this.#checkProgress();
      case AT.remove:
        return this.#emit.write(
          `deletes the outbox entities ${names(now.remove)}`,
          request(WRITE.deleteEntities, { x: now.remove }),
          (target) => removed(this.#model, target),
          fail,
        );
      case AT.count:
      case AT.count + CHECK:
      case AT.uncount:
      case AT.uncount + CHECK:
      case AT.start:
        return this.#headRun.all();
      case AT.handle:
        return this.#handle();
      case AT.archive:
        return this.#archive();
      case AT.release:
        return this.#release();
      case AT.look:
        return this.#look();
      default:
        throw new Error(`no worker is at ${now.at}`);
    }
  }

  #head(): void {
    this.#emit.step(describeHead(this.#state), (_, next) => readHead(this.#model, next, this.#index));
  }

  /** With the read that follows: what comes between the two might as well come before or after both. */
  #acquire(): void {
    const found = describeOutbox(this.#state.shared);
    this.#emit.write(
      `acquires the lease and ${found}`,
      request(WRITE.acquire, { fresh: this.#now.fresh, by: this.#index }),
      (worker, answer, next) => {
        if (answer === "conflict") return startOver(worker);
        if (answer === "refused") return isTaken(this.#model, next, this.#index);
        const { clean, relayed, done, waits, letGo } = worker;
        Object.assign(worker, { living: letGo, doubt: 1, letGo: 0, believes: 1, mine: 1, marked: 0, streamDone: done, streamWaits: waits });
        worker.seen = Math.max(clean, relayed);
        this.#readOutbox(worker, next.shared, false);
      },
      // The round fails; a release that follows it at once does nothing if the lease comes later, and undoes it if it came before.
      (worker, next) => putBack(next, this.#index, worker.letGo),
    );
  }

  #more(): void {
    this.#emit.step(describeOutbox(this.#state.shared), (worker, { shared }) => this.#readOutbox(worker, shared, true));
  }

  #readOutbox(worker: Worker, { order, outbox }: Shared, again: boolean): void {
    worker.again = again ? 1 : 0;
    const top = Math.max(order, highest(outbox));
    if (again && top <= worker.seen) return onward(this.#model, worker);
    if (top < worker.seen) throw new Violation("G2", "the order entity is behind the progress");
    worker.top = top;
    worker.entities = outbox;
    if (!again && mustList(this.#model, worker)) worker.at = AT.list;
    else {
      if (!again) worker.doubt = 0;
      planRelay(this.#model, worker, 0);
    }
  }

  #listed(worker: Worker, shared: Shared): void {
    const passed = this.#model.kept["W2-ghost"] ? upTo(worker.streamDone) : 0;
    const pending = shared.events & ~passed;
    worker.toArchive |= shared.events & passed;
    worker.queue = pending;
    worker.suspect = pending;
    for (const event of eventsOf(pending)) setQueued(worker, event, previousOf(shared, event));
    // A holder that had the lease since it was read as free, and died, wrote nothing on it: what it relayed is not on record.
    const onRecord = worker.abandoned === 0 && worker.known === 1 ? worker.waits : 0;
    worker.doubt = lowest(pending) > Math.max(onRecord, worker.living) ? 1 : 0;
    if (worker.doubt === 1) worker.mayHaveRun = lowest(pending);
    if ((pending & bit(this.#model.poison)) !== 0) knowHead(worker, shared);
    planRelay(this.#model, worker, pending);
  }

  #create(event: number): void {
    const previous = event === 1 ? this.#now.queued1 : event === 2 ? this.#now.queued2 : this.#now.queued3;
    this.#emit.write(
      `creates the blob of event ${event}`,
      request(WRITE.createBlob, { x: event, y: previous }),
      (worker, answer, { shared }) => {
        worker.create &= ~bit(event);
        worker.suspect = answer === "exists" ? worker.suspect | bit(event) : worker.suspect & ~bit(event);
        if (event === this.#model.poison) knowHead(worker, shared);
        if (worker.create === 0) created(this.#model, worker);
      },
      fail,
    );
  }

  /** W2: under the lease and on the etag of the write before. */
  #writeProgress(wanted: Worker, label = ""): void {
    const { toClean, toRelayed, toDone, toWaits, mine, fresh } = wanted;
    const became = (worker: Worker): void => void (this.#now.at === AT.handle && this.#handled(worker));
    this.#emit.write(
      `${label}writes the progress: event ${toDone} is finished`,
      request(WRITE.progress, { mine, fresh, clean: toClean, relayed: toRelayed, done: toDone, waits: toWaits }),
      (worker, answer) => {
        became(worker);
        if (answer === "refused") this.#loseLease(worker);
        else if (answer === "conflict") worker.at += CHECK;
        else this.#written(worker);
      },
      (worker) => {
        became(worker);
        worker.at += CHECK;
      },
    );
  }

  #loseLease(worker: Worker): void {
    worker.believes = 0;
    fail(worker);
  }

  /** No answer, or a conflict: was it mine? Nobody else writes under this lease. */
  #checkProgress(): void {
    const { toClean, toRelayed, toDone, toWaits, marked, fresh } = this.#now;
    const { clean, relayed, done, waits } = this.#state.shared;
    const same = clean === toClean && relayed === toRelayed && done === toDone && waits === toWaits;
    if (marked === 1 && same) this.#emit.step("reads the lease blob: the progress is written", (worker) => this.#written(worker));
    else if (marked === 0 && fresh === 0 && this.#model.kept["W2-etag"])
      this.#emit.step("reads the lease blob: somebody else wrote it", (worker) => this.#loseLease(worker));
    else
      this.#emit.step("reads the lease blob: the progress is not written", (worker) => {
        worker.fresh = 1;
        worker.at -= CHECK;
      });
  }

  #written(worker: Worker): void {
    const at = worker.at >= CHECK ? worker.at - CHECK : worker.at;
    Object.assign(worker, { fresh: 1, marked: 1, known: 1 });
    Object.assign(worker, { clean: worker.toClean, relayed: worker.toRelayed, done: worker.toDone, waits: worker.toWaits });
    Object.assign(worker, { toClean: 0, toRelayed: 0, toDone: 0, toWaits: 0 });
    if (at === AT.name) worker.at = AT.create;
    else if (at === AT.relayed) worker.at = AT.remove;
    else if (at === AT.waiting) worker.at = AT.archive;
    else {
      if (at === AT.record) worker.toArchive |= bit(worker.streamDone);
      onward(this.#model, worker);
    }
  }

  /** The end of the handler, with the progress write: nobody but the process itself knows of the one without the other. */
  #handle(): void {
    const head = lowest(this.#now.queue);
    const worker = { ...this.#now };
    this.#handled(worker);
    if (worker.at !== AT.record || !isHeld(this.#model, worker)) {
      this.#emit.step(`ends the handler of event ${head}`, (target) => this.#handled(target));
      return;
    }
    this.#writeProgress(worker, `ends the handler of event ${head} and `);
  }

  #handled(worker: Worker): void {
    const head = lowest(worker.queue);
    worker.queue &= ~bit(head);
    worker.suspect &= ~bit(head);
    if (worker.mayHaveRun === head) worker.mayHaveRun = 0;
    setQueued(worker, head, 0);
    worker.streamDone = head;
    worker.streamWaits = Math.max(worker.streamWaits, head);
    wantProgress(worker);
    if (this.#model.kept["W2-recorded"] || worker.queue === 0) worker.at = AT.record;
    else onward(this.#model, worker);
  }

  /**
   * What the round has handled is written together. One step: the archive is read for one thing only, whether what a dead holder has left over
   * is in it already and need not be written. So a crash between the two leaves what a crash before both would leave, and a write that comes late
   * puts there what is there.
   */
  #archive(): void {
    const { toArchive } = this.#now;
    const { kept } = this.#model;
    const put = (next: State): void => void (next.shared.archive |= kept.archive ? toArchive : 0);
    this.#emit.step(
      `${kept.archive ? "archives events" : "deletes without archiving the blobs of events"} ${names(toArchive)}`,
      (worker, next) => {
        put(next);
        apply(this.#model, next, request(WRITE.deleteBlobs, { x: toArchive }));
        worker.toArchive = 0;
      },
    );
    this.#emit.unanswered(
      `archives events ${names(toArchive)} and deletes their blobs`,
      request(WRITE.deleteBlobs, { x: toArchive }),
      (worker, next) => {
        put(next);
        worker.failed = 1;
        worker.toArchive = 0;
      },
    );
  }

  #release(): void {
    const released = (worker: Worker, next: State): void => {
      if (!this.#model.kept.look) return this.#leave(worker, next);
      Object.assign(worker, { at: AT.look, believes: 0, mine: 0, fresh: 0, marked: 0 });
    };
    this.#emit.write(
      "releases the lease",
      request(WRITE.release, { mine: this.#now.mine }),
      (worker, _, next) => released(worker, next),
      released,
    );
  }

  #look(): void {
    const { outbox } = this.#state.shared;
    this.#emit.step(`looks at the outbox once more: ${names(outbox)}`, (worker, next) => {
      if (worker.gap === 0 && highest(next.shared.outbox) > worker.seen) return startOver(worker);
      if (worker.poke === 1) return startOver(worker);
      this.#leave(worker, next);
    });
  }

  #leave(worker: Worker, next: State): void {
    if (isLeft(this.#model, worker)) putBack(next, this.#index, worker.letGo);
    else next.workers[this.#index] = idleWorker(worker.letGo);
  }
}

function describeOutbox({ order, outbox }: Shared): string {
  return `reads the order at sequence ${order} and the outbox: ${names(outbox)}`;
}

function names(set: number): string {
  return set === 0 ? "none" : eventsOf(set).join(", ");
}
