/**
 * An account with more of everything than one page of a listing holds, as producers, workers and crashes leave it. Written straight through
 * the ports, many blobs at a time: the pipeline itself would take minutes.
 */
import { BlobServiceClient } from "@azure/storage-blob";
import { encodeDeadLetter } from "../../src/core/dead-letter.ts";
import { encodeEvent } from "../../src/core/event.ts";
import { nextEventId, type EventId } from "../../src/core/event-id.ts";
import { eventBlobName } from "../../src/core/names.ts";
import { encodeOrderId, parseOrderId, type OrderId, type OrderKey } from "../../src/core/order-id.ts";
import { encodePendingState, freshState, type PendingState } from "../../src/core/pending-event.ts";
import { encodeProgress, type StreamProgress } from "../../src/core/progress.ts";
import { inLanes } from "../../src/operations/lanes.ts";
import { createOutbox } from "../../src/producer/outbox.ts";
import type { TestStorage } from "../support/azurite-storage.ts";
import { workflow } from "../worker/round-support.ts";

export const SUBSCRIPTION = "mail";

/** Pages: 5,000 blobs of a listing, 1,000 rows of a query. */
export const SIZES = {
  /** Pending event blobs of the order `hot`. */
  hot: 5_200,
  /** Outbox entities of the order `burst`. */
  burst: 1_100,
  /** Dead letters of the order `flaky` that its stream has skipped. */
  skipped: 4_600,
  /** Orders with one event each: the head of one is pending, parked or blocked. */
  pending: 500,
  parked: 4_000,
  blocked: 500,
} as const;

export const PARKED_ERROR = "Error: status 503";
export const BLOCKED_ERROR = "Error: no carrier 17";
export const SKIPPED_ERROR = "Error: refused 4711";

const LANES = 32;
/** A transaction has 100 operations, and 4 are not events. */
const EVENTS_A_COMMIT = 96;

export const KINDS = ["pending", "parked", "blocked"] as const;
type Kind = (typeof KINDS)[number];

export class ScaleScene {
  readonly storage: TestStorage;
  readonly #leases;
  readonly #startedAt = Date.now();

  /** @param connectionString that `storage` was connected with */
  constructor(storage: TestStorage, connectionString: string) {
    this.storage = storage;
    this.#leases = BlobServiceClient.fromConnectionString(connectionString).getContainerClient(`${storage.prefix}-leases`);
  }

