/**
 * Replaying events of one order for one subscription (F9), exactly once a run.
 *
 * Each batch is decided and committed as one optimistic step: the order's row is read first, then everything that decides (marks of the run, the
 * subscription's own stream, its progress), and the transaction is conditional on the row's etag. Whoever commits in between makes us read it
 * all again. Batches of an order follow one another; a later one begins when the one before is known to be committed.
 */
import { describeError, isOutboxError, OutboxError, printable } from "../core/errors.ts";
import type { StoredEvent } from "../core/event.ts";
import { nextEventId, type EventId } from "../core/event-id.ts";
import { MAX_INLINE_EVENT_UNITS, MAX_TRANSACTION_BYTES, MAX_TRANSACTION_OPERATIONS } from "../core/limits.ts";
import { eventBlobName, UNROUTED } from "../core/names.ts";
import { encodeOrderId, type OrderId, type OrderKey } from "../core/order-id.ts";
import { outboxEvent } from "../core/outbox-event.ts";
import type { OrderEntity, OutboxEntity } from "../core/ports.ts";
import { progressOfLease, streamProgress } from "../core/progress.ts";
import { firstUnaccounted } from "../core/stream.ts";
import type { Subscription } from "../core/workflow.ts";
import { commitReplays, keptChanging, MAX_TRIES, mayTryAgain, pauseBeforeRetry } from "./append-replay.ts";
import { clockOf, type OperationsContext } from "./context.ts";
import { hadItself, type OwnEvent } from "./replay-had.ts";
import { markRow, markText, readMarks, type Marks, type RunName } from "./replay-marks.ts";
import { readOwnEvents, withPassed, type OwnBlob } from "./replay-own.ts";
import { addStreams, readSource, type SourceEvent, type Sources } from "./replay-sources.ts";
import { ReplayWakeUp } from "./replay-wake-up.ts";

export interface OrderRequest extends RunName {
  readonly orderId: OrderId;
  /** Original sequences, both inclusive. */
  readonly from: number;
  readonly to: number;
  /** Replay what the subscription has had, too. Otherwise only what it never had. */
  readonly own: boolean;
  /** Decides about what the subscription never had; undefined: nothing of that. */
  readonly wants: Subscription["wants"] | undefined;
  /** What it never had counts from the first event of the order at or after this time on. Milliseconds since 1970. */
  readonly sinceMs: number | undefined;
  /** What a listing has found of the order's other streams. */
  readonly sources: Sources;
  /** Names of streams that the order may have, besides those that its progress knows. */
  readonly streams: Iterable<string>;
  readonly dryRun: boolean;
}

/**
 * Why an event was not replayed.
 * - `had`: the subscription has had it, as it was or as a replay. `may-have-had`: retention has removed what could tell.
 * - `unwanted`: its filter says no. `before-since`: older than asked for. `replay`: a replay itself; its original counts.
 * - `unfinished`: it is still to run in the subscription's stream. `dead-lettered`: `dead redrive --out-of-order` runs it again.
 * - `under-way`: whether the subscription has had it can be told when the order's outbox is relayed.
 * - `late`: found after the run has replayed a later event of the order; it could not run in order.
 */
export type SkipReason =
  "had" | "may-have-had" | "unwanted" | "before-since" | "replay" | "unfinished" | "under-way" | "dead-lettered" | "late";

export interface ReplayedOrder {
  readonly orderId: OrderId;
  /**
   * - `replayed`, `would-replay`: {@link ReplayedOrder.events} of them. `nothing`: there is nothing (more) to replay.
   * - `deleted`: a tombstone. `gone`: no row in the table. Both are left alone.
   * - `failed`: see `message`; what was committed before stands, and the same command goes on.
   */
  readonly outcome: "replayed" | "would-replay" | "nothing" | "deleted" | "gone" | "failed";
  /** Committed by this call, or to be committed. */
  readonly events: number;
  /** Committed by earlier calls of the same run, or by another operator's. */
  readonly before: number;
  /** Original sequences of {@link ReplayedOrder.events}. */
  readonly firstSequence: number | undefined;
  readonly lastSequence: number | undefined;
  readonly skipped: Readonly<Partial<Record<SkipReason, number>>>;
  /** Of what was skipped something is `unfinished` or `under-way`: the same command looks at the order again. */
  readonly left?: true;
  readonly message?: string;
  /** On `failed`: for want of an answer from storage. */
  readonly unanswered?: true;
}

