/** Orders in memory storage, put there by hand: as workers would leave them, or damaged. */
import { encodeDeadLetter } from "../../src/core/dead-letter.ts";
import { encodeEvent } from "../../src/core/event.ts";
import { isEventId, nextEventId, type EventId } from "../../src/core/event-id.ts";
import { eventBlobName } from "../../src/core/names.ts";
import { encodeOrderId, parseOrderId, type OrderId, type OrderKey } from "../../src/core/order-id.ts";
import { encodePendingState, freshState, decodePendingState, type PendingState } from "../../src/core/pending-event.ts";
import { encodeProgress, NO_PROGRESS, type Progress } from "../../src/core/progress.ts";
import type { AuditRecord } from "../../src/core/audit-record.ts";
import type { OperationsContext, Operator } from "../../src/operations/context.ts";
import { createOutbox } from "../../src/producer/outbox.ts";
import { workflow, steps } from "../producer/fixtures/workflow.ts";
import { seededRandom } from "../../src/local/seeded-random.ts";
import { ManualClock } from "../support/manual-clock.ts";
import { createMemoryStorage, type MemoryStorage } from "../support/memory-storage.ts";

export const ANN: Operator = { actor: "ann", reason: "carrier is back" };
export const BOB: Operator = { actor: "bob", reason: "order was a test" };

export function key(orderId: string): OrderKey {
  return encodeOrderId(parseOrderId(orderId));
}

export function id(text: string): OrderId {
  return parseOrderId(text);
}

export class Scene {
  readonly clock = new ManualClock();
  readonly storage: MemoryStorage = createMemoryStorage(this.clock);
  readonly #random = seededRandom(1);
  readonly #ids = new Map<string, EventId>();

  get context(): OperationsContext {
    return { storage: this.storage, clock: this.clock, random: this.#random };
  }

  order(orderId: string): OrderKey {
    return key(orderId);
  }

  /** Commits `count` events; without a worker they stay in the outbox. */
  async commit(orderId: string, count: number): Promise<void> {
    const outbox = createOutbox({ workflow, storage: this.storage, clock: this.clock, random: this.#random });
    await outbox.commit(orderId, steps(...Array.from({ length: count }, (_, index) => index + 1)));
  }

  /** The order entity of an order whose events are all relayed. */
  async committed(orderId: string, count: number): Promise<void> {
    if (count > 0) await this.commit(orderId, count);
    const order = key(orderId);
    for (const { rowKey } of this.storage.rows(order)) {
      if (!rowKey.startsWith("outbox:")) continue;
      const eventId = rowKey.slice("outbox:".length);
      if (isEventId(eventId)) this.#ids.set(`${orderId}/${this.#count(orderId) + 1}`, eventId);
      this.storage.deleteRow(order, rowKey);
    }
  }

  /** Id of an event of an order: the committed one, or one made up that fits its place. */
  eventId(orderId: string, sequence: number): EventId {
    const known = this.#ids.get(`${orderId}/${sequence}`);
    if (known !== undefined) return known;
    const made = nextEventId(sequence === 1 ? undefined : this.eventId(orderId, sequence - 1), this.clock.now(), this.#random);
    this.#ids.set(`${orderId}/${sequence}`, made);
    return made;
  }

  pending(orderId: string, sequence: number, state: Partial<PendingState> = {}, subscription = "audit"): void {
    const metadata = encodePendingState({ ...freshState(sequence, sequence - 1), ...state });
    this.storage.putBlob("events", this.name(orderId, sequence, subscription), this.bytes(orderId, sequence), metadata);
  }

  /** A dead letter under the policy `block`, with its index. */
  blocked(orderId: string, sequence: number, reason = "Error: no such carrier 17", subscription = "audit"): void {
    this.pending(orderId, sequence, { status: "blocked", attempts: 33, lastError: reason }, subscription);
    this.deadIndex(orderId, sequence, "block", reason, subscription);
  }

  deadIndex(
    orderId: string,
    sequence: number,
    policy: "block" | "skip",
    reason = "Error: no such carrier 17",
    subscription = "audit",
  ): void {
    const diedAt = new Date(this.clock.now()).toISOString();
    const { bytes, metadata } = encodeDeadLetter({
      orderId,
      subscription,
      id: this.eventId(orderId, sequence),
      sequence,
      type: "step",
      reason,
      attempts: 33,
      policy,
      diedAt,
      history: [{ at: diedAt, starts: 33, error: reason }],
    });
    this.storage.putBlob("dead", this.name(orderId, sequence, subscription), bytes, metadata);
  }

  archived(orderId: string, sequence: number, metadata: Readonly<Record<string, string>> = {}, subscription = "audit"): void {
    this.storage.putBlob("archive", this.name(orderId, sequence, subscription), this.bytes(orderId, sequence), {
      sequence: String(sequence),
      previous: String(sequence - 1),
      attempts: "1",
      outcome: "handled",
      finishedat: new Date(this.clock.now()).toISOString(),
      ...metadata,
    });
  }

  /** Writes the order's progress: `audit` has finished everything up to `sequence`, unless `progress` says more. */
  async progress(orderId: string, sequence: number, progress: Partial<Progress> = {}): Promise<void> {
    const stream = { sequence, id: sequence === 0 ? undefined : this.eventId(orderId, sequence), relayed: sequence };
    await this.writeProgress(orderId, { ...NO_PROGRESS, clean: sequence, relayed: sequence, streams: { audit: stream }, ...progress });
  }

  async writeProgress(orderId: string, progress: Progress): Promise<void> {
    await this.hold(orderId, async (leaseId, etag) => {
      await this.storage.leases.writeMetadata(key(orderId), encodeProgress(progress, "round"), { leaseId, etag });
    });
  }

  /** Takes the lease as a worker would, and gives it back after `work`; keeps it without. */
  async hold(orderId: string, work?: (leaseId: string, etag: string) => Promise<void>): Promise<void> {
    const order = key(orderId);
    const { etag } = (await this.storage.leases.read(order)) ?? (await this.storage.leases.create(order));
    const leaseId = `lease-${orderId}`;
    await this.storage.leases.acquire(order, { id: leaseId, durationMs: 30_000, etag });
    if (work === undefined) return;
    await work(leaseId, etag);
    await this.storage.leases.release(order, leaseId);
  }

  state(orderId: string, sequence: number, subscription = "audit"): PendingState | undefined {
    const blob = this.storage.blobEntries("events").find(([name]) => name === this.name(orderId, sequence, subscription))?.[1];
    return blob && decodePendingState(blob.metadata);
  }

  audit(): readonly AuditRecord[] {
    return this.storage.blobEntries("audit").map(([, { bytes }]) => JSON.parse(new TextDecoder().decode(bytes)) as AuditRecord);
  }

  /** OrderIds of the wake-ups in the queue. */
  wakeUps(): string[] {
    return this.storage.messages().map(({ text }) => JSON.parse(text) as string);
  }

  name(orderId: string, sequence: number, subscription = "audit"): string {
    return eventBlobName(subscription, key(orderId), this.eventId(orderId, sequence));
  }

  bytes(orderId: string, sequence: number): Uint8Array {
    const head = { id: this.eventId(orderId, sequence), orderId: parseOrderId(orderId), sequence, type: "step", source: "/test" };
    return new TextEncoder().encode(encodeEvent({ ...head, time: "2026-01-01T00:00:00.000Z" }, `{"n":${sequence}}`));
  }

  #count(orderId: string): number {
    return [...this.#ids.keys()].filter((each) => each.startsWith(`${orderId}/`) && !each.slice(orderId.length + 1).includes("/")).length;
  }
}
