/** The run's books, kept while it runs: what was planned, what the producers say was committed, what the handlers wrote down. */
import type { EventReference } from "../core/commit-tokens.ts";
import type { CommittedEvent } from "./audit.ts";
import { dataDigest, type HandledRecord } from "./handled-record.ts";
import type { Plan } from "./plan.ts";

export interface Counts {
  /** Events in the plan. */
  readonly planned: number;
  readonly committed: number;
  /** Committed events that were handled at least once. */
  readonly handled: number;
}

export class Ledger {
  readonly #plan: Plan;
  readonly #planned: number;
  /** The producers' answers by position in the plan. */
  readonly #answers = new Map<number, readonly EventReference[]>();
  /** Ids that were committed, handled, or both: a handler may be faster than the producer's answer. */
  readonly #committedIds = new Set<string>();
  readonly #handledIds = new Set<string>();
  readonly #records: HandledRecord[] = [];
  #handled = 0;

  constructor(plan: Plan) {
    this.#plan = plan;
    this.#planned = plan.reduce((sum, { events }) => sum + events.length, 0);
  }

  get counts(): Counts {
    return { planned: this.#planned, committed: this.#committedIds.size, handled: this.#handled };
  }

  /** Everything in the plan is committed and was handled at least once. */
  get complete(): boolean {
    return this.#answers.size === this.#plan.length && this.#handled === this.#committedIds.size;
  }

  get records(): readonly HandledRecord[] {
    return this.#records;
  }

  committed(position: number, references: readonly EventReference[]): void {
    this.#answers.set(position, references);
    for (const { id } of references) {
      this.#committedIds.add(id);
      if (this.#handledIds.has(id)) this.#handled += 1;
    }
  }

  handled(records: readonly HandledRecord[]): void {
    for (const record of records) {
      this.#records.push(record);
      if (this.#handledIds.has(record.id)) continue;
      this.#handledIds.add(record.id);
      if (this.#committedIds.has(record.id)) this.#handled += 1;
    }
  }

  /** What was committed, as the plan has it and in its order; only ids and sequences are the producers' word. */
  committedEvents(): CommittedEvent[] {
    return this.#plan.flatMap(({ orderId, events }, position) => {
      const references = this.#answers.get(position);
      if (references === undefined) return [];
      if (references.length !== events.length) {
        throw new Error(`a producer committed ${events.length} events to order ${orderId} and answered with ${references.length}`);
      }
      return events.map(({ type, time, dataText }, index) => {
        const { id, sequence } = references[index]!;
        return { orderId, id, sequence, type, time, dataDigest: dataDigest(dataText) };
      });
    });
  }
}