/** An order whose relay is under way is looked at so often before it is left. */
const MAX_LOOKS = 3;
/** The order's row and the mark take two operations. */
const MAX_BATCH_EVENTS = MAX_TRANSACTION_OPERATIONS - 2;
/** Half of a transaction for event texts, each unit at its worst; the rest is for the state. */
const MAX_BATCH_UNITS = MAX_TRANSACTION_BYTES / 2 / 4;
/** Texts in memory at once, big ones included. */
const MAX_BATCH_TEXT = 32 * 1024 * 1024;

const SKIPPED_AS = { had: "had", unknown: "may-have-had", moving: "under-way" } as const;

/** One order as it was read, in this direction, for one batch. */
interface View {
  readonly entity: OrderEntity;
  readonly marks: Marks;
  readonly candidates: readonly SourceEvent[];
  /** Those of them that the subscription never had itself. */
  readonly fresh: ReadonlySet<EventId>;
  /** Originals that the subscription has as replays, as far as it matters. */
  readonly replayed: ReadonlySet<EventId>;
}

/** @throws what storage throws, if it is not the matter of this order alone; `aborted` never: what is left is left */
export async function replayOrder(context: OperationsContext, request: OrderRequest): Promise<ReplayedOrder> {
  const replay = new OrderReplay(context, request);
  try {
    return await replay.run();
  } catch (error) {
    if (!isOutboxError(error, "corrupt", "conflict", "too-large", "timeout", "unavailable", "invalid-event")) throw error;
    const failed = replay.result("failed", describeError(error));
    return isOutboxError(error, "timeout", "unavailable") ? { ...failed, unanswered: true } : failed;
  }
}

class OrderReplay {
  readonly #context: OperationsContext;
  readonly #request: OrderRequest;
  readonly #order: OrderKey;
  readonly #token: string;
  readonly #wakeUp: ReplayWakeUp;
  /** Decided for good; by the id of the original. */
  readonly #skipped = new Map<EventId, SkipReason>();
  /** What an event of the subscription's own stream replays; undefined for an original. */
  readonly #replayOf = new Map<EventId, EventId | undefined>();
  #committed: readonly number[] = [];
  #before = 0;
  #looked = false;
  #started: boolean;

  constructor(context: OperationsContext, request: OrderRequest) {
    const { random = Math.random } = context;
    this.#context = context;
    this.#request = request;
    this.#order = encodeOrderId(request.orderId);
    this.#token = nextEventId(undefined, clockOf(context).now(), random);
    this.#wakeUp = new ReplayWakeUp(context, request.orderId);
    this.#started = request.sinceMs === undefined;
  }

