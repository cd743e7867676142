/** What the handlers got, beside what storage says of it. */
import type { StoredEvent } from "../../../src/core/event.ts";

export class Ledger {
  readonly broken: string[] = [];
  starts = 0;
  readonly #last = new Map<string, number>();
  readonly #handled = new Set<string>();

  /** G2 */
  started(subscription: string, { sequence }: StoredEvent): void {
    this.starts += 1;
    const last = this.#last.get(subscription) ?? 0;
    if (sequence < last) this.broken.push(`G2: ${subscription} started event ${sequence} after event ${last}`);
    this.#last.set(subscription, Math.max(last, sequence));
  }

  handled(subscription: string, { id }: StoredEvent): void {
    this.#handled.add(`${subscription}/${id}`);
  }

  wasHandled(subscription: string, id: string): boolean {
    return this.#handled.has(`${subscription}/${id}`);
  }
}