  async writeHot(): Promise<void> {
    const ids = this.#ids(SIZES.hot);
    await this.#order("hot", ids, { sequence: 0, id: undefined, relayed: SIZES.hot });
    await inLanes(ids.entries(), LANES, ([index, id]) => this.#pending("hot", id, index + 1));
  }

  /** By real commits, whose wake-ups are in the queue. */
  async writeBurst(): Promise<void> {
    const outbox = createOutbox({ workflow, storage: this.storage });
    for (let done = 0; done < SIZES.burst; done += EVENTS_A_COMMIT) {
      const count = Math.min(EVENTS_A_COMMIT, SIZES.burst - done);
      await outbox.commit("burst", (state) => ({
        state: { committed: (state?.committed ?? 0) + count },
        events: Array.from({ length: count }, (_, index) => ({ type: "step", data: { n: done + index + 1 } })),
      }));
    }
  }

  async writeSkipped(): Promise<void> {
    const ids = this.#ids(SIZES.skipped);
    const last = SIZES.skipped;
    await this.#order("flaky", ids, { sequence: last, id: ids.at(-1), relayed: last });
    await inLanes(ids.entries(), LANES, async ([index, id]) => {
      const sequence = index + 1;
      await this.#archived("flaky", id, sequence, "dead-lettered");
      await this.#deadLetter("flaky", id, sequence, "skip", SKIPPED_ERROR);
    });
  }

  /** Orders of one event each: the first so many of `kind`, with row and progress. */
  async writeOrders(kind: Kind, count: number): Promise<void> {
    await inLanes(orderIds(kind).slice(0, count), LANES, async (orderId) => {
      const ids = this.#ids(1);
      await this.#order(orderId, ids, { sequence: 0, id: undefined, relayed: 1 });
      await this.#head(kind, orderId, ids[0]!);
    });
  }

  /** The others, without row and progress: nobody looks at them. */
  async writeHeads(kind: Kind, from: number): Promise<void> {
    await inLanes(orderIds(kind).slice(from), LANES, (orderId) => this.#head(kind, orderId, this.#ids(1)[0]!));
  }

  async #head(kind: Kind, orderId: string, id: EventId): Promise<void> {
    await this.#pending(orderId, id, 1, this.#stateOf(kind));
    if (kind === "blocked") await this.#deadLetter(orderId, id, 1, "block", BLOCKED_ERROR);
  }

  /** Orders that have nothing to do any more. */
  async writeIdle(count: number): Promise<void> {
    await inLanes(Array.from({ length: count }).keys(), LANES, async (index) => {
      const orderId = `idle-${index}`;
      const ids = this.#ids(1);
      await this.#order(orderId, ids, { sequence: 1, id: ids[0], relayed: 1 });
      await this.#archived(orderId, ids[0]!, 1, "handled");
    });
  }

  #stateOf(kind: Kind): Partial<PendingState> {
    if (kind === "pending") return {};
    if (kind === "blocked") return { status: "blocked", attempts: 33, lastError: BLOCKED_ERROR };
    const waitMs = 3_600_000;
    return { status: "parked", attempts: 3, nextAttemptMs: this.#startedAt + waitMs, waitMs, lastError: PARKED_ERROR };
  }

  /** Row and progress of an order whose events are all relayed. */
  async #order(orderId: string, ids: readonly EventId[], stream: StreamProgress): Promise<void> {
    const order = keyOf(orderId);
    const { length } = ids;
    const progress = { clean: stream.sequence, relayed: length, streams: { [SUBSCRIPTION]: stream } };
    await Promise.all([
      this.storage.orders.commit({
        order,
        etag: undefined,
        entity: { sequence: length, lastEventId: ids.at(-1), state: JSON.stringify({ committed: length }), commitTokens: [] },
        outbox: [],
        entities: [],
      }),
      // One request instead of the four that a worker makes.
      this.#leases.getBlockBlobClient(order).upload("", 0, { metadata: encodeProgress(progress, "round") }),
    ]);
  }

  async #pending(orderId: string, id: EventId, sequence: number, state: Partial<PendingState> = {}): Promise<void> {
    const metadata = encodePendingState({ ...freshState(sequence, sequence - 1), ...state });
    await this.storage.blobs.create("events", nameOf(orderId, id), bytesOf(orderId, id, sequence), metadata);
  }

  async #archived(orderId: string, id: EventId, sequence: number, outcome: "handled" | "dead-lettered"): Promise<void> {
    await this.storage.blobs.create("archive", nameOf(orderId, id), bytesOf(orderId, id, sequence), {
      sequence: String(sequence),
      previous: String(sequence - 1),
      attempts: "1",
      outcome,
      finishedat: new Date(this.#startedAt).toISOString(),
    });
  }

  async #deadLetter(orderId: string, id: EventId, sequence: number, policy: "block" | "skip", reason: string): Promise<void> {
    const diedAt = new Date(this.#startedAt).toISOString();
    const { bytes, metadata } = encodeDeadLetter({
      orderId,
      subscription: SUBSCRIPTION,
      id,
      sequence,
      type: "step",
      reason,
      attempts: 33,
      policy,
      diedAt,
      history: [{ at: diedAt, starts: 33, error: reason }],
    });
    await this.storage.blobs.create("dead", nameOf(orderId, id), bytes, metadata);
  }

  #ids(count: number): readonly EventId[] {
    const ids: EventId[] = [];
    for (let index = 0; index < count; index++) ids.push(nextEventId(ids.at(-1), this.#startedAt, Math.random));
    return ids;
  }
}

/** `pending-0`, `pending-1` … */
export function orderIds(kind: Kind): readonly OrderId[] {
  return Array.from({ length: SIZES[kind] }, (_, index) => parseOrderId(`${kind}-${index}`));
}

function keyOf(orderId: string): OrderKey {
  return encodeOrderId(parseOrderId(orderId));
}

function nameOf(orderId: string, id: EventId): string {
  return eventBlobName(SUBSCRIPTION, keyOf(orderId), id);
}

function bytesOf(orderId: string, id: EventId, sequence: number): Uint8Array {
  const head = { id, orderId: parseOrderId(orderId), sequence, type: "step", source: "/test", time: "2026-01-01T00:00:00.000Z" };
  return new TextEncoder().encode(encodeEvent(head, `{"n":${sequence}}`));
}