  async run(): Promise<ReplayedOrder> {
    let looks = 0;
    try {
      for (let tries = 0; tries < MAX_TRIES; tries++) {
        // What is left is found again: the marks tell what is not.
        if (this.#context.signal?.aborted === true) break;
        const view = await this.#read();
        if (typeof view === "string") return this.result(view);
        this.#count(view);
        if (this.#request.dryRun) return await this.#dryRun(view);
        // Nothing that comes after it either: it could not be replayed in order any more (G2).
        if (this.#has("under-way")) {
          if (++looks === MAX_LOOKS) break;
          await pauseBeforeRetry(this.#context, looks);
          continue;
        }
        const { batch, complete } = await this.#fill(view);
        if (batch.length === 0) break;
        try {
          await this.#commit(view, batch);
          if (complete) break;
          tries = 0;
        } catch (error) {
          if (!mayTryAgain(error)) throw error;
          if (tries === MAX_TRIES - 1) throw keptChanging(this.#request.orderId, error);
          await pauseBeforeRetry(this.#context, tries);
        }
      }
    } finally {
      await this.#wakeUp.fire();
    }
    return this.result(this.#committed.length > 0 ? "replayed" : "nothing");
  }

  result(outcome: ReplayedOrder["outcome"], message?: string): ReplayedOrder {
    const skipped: Partial<Record<SkipReason, number>> = {};
    for (const reason of this.#skipped.values()) skipped[reason] = (skipped[reason] ?? 0) + 1;
    const { orderId } = this.#request;
    const events = this.#committed.length;
    const ends = { firstSequence: this.#committed[0], lastSequence: this.#committed.at(-1) };
    const left = this.#has("unfinished") || this.#has("under-way") ? { left: true as const } : {};
    return { orderId, outcome, events, before: this.#before, ...ends, skipped, ...left, ...(message === undefined ? {} : { message }) };
  }

  #has(reason: SkipReason): boolean {
    return [...this.#skipped.values()].includes(reason);
  }

  /** In the direction in which events move, so that the subscription's own are seen twice rather than not at all. */
  async #read(): Promise<View | "gone" | "deleted"> {
    const { orders, leases, blobs } = this.#context.storage;
    const { subscription } = this.#request;
    const { order: entity, outbox } = await orders.readOutbox(this.#order);
    if (entity === undefined) return "gone";
    if (entity.state === undefined) return "deleted";
    const marks = await readMarks(orders, this.#order, this.#request);
    const listed = await readOwnEvents(blobs, subscription, this.#order);
    const progress = progressOfLease(await leases.read(this.#order));
    const own = await withPassed(blobs, subscription, this.#order, listed, streamProgress(progress, subscription).id);
    const { sources } = this.#request;
    if (this.#request.wants !== undefined && !this.#looked && this.#hasHole(entity, outbox, own)) {
      this.#looked = true;
      const names = new Set([...this.#request.streams, ...Object.keys(progress.streams), UNROUTED]);
      names.delete(subscription);
      await addStreams(blobs, this.#order, names, sources);
    }
    const fresh = this.#neverHad(entity, outbox, own, streamProgress(progress, subscription));
    const candidates = [...this.#ownAgain(own), ...fresh].sort((a, b) => (a.id < b.id ? -1 : 1));
    const first = fresh.find(({ id }) => !marks.tokens.has(id) && !this.#skipped.has(id));
    const replayed = first === undefined || this.#request.own ? new Set<EventId>() : await this.#readReplayed(own, outbox, first.id);
    return { entity, marks, candidates, fresh: new Set(fresh.map(({ id }) => id)), replayed };
  }

  /** Events that the listing has missed: they moved while it went on, or retention has removed them. Only a closer look can tell. */
  #hasHole(entity: OrderEntity, outbox: readonly OutboxEntity[], own: readonly OwnEvent[]): boolean {
    const seen = [...this.#request.sources.values(), ...outbox, ...own].map(({ sequence }) => sequence);
    return firstUnaccounted(0, entity.sequence, new Set(seen)) !== undefined;
  }

  #inRange(sequence: number): boolean {
    return sequence >= this.#request.from && sequence <= this.#request.to;
  }

  /** Events that the subscription has finished and that run again. */
  #ownAgain(own: readonly OwnBlob[]): readonly SourceEvent[] {
    if (!this.#request.own) return [];
    const again: SourceEvent[] = [];
    for (const { id, sequence, outcome, container } of own.filter((event) => this.#inRange(event.sequence))) {
      if (outcome === undefined) this.#skipped.set(id, "unfinished");
      else if (outcome === "dead-lettered") this.#skipped.set(id, "dead-lettered");
      else {
        // Counted as unfinished by an earlier look; it is finished now.
        if (this.#skipped.get(id) === "unfinished") this.#skipped.delete(id);
        const name = eventBlobName(this.#request.subscription, this.#order, id);
        again.push({ id, sequence, places: [{ container, name }] });
      }
    }
    return again;
  }

  /**
   * Events of other streams that this one never had. Those that came after the order was read, or are in the outbox, are on their way by the
   * ordinary path: all blobs of an entity exist before it goes (W1), so what is neither has reached the subscription already or never will.
   */
  #neverHad(
    entity: OrderEntity,
    outbox: readonly OutboxEntity[],
    own: readonly OwnEvent[],
    progress: ReturnType<typeof streamProgress>,
  ): readonly SourceEvent[] {
    if (this.#request.wants === undefined) return [];
    const underWay = new Set(outbox.map(({ id }) => id));
    const again = new Set(this.#request.own ? own.map(({ id }) => id) : []);
    const moving = new Set(outbox.map((event) => event.sequence));
    const isUnderWay = (sequence: number): boolean => sequence > entity.sequence || moving.has(sequence);
    const never: SourceEvent[] = [];
    for (const source of this.#request.sources.values()) {
      const { id, sequence } = source;
      if (sequence > entity.sequence || underWay.has(id) || !this.#inRange(sequence)) continue;
      const had = hadItself(sequence, own, progress, isUnderWay);
      // An earlier look could not tell.
      if (this.#skipped.get(id) === "under-way") this.#skipped.delete(id);
      if (had === "never") never.push(source);
      else if (!again.has(id)) this.#skipped.set(id, SKIPPED_AS[had]);
    }
    return never.sort((a, b) => (a.id < b.id ? -1 : 1));
  }

  /** Originals of the replays that the subscription has or will have. Only those after the oldest candidate can be one of its replays. */
  async #readReplayed(own: readonly OwnBlob[], outbox: readonly OutboxEntity[], after: EventId): Promise<ReadonlySet<EventId>> {
    const { subscription } = this.#request;
    const { blobs } = this.#context.storage;
    const originals = new Set<EventId>();
    for (const { id, sequence, container } of own) {
      if (id <= after) continue;
      if (!this.#replayOf.has(id)) {
        const name = eventBlobName(subscription, this.#order, id);
        const event = await readSource(blobs, this.#request.orderId, { id, sequence, places: [{ container, name }] });
        this.#replayOf.set(id, event.replayOf);
      }
      const original = this.#replayOf.get(id);
      if (original !== undefined) originals.add(original);
    }
    for (const entity of outbox) {
      const event = await this.#readEntity(entity);
      if (event.replayFor === subscription && event.replayOf !== undefined) originals.add(event.replayOf);
    }
    return originals;
  }

  async #readEntity(entity: OutboxEntity): Promise<StoredEvent> {
    const { text, payloadBlob } = entity;
    const { blobs } = this.#context.storage;
    const payload = text !== undefined || payloadBlob === undefined ? undefined : await blobs.read("payloads", payloadBlob);
    return outboxEvent(entity, payload?.bytes);
  }

  /** What the marks say: of this call, when its answer was lost, or of others. */
  #count({ marks, candidates }: View): void {
    const marked = candidates.filter(({ id }) => marks.tokens.has(id));
    const ours = marked.filter(({ id }) => marks.tokens.get(id) === this.#token);
    this.#committed = ours.map(({ sequence }) => sequence);
    this.#before = marked.length - ours.length;
  }

  /** The next events to commit, oldest first. */
  async #fill(view: View): Promise<{ readonly batch: readonly StoredEvent[]; readonly complete: boolean }> {
    const batch: StoredEvent[] = [];
    let [units, length] = [0, 0];
    try {
      for await (const event of this.#due(view)) {
        const inline = event.text.length > MAX_INLINE_EVENT_UNITS ? 0 : event.text.length;
        const full = units + inline > MAX_BATCH_UNITS || length + event.text.length > MAX_BATCH_TEXT || batch.length === MAX_BATCH_EVENTS;
        if (batch.length > 0 && full) return { batch, complete: false };
        batch.push(event);
        units += inline;
        length += event.text.length;
      }
    } catch (error) {
      // What comes before it can still be replayed in order. The next look meets it again.
      if (batch.length === 0) throw error;
      return { batch, complete: false };
    }
    return { batch, complete: true };
  }

  async #dryRun(view: View): Promise<ReplayedOrder> {
    const sequences: number[] = [];
    // Also if it fails in between, it has told so much.
    this.#committed = sequences;
    for await (const { sequence } of this.#due(view)) sequences.push(sequence);
    return this.result(sequences.length > 0 ? "would-replay" : "nothing");
  }

  /** What is to be committed, oldest first. */
  async *#due({ marks, candidates, fresh, replayed }: View): AsyncGenerator<StoredEvent> {
    for (const source of candidates) {
      if (marks.tokens.has(source.id)) {
        this.#started = true;
        continue;
      }
      if (this.#skipped.has(source.id)) continue;
      if (this.#context.signal?.aborted === true) return;
      const event = await readSource(this.#context.storage.blobs, this.#request.orderId, source);
      const reason = this.#reasonAgainst(event, fresh.has(event.id), marks, replayed);
      if (reason === undefined) yield event;
      else this.#skipped.set(source.id, reason);
    }
  }

  #reasonAgainst(event: StoredEvent, fresh: boolean, marks: Marks, replayed: ReadonlySet<EventId>): SkipReason | undefined {
    const { sinceMs, wants, subscription } = this.#request;
    if (event.replayOf !== undefined) return "replay";
    if (!this.#started && Date.parse(event.time) < sinceMs!) return "before-since";
    this.#started = true;
    if (replayed.has(event.id)) return "had";
    if (fresh && wants !== undefined && !wantsEvent(wants, event, subscription)) return "unwanted";
    return marks.last !== undefined && event.id < marks.last ? "late" : undefined;
  }

  async #commit({ entity }: View, originals: readonly StoredEvent[]): Promise<void> {
    const { subscription, orderId } = this.#request;
    await this.#wakeUp.prepare();
    const rowKey = markRow(this.#request, originals[0]!.id);
    const text = markText(
      originals.map(({ id }) => id),
      this.#token,
    );
    const mark = { rowKey, result: () => text };
    await commitReplays(this.#context, { orderId, entity, originals, subscription, mark, token: this.#token });
    this.#committed = [...this.#committed, ...originals.map(({ sequence }) => sequence)];
  }
}

function wantsEvent(wants: Subscription["wants"], event: StoredEvent, subscription: string): boolean {
  try {
    return wants(event);
  } catch (cause) {
    const text = `the filter of ${subscription} threw for event ${event.sequence} of order ${printable(event.orderId)}, nothing after it is replayed`;
    throw new OutboxError("invalid-event", `${text}: ${describeError(cause)}`, { cause });
  }
}
