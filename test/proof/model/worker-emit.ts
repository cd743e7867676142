/** How a worker's steps come about: by itself, or by a write that is answered or not. */
import type { Emit, Model } from "./model.ts";
import type { Late, State, Worker } from "./state.ts";
import { apply, type Answer } from "./storage.ts";

export type Change = (worker: Worker, state: State) => void;

export class WorkerEmit {
  readonly model: Model;
  readonly state: State;
  readonly index: number;
  readonly now: Worker;
  readonly #emit: Emit;

  constructor(model: Model, state: State, index: number, emit: Emit) {
    this.model = model;
    this.state = state;
    this.index = index;
    this.now = state.workers[index]!;
    this.#emit = emit;
  }

  step(label: string, change: Change, kind?: "fault"): void {
    this.#emit(`worker ${this.index + 1} ${label}`, (next) => change(next.workers[this.index]!, next), kind);
  }

  write(label: string, late: Late, onAnswer: (worker: Worker, answer: Answer, state: State) => void, onNone: Change): void {
    this.step(label, (_, next) => {
      const answer = apply(this.model, next, late);
      onAnswer(next.workers[this.index]!, answer, next);
    });
    this.unanswered(label, late, onNone);
  }

  unanswered(label: string, late: Late, onNone: Change): void {
    if (this.state.shared.unansweredLeft === 0) return;
    this.step(
      `${label}; no answer comes`,
      (worker, next) => {
        next.shared.unansweredLeft -= 1;
        next.late.push({ ...late, by: this.model.kept.W5 ? 0 : this.index });
        onNone(worker, next);
      },
      "fault",
    );
  }
}
