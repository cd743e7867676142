/** The run's books, kept while it runs: what was planned, what the producers say was committed, what the handlers wrote down. */
import type { EventReference } from "../core/commit-tokens.ts";
import type { CommittedEvent } from "./audit.ts";
import { dataDigest, type HandledRecord } from "./handled-record.ts";
import type { AuditedSubscription } from "./audited.ts";
import type { Plan } from "./plan.ts";

export interface Counts {
  /** Events in the plan. */
  readonly planned: number;
  readonly committed: number;
  /** Committed events that every subscription that wants them has handled at least once. */
  readonly handled: number;
}

export class Ledger {
  readonly #plan: Plan;
  readonly #audited: readonly AuditedSubscription[];
  readonly #planned: number;
  /** The producers' answers by position in the plan. */
  readonly #answers = new Map<number, readonly EventReference[]>();
  /** By id of a committed event: the subscriptions that have not handled it yet. */
  readonly #open = new Map<string, Set<string>>();
  /** By id: the subscriptions that have handled it. A handler may be faster than the producer's answer. */
  readonly #handledBy = new Map<string, Set<string>>();
  readonly #records: HandledRecord[] = [];
  #handled = 0;

  constructor(plan: Plan, audited: readonly AuditedSubscription[]) {
    this.#plan = plan;
    this.#audited = audited;
    this.#planned = plan.reduce((sum, { events }) => sum + events.length, 0);
  }

  get counts(): Counts {
    return { planned: this.#planned, committed: this.#open.size, handled: this.#handled };
  }

  /** Everything in the plan is committed and was handled at least once. */
  get complete(): boolean {
    return this.#answers.size === this.#plan.length && this.#handled === this.#open.size;
  }

  get records(): readonly HandledRecord[] {
    return this.#records;
  }

  committed(position: number, references: readonly EventReference[]): void {
    this.#answers.set(position, references);
    const { orderId, events = [] } = this.#plan[position] ?? {};
    references.forEach(({ id, sequence }, index) => {
      const event = events[index];
      const committed = orderId === undefined || event === undefined ? undefined : { ...event, orderId, id, sequence };
      const wanting = this.#audited.filter(({ wants }) => committed !== undefined && wants(committed)).map(({ name }) => name);
      const open = new Set(wanting).difference(this.#handledBy.get(id) ?? new Set());
      this.#open.set(id, open);
      if (open.size === 0) this.#handled += 1;
    });
  }

  handled(records: readonly HandledRecord[]): void {
    for (const record of records) {
      this.#records.push(record);
      const by = this.#handledBy.get(record.id) ?? new Set();
      this.#handledBy.set(record.id, by.add(record.subscription));
      const open = this.#open.get(record.id);
      if (open?.delete(record.subscription) === true && open.size === 0) this.#handled += 1;
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
        return { orderId, id, sequence, type, time, dataText, dataDigest: dataDigest(dataText) };
      });
    });
  }
}
