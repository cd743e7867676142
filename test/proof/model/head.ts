/** The start of a stream's head: src/worker/run-head.ts. Only of the poison event is the state on its blob a part of the model's. */
import { die } from "./environment.ts";
import { Violation } from "./model.ts";
import { fail, onward } from "./round-plan.ts";
import { bit, lowest, type Late, type Shared, type State, type Worker } from "./state.ts";
import { request, WRITE } from "./storage.ts";
import { AT, CHECK } from "./worker-at.ts";
import type { WorkerEmit } from "./worker-emit.ts";

export function knowHead(worker: Worker, { crashes, version, blocked }: Shared): void {
  Object.assign(worker, { headCrashes: crashes, headVersion: version, headBlocked: blocked });
}

export class HeadSteps {
  readonly #emit: WorkerEmit;

  constructor(emit: WorkerEmit) {
    this.#emit = emit;
  }

  all(): void {
    switch (this.#emit.now.at) {
      case AT.count:
        this.#mayStop();
        return this.#count();
      case AT.uncount:
        return this.#uncount();
      case AT.start:
        this.#mayStop();
        return this.#start();
      default:
        return this.#checkHead();
    }
  }

  #mayStop(): void {
    const { state, now, model } = this.#emit;
    if (state.shared.stopsLeft === 0) return;
    const isCounted = now.at === AT.start && lowest(now.queue) === model.poison && now.counted === 1;
    const isGuess = now.at === AT.count && this.#isGuess();
    this.#emit.step(
      "may start nothing more: its host stops, or its time is spent",
      (worker, { shared }) => {
        shared.stopsLeft -= 1;
        if (isCounted || isGuess) worker.at = AT.uncount;
        else this.#stand(worker);
      },
      "fault",
    );
  }

  /** A head that does not start, and that a process may have died in: by its end the round writes down so. */
  #isGuess(): boolean {
    const { poison, maxCrashes } = this.#emit.model;
    const { queue, mayHaveRun, headCrashes } = this.#emit.now;
    return lowest(queue) === poison && mayHaveRun === poison && headCrashes === 0 && maxCrashes > 1;
  }

  /** The head stands, and with it the stream, for this round. */
  #stand(worker: Worker): void {
    worker.stopped = 1;
    onward(this.#emit.model, worker);
  }

  /** W4: what is known of its crashes by now. A start that nobody counted is a guess, and nothing dies of a guess. */
  #judged(): { readonly after: number; readonly dies: boolean } {
    const { poison, maxCrashes } = this.#emit.model;
    const { queue, mayHaveRun, headCrashes } = this.#emit.now;
    const head = lowest(queue);
    if (head !== poison) return { after: 1, dies: false };
    const uncounted = mayHaveRun === head && headCrashes === 0 ? 1 : 0;
    const crashes = headCrashes + uncounted;
    const dies = crashes >= maxCrashes && uncounted === 0;
    return { after: dies ? crashes : crashes + 1, dies };
  }

  /** W4 */
  #count(): void {
    const { poison } = this.#emit.model;
    const head = lowest(this.#emit.now.queue);
    const { after, dies } = this.#judged();
    this.#writeHead(
      dies
        ? `finds event ${head} dead after ${after} crashes and blocks it`
        : `counts the start of event ${head}${head === poison ? "" : " and starts its handler"}`,
      request(dies ? WRITE.block : WRITE.count, { x: head, y: this.#emit.now.headVersion, done: after }),
    );
  }

  /** Not started after all: its start is taken back, if it was counted. A guess stays. */
  #uncount(): void {
    const { queue, headVersion } = this.#emit.now;
    const done = this.#withoutStart();
    this.#writeHead(`counts ${done} crashes, without a start`, request(WRITE.count, { x: lowest(queue), y: headVersion, done }));
  }

  #withoutStart(): number {
    const { headCrashes, counted } = this.#emit.now;
    return counted === 1 ? Math.min(headCrashes, this.#emit.model.maxCrashes) - 1 : 1;
  }

  #writeHead(label: string, late: Late): void {
    this.#emit.write(
      label,
      late,
      (worker, answer, next) => {
        if (answer === "gone") return this.#stand(worker);
        if (answer === "conflict") return this.#headMoved(worker, next);
        this.#headWritten(worker, next);
      },
      (worker) => {
        if (lowest(worker.queue) === this.#emit.model.poison) worker.at += CHECK;
        // Of any other event the count is no part of the state: it may have landed or not.
        else this.#stand(worker);
      },
    );
  }

  /** No answer: was it mine? */
  #checkHead(): void {
    const { at, headVersion } = this.#emit.now;
    const { version, crashes, blocked, events } = this.#emit.state.shared;
    const wanted = at === AT.uncount + CHECK ? { after: this.#withoutStart(), dies: false } : this.#judged();
    const isGuess = this.#isGuess();
    const isThere = (events & bit(this.#emit.model.poison)) !== 0;
    if (!isThere || version === headVersion)
      this.#emit.step("reads the event blob: nothing is written", (worker) => {
        worker.at -= CHECK;
        if (worker.at === AT.count && isGuess) worker.at = AT.uncount;
        else if (worker.at === AT.uncount && worker.counted === 0) fail(worker);
        else this.#stand(worker);
      });
    else if (crashes === wanted.after && blocked === (wanted.dies ? 1 : 0))
      this.#emit.step("reads the event blob: it is written", (worker, next) => {
        worker.at -= CHECK;
        this.#headWritten(worker, next);
      });
    else
      this.#emit.step("reads the event blob: somebody else wrote it", (worker, next) => {
        worker.at -= CHECK;
        this.#headMoved(worker, next);
      });
  }

  #headMoved(worker: Worker, { shared }: State): void {
    knowHead(worker, shared);
    if (worker.at === AT.uncount) this.#stand(worker);
    else onward(this.#emit.model, worker);
  }

  #headWritten(worker: Worker, next: State): void {
    const head = lowest(worker.queue);
    const isPoison = head === this.#emit.model.poison;
    if (isPoison) knowHead(worker, next.shared);
    if (worker.at === AT.uncount) {
      worker.counted = 0;
      worker.suspect |= bit(head);
      return this.#stand(worker);
    }
    worker.suspect &= ~bit(head);
    worker.counted = isPoison ? 1 : 0;
    // Of any other event the count is no part of the state, so it is one step with the start.
    if (isPoison) onward(this.#emit.model, worker);
    else this.#started(worker, next);
  }

  #start(): void {
    const head = lowest(this.#emit.now.queue);
    const kills = head === this.#emit.model.poison;
    this.#emit.step(`starts the handler of event ${head}${kills ? ", which kills the process" : ""}`, (worker, next) =>
      this.#started(worker, next),
    );
  }

  #started(worker: Worker, next: State): void {
    const { shared } = next;
    const head = lowest(worker.queue);
    if (head <= shared.recorded)
      throw new Violation("G3", `event ${head} starts again after event ${shared.recorded} was recorded as finished`);
    if (head > shared.recorded + 1) throw new Violation("G2", `event ${head} starts before event ${head - 1} is recorded as finished`);
    worker.at = AT.handle;
    if (head !== this.#emit.model.poison) return;
    shared.kills += 1;
    die(this.#emit.model, next, this.#emit.index);
  }
}
