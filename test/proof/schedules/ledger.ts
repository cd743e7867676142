/** What really happened, as the account and the handlers saw it, and whether it may have: G1, G2, G3 and G6 are judged here. */
import type { EventId } from "../../../src/core/event-id.ts";
import type { OrderId, OrderKey } from "../../../src/core/order-id.ts";
import type { OrderTransaction } from "../../../src/core/ports.ts";
import { decodeProgress, streamProgress } from "../../../src/core/progress.ts";
import type { MemoryStorage } from "../../support/memory-storage.ts";
import { readArchive } from "../archive.ts";
import { SUBSCRIPTIONS, type SubscriptionName } from "./scenario.ts";

export class Violation extends Error {
  readonly rule: string;

  constructor(rule: string, text: string) {
    super(`${rule}: ${text}`);
    this.rule = rule;
  }
}

interface Committed {
  readonly id: EventId;
  readonly sequence: number;
  readonly type: string;
  readonly text: string;
  /** Tells the events of all commits apart. */
  readonly n: number;
}

export class Ledger {
  readonly #storage: MemoryStorage;
  readonly #committed = new Map<OrderKey, Committed[]>();
  /** By subscription and id: how often a handler was started, and how often one has ended well. */
  readonly #starts = new Map<string, number>();
  readonly #handled = new Map<string, number>();
  readonly #progress = new Map<string, number>();
  #violation: Violation | undefined;

  constructor(storage: MemoryStorage) {
    this.#storage = storage;
  }

