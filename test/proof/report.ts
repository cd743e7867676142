/** What a part of the proof is asked for, and what it tells: the runner prints it and writes it to PROOF.md. */

export interface ProveOptions {
  /** Gets a line now and then: what is done so far. */
  readonly progress?: (line: string) => void;
  /** Whatever is left to chance comes from here, so that the same seed tries the same things. */
  readonly seed: number;
  /** So long a part under load lasts; any other ends by then with what it has. Default: the part's own time, or as long as it takes. */
  readonly budgetMs?: number;
  /** Shows one violation again instead of looking for any: what the part itself gave in a {@link Violation.replay}, with its seed. */
  readonly path?: string;
  /** The size for every test run, seconds, instead of the full one. Default false. */
  readonly small?: boolean;
}

export interface Violation {
  /** The guarantee that is broken (`G1`…`G6`), or in a word what else: `crash`, `growth`. */
  readonly rule: string;
  /** What happened, with the smallest schedule or input that shows it. May have several lines. */
  readonly text: string;
  /** The command that shows it again. */
  readonly replay: string;
}

export interface PartReport {
  /** What was tried and how much of it, in the order to show: `["schedules", 100_000]`, `["longest recovery", "41.2 s"]`. */
  readonly figures: readonly (readonly [what: string, value: number | string])[];
  readonly violations: readonly Violation[];
  /** Whether all that the full size asks for was tried. A part that was cut short or is small says false. */
  readonly complete: boolean;
}
