/** What is explored: who commits what, which rules are kept, what may go wrong. */
import type { Kept } from "./rules.ts";
import type { Faults, State } from "./state.ts";

export interface Model {
  readonly kept: Kept;
  /** Of each producer: how many events each of its commits has. */
  readonly commits: readonly (readonly number[])[];
  readonly workers: number;
  /** What may go wrong, and how often. */
  readonly faults: Faults;
  /** The event whose handler kills its process; 0: none. */
  readonly poison: number;
  /** Option `maxCrashes` of the poison event's subscription. */
  readonly maxCrashes: number;
}

/** A guarantee that does not hold any more, in words. */
export class Violation extends Error {
  readonly guarantee: string;

  constructor(guarantee: string, text: string) {
    super(text);
    this.name = "Violation";
    this.guarantee = guarantee;
  }
}

/**
 * - `own`: a process goes on, or a time that was bound to come has come.
 * - `late`: a write arrives that nobody waits for any more. It may as well never arrive.
 * - `fault`: uses up one of the model's faults.
 */
export type StepKind = "own" | "late" | "fault";

export interface Step {
  readonly label: string;
  readonly kind: StepKind;
  readonly next: State;
  readonly violation?: Violation;
}

/** Takes the change that a step makes to a copy of the state. */
export type Emit = (label: string, change: (state: State) => void, kind?: StepKind) => void;