  /** Throws the first violation. */
  assertSound(): void {
    if (this.#violation !== undefined) throw this.#violation;
  }

  get orders(): readonly OrderKey[] {
    return [...this.#committed.keys()];
  }

  get handlerStarts(): number {
    return [...this.#starts.values()].reduce((sum, times) => sum + times, 0);
  }

  /** How often the event `n` was committed. */
  timesCommitted(n: number): number {
    return [...this.#committed.values()].flat().filter((event) => event.n === n).length;
  }

  /** A transaction was carried out. */
  onCommit({ order, entity, outbox }: OrderTransaction): void {
    const events = this.#committed.get(order) ?? [];
    this.#committed.set(order, events);
    for (const { id, sequence, text = "" } of outbox) {
      const { type, data } = JSON.parse(text) as { type: string; data: { n: number } };
      const last = events.at(-1);
      if (sequence !== (last?.sequence ?? 0) + 1)
        this.#fail("G2", `order ${order}: event ${sequence} follows event ${last?.sequence ?? 0}`);
      if (last !== undefined && id <= last.id)
        this.#fail("G2", `order ${order}: the id of event ${sequence} is not greater than that before`);
      events.push({ id, sequence, type, text, n: data.n });
    }
    const { committed } = JSON.parse(entity.state ?? "") as { committed: number };
    if (committed !== events.length || entity.sequence !== events.length) {
      this.#fail("G1", `order ${order} says ${committed} events and sequence ${entity.sequence}, and ${events.length} are stored`);
    }
  }

  /** Progress was written. */
  onProgress(order: OrderKey): void {
    const progress = decodeProgress(this.#storage.leaseOf(order)?.metadata ?? {});
    for (const subscription of SUBSCRIPTIONS) {
      const key = `${subscription}/${order}`;
      const { sequence } = streamProgress(progress, subscription);
      const before = this.#progress.get(key) ?? 0;
      if (sequence < before) this.#fail("G2", `the progress of ${key} went from ${before} back to ${sequence}`);
      this.#progress.set(key, sequence);
    }
  }

  /** A handler starts: nothing before its event is unfinished, and it is not finished itself. */
  onStart(subscription: SubscriptionName, order: OrderKey, sequence: number, id: EventId): void {
    const event = `event ${sequence} of ${subscription}/${order}`;
    const stored = this.#committed.get(order)?.find((each) => each.sequence === sequence);
    if (stored?.id !== id) this.#fail("G1", `${event} starts, and was never committed`);
    const { sequence: finished } = streamProgress(decodeProgress(this.#storage.leaseOf(order)?.metadata ?? {}), subscription);
    if (sequence <= finished) this.#fail("G3", `${event} starts, and everything up to ${finished} is finished`);
    const earlier = this.#wanted(subscription, order).find((each) => each.sequence > finished && each.sequence < sequence);
    if (earlier !== undefined) this.#fail("G2", `${event} starts, and event ${earlier.sequence} is not finished`);
    count(this.#starts, `${subscription}/${id}`);
  }

  onHandled(subscription: SubscriptionName, id: EventId): void {
    count(this.#handled, `${subscription}/${id}`);
  }

  /** What keeps the account from being at rest: an event that is neither finished nor dead. */
  pending(): readonly string[] {
    const rows = this.orders.flatMap((order) =>
      this.#storage.rows(order).flatMap(({ rowKey }) => (rowKey.startsWith("outbox:") ? [`${order}/${rowKey}`] : [])),
    );
    return [...rows, ...this.#storage.blobEntries("events").map(([name]) => name)];
  }

  /** Every event that was committed is accounted for (G3, G6). To be asked when nothing is pending. */
  assertAccounted(): void {
    const decided = new Set(this.#storage.blobEntries("audit").flatMap(([, { bytes }]) => discardedIn(bytes)));
    const archive = readArchive(this.#storage.blobEntries("archive").map(([name, blob]) => ({ name, ...blob })));
    for (const problem of archive.problems) this.#fail("G6", problem);
    const dead = new Set(this.#storage.blobEntries("dead").map(([name]) => name));
    for (const order of this.orders) {
      for (const subscription of SUBSCRIPTIONS) {
        for (const { id, sequence, text } of this.#wanted(subscription, order)) {
          const event = `event ${sequence} of ${subscription}/${order}`;
          const key = `${subscription}/${id}`;
          const copies = archive.events.get(`${subscription}/${order}/${id}.json`) ?? [];
          if (copies.length === 0) this.#fail("G6", `${event} is nowhere`);
          for (const { outcome, text: archived, sequence: kept } of copies) {
            if (archived !== text || kept !== sequence) this.#fail("G6", `${event} is archived with other bytes than were committed`);
            if (outcome === "handled") {
              if (!this.#handled.has(key)) this.#fail("G3", `${event} is archived as handled, and no handler of it ended well`);
            } else if (outcome === "discarded") {
              if (!decided.has(key)) this.#fail("G6", `${event} is archived as discarded, and the audit log knows of no decision`);
            } else if (outcome === "dead-lettered") {
              // An operator may have taken it off the list of dead letters.
              if (!dead.has(`${subscription}/${order}/${id}.json`) && !decided.has(key))
                this.#fail("G6", `${event} was skipped, and is not in the index of dead letters`);
            } else this.#fail("G6", `${event} is archived as ${outcome}`);
          }
        }
      }
    }
    this.assertSound();
  }

  /** Nothing went wrong, so nothing may have run twice (G3). */
  assertStartedOnce(): void {
    const repeated = [...this.#starts].find(([, times]) => times > 1);
    if (repeated !== undefined) this.#fail("G3", `event ${repeated[0]} was started ${repeated[1]} times, and nothing had gone wrong`);
    this.assertSound();
  }

  #wanted(subscription: SubscriptionName, order: OrderKey): readonly Committed[] {
    return (this.#committed.get(order) ?? []).filter(({ type }) => wants(subscription, type));
  }

  #fail(rule: string, text: string): void {
    this.#violation ??= new Violation(rule, text);
  }
}

export function wants(subscription: SubscriptionName, type: string): boolean {
  return subscription === "audit" || type === "step";
}

function discardedIn(bytes: Uint8Array): readonly string[] {
  const { action, target } = JSON.parse(new TextDecoder().decode(bytes)) as {
    action: string;
    target: { subscription?: string; orderId?: OrderId; eventId?: string };
  };
  return action === "discard" ? [`${target.subscription}/${target.eventId}`] : [];
}

function count(counts: Map<string, number>, key: string): void {
  counts.set(key, (counts.get(key) ?? 0) + 1);
}
