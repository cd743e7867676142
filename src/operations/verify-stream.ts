/** Is one stream of an order whole? Each event in one place, in order, up to the progress in the archive and beyond it pending. */
import type { EventId } from "../core/event-id.ts";
import { missingBlobText } from "../core/missing-blob.ts";
import { eventBlobName, UNROUTED } from "../core/names.ts";
import type { OrderKey } from "../core/order-id.ts";
import { streamProgress, type StreamProgress } from "../core/progress.ts";
import {
  contradictionIn,
  contradictionText,
  isFinished,
  missingSequence,
  newestSequence,
  seenSequence,
  splitGhosts,
  type Placed,
} from "../core/stream.ts";
import type { Finding, FindingKind } from "./finding.ts";
import type { ArchivedEvent, FinishedEvents } from "./finished-events.ts";
import type { GatheredOrder } from "./order-facts.ts";
import type { PendingEvent } from "./pending-streams.ts";

/** A finished event's pending blob is deleted when its round ends; later than this it is stuck. */
const STUCK_GHOST_MS = 10 * 60_000;
/** Archive blobs are written off the path, by hosts with clocks of their own; and again by the next holder after a crash. */
const FINISH_TOLERANCE_MS = 10 * 60_000;

type ChainLink = Pick<ArchivedEvent, "sequence" | "previous">;
type ReadablePending = PendingEvent & { readonly state: NonNullable<PendingEvent["state"]> };

type Gathered = Pick<GatheredOrder<unknown>, "order" | "found" | "streams" | "progress" | "settled" | "lease">;

/** One audit of one stream; `run` it once. */
export class StreamCheck {
  readonly #own: FinishedEvents;
  readonly #pending: readonly PendingEvent[];
  readonly #readable: readonly ReadablePending[];
  readonly #progress: StreamProgress;
  readonly #settled: boolean;
  readonly #top: number;
  /** The last worker died, or could not do all it had to: the next one lists what it left and mends it (W3). */
  readonly #abandoned: boolean;
  readonly #order: OrderKey;
  readonly #ids: ReadonlyMap<number, EventId>;
  readonly #findings: Finding[] = [];

  /** @param ids of the order's events by sequence, as far as anything in storage tells them */
  constructor(own: FinishedEvents, { order, found, streams, progress, settled, lease }: Gathered, ids: ReadonlyMap<number, EventId>) {
    const pending: readonly PendingEvent[] = streams.find(({ subscription }) => subscription === own.subscription)?.events ?? [];
    this.#order = order;
    this.#ids = ids;
    this.#own = own;
    this.#pending = pending;
    this.#readable = pending.filter((event): event is ReadablePending => event.state !== undefined);
    this.#progress = streamProgress(progress, own.subscription);
    this.#settled = settled;
    // While a worker is at it the entity that was read may be older than the events.
    const top = Math.max(newestSequence(found.order?.sequence, found.outbox), seenSequence(progress));
    this.#top = settled ? top : Number.POSITIVE_INFINITY;
    this.#abandoned = lease?.state === "abandoned";
  }

  run(): readonly Finding[] {
    this.#foreign();
    // What nobody wanted is no stream: it has neither progress nor neighbours.
    if (this.#own.subscription === UNROUTED) return this.#findings;
    this.#sequences();
    this.#places();
    this.#finishTimes();
    // The rest can't be told from a move that is under way.
    if (this.#settled) {
      this.#archivedChain();
      this.#pendingChain();
      this.#deadIndex();
    }
    return this.#findings;
  }

  #add(kind: FindingKind, severity: Finding["severity"], sequence: number | undefined, text: string): void {
    const { subscription } = this.#own;
    this.#findings.push({ kind, severity, subscription, ...(sequence === undefined ? {} : { sequence }), text });
  }

  #foreign(): void {
    for (const name of this.#own.foreign) this.#add("foreign", "damage", undefined, `${name} is not one of ours`);
    for (const name of this.#own.torn) this.#add("torn", "damage", undefined, `archive/${name} is not as big as its index says`);
    for (const { id, state } of this.#pending) {
      if (state === undefined) this.#add("foreign", "damage", undefined, `the pending blob of event ${id} has no metadata of ours`);
    }
  }

  /** Ids grow with sequences, and no sequence is there twice. */
  #sequences(): void {
    const all = new Map<string, number>();
    for (const { id, sequence } of this.#own.archived) all.set(id, sequence);
    for (const { id, state } of this.#readable) {
      const archived = all.get(id);
      if (archived !== undefined && archived !== state.sequence) {
        this.#add("inversion", "damage", state.sequence, `event ${id} is pending as ${state.sequence} and archived as ${archived}`);
      }
      all.set(id, state.sequence);
    }
    let last = 0;
    for (const [id, sequence] of [...all].sort(([a], [b]) => (a < b ? -1 : 1))) {
      if (sequence === last) this.#add("double", "damage", sequence, `two events have sequence ${sequence}, one is ${id}`);
      else if (sequence < last)
        this.#add("inversion", "damage", sequence, `event ${id} comes after ${last} by its id and before it by its sequence`);
      last = Math.max(last, sequence);
    }
  }

  /** Every event in one place: pending beyond the progress, archived up to it. */
  #places(): void {
    const archived = new Set(this.#own.archived.map(({ id }) => id));
    for (const event of this.#own.archived) {
      const { id, sequence, outcome } = event;
      if (this.#contradicts(event, false) || isFinished(event, this.#progress)) continue;
      const pending = this.#pending.some((other) => other.id === id);
      if (pending && outcome === "discarded") {
        const text = `event ${sequence} is archived as discarded and pending still: the worker that carries it out, or the next one, goes on`;
        this.#add("moving", "notice", sequence, text);
        continue;
      }
      const text = `event ${sequence} is archived${pending ? " and pending" : ""}, the progress is at ${this.#progress.sequence}`;
      this.#add(pending ? "double" : "beyond-progress", "damage", sequence, text);
    }
    for (const event of this.#pending) {
      const { id, sequence, ageMs } = event;
      if (this.#contradicts(event, true) || !isFinished(event, this.#progress)) continue;
      if (!this.#settled || ageMs < STUCK_GHOST_MS) continue;
      const where = archived.has(id) ? "and archived" : "and not archived";
      this.#add("stuck-ghost", "damage", sequence, `event ${id} is finished ${where}, its pending blob is still there`);
    }
  }

  /** W12; or the event is the last finished one by its id or by its sequence alone. */
  #contradicts(event: Placed, isPending: boolean): boolean {
    const { id, sequence } = event;
    const { id: last, sequence: finishedTo } = this.#progress;
    const isLast = sequence === undefined || (id === last) === (sequence === finishedTo);
    if (isLast && contradictionIn([event], this.#progress, this.#top) === undefined) return false;
    const { subscription } = this.#own;
    const blob = isPending ? `events/${eventBlobName(subscription, this.#order, id)}` : "its entry in the archive";
    const text = `${contradictionText(subscription, event, this.#progress)}; mend that of ${blob}, or of leases/${this.#order}`;
    this.#add("inversion", "damage", sequence, text);
    return true;
  }

  /**
   * Everything from the oldest handled event on must be there up to the progress. Retention removes handled events first and from the oldest
   * on; what it keeps longer (discarded, dead-lettered), and what a dead worker left to be archived, proves nothing about its neighbours.
   */
  #archivedChain(): void {
    const finishedTo = this.#progress.sequence;
    const ghosts = splitGhosts(this.#readable, this.#progress).ghosts.map(({ state }) => state);
    const oldest = this.#own.archived.find(({ outcome }) => outcome === "handled")?.sequence ?? Number.POSITIVE_INFINITY;
    const finished: readonly ChainLink[] = [...this.#own.archived, ...ghosts].filter(({ sequence }) => sequence <= finishedTo);
    const chain = finished.filter(({ sequence }) => sequence >= oldest).sort((a, b) => a.sequence - b.sequence);
    // What is kept longer, or waits for the archive, counts where it joins on without a hole.
    const before = (): ChainLink | undefined => {
      const end = chain[0]?.previous ?? finishedTo;
      return finished.find(({ sequence, previous }) => sequence === end && previous < end);
    };
    for (let prior = before(); prior !== undefined; prior = before()) chain.unshift(prior);
    const first = chain[0];
    if (first === undefined ? finishedTo > 0 : first.previous > 0) {
      const from = first === undefined ? `up to ${finishedTo}` : `before ${first.sequence}`;
      this.#add("retention", "notice", undefined, `events ${from} are not in the archive any more`);
    }
    if (first === undefined) return;
    let last = first.previous;
    for (const { sequence, previous } of chain) {
      if (previous > last) this.#add("gap", "damage", previous, `event ${previous} is finished and not in the archive`);
      last = sequence;
    }
    for (const { sequence, missing } of this.#own.archived) {
      if (missing === undefined || this.#own.archived.some((event) => event.sequence === missing)) continue;
      this.#add("gap", "notice", missing, `event ${missing} was missing when event ${sequence} was discarded`);
    }
    if (last < finishedTo) this.#add("gap", "damage", finishedTo, `event ${finishedTo} is finished and not in the archive`);
  }

  #pendingChain(): void {
    const { pending } = splitGhosts(this.#readable, this.#progress);
    const missing = missingSequence(
      pending.map(({ state }) => state),
      this.#progress,
    );
    if (missing === undefined) return;
    const blob = missingBlobText(this.#own.subscription, this.#order, this.#ids.get(missing));
    this.#add("gap", "damage", missing, `event ${missing} is missing from the pending events: ${blob}`);
  }

  #deadIndex(): void {
    const { dead, archived } = this.#own;
    const blocked = new Set(this.#readable.filter(({ state }) => state.status === "blocked").map(({ id }) => id));
    const skipped = new Set(archived.filter(({ outcome }) => outcome === "dead-lettered").map(({ id }) => id));
    for (const [id, { sequence, policy }] of dead) {
      if (policy === "block" && !blocked.has(id)) {
        this.#add("dead-index", "damage", sequence, `event ${id} is listed as a dead letter and is not blocked`);
      }
      if (policy === "skip" && !skipped.has(id) && !this.#mended(id, sequence)) {
        this.#add("dead-index", "damage", sequence, `event ${id} is listed as skipped and is not in the archive as dead-lettered`);
      }
    }
    for (const { id, sequence, outcome, decided } of archived) {
      if (outcome === "dead-lettered" && decided === undefined && !dead.has(id)) {
        this.#add("dead-index", "damage", sequence, `event ${id} is archived as dead-lettered, and neither listed nor decided about`);
      }
    }
    for (const { id, state } of this.#readable) {
      if (state.status === "blocked" && !dead.has(id) && !this.#mended(id, state.sequence)) {
        this.#add("dead-index", "damage", state.sequence, `event ${id} is blocked and not listed as a dead letter`);
      }
    }
  }

  /** Event and entry are written one after the other, and a worker may die in between. The next one takes up the event as it is. */
  #mended(id: string, sequence: number): boolean {
    if (!this.#abandoned || !this.#readable.some((event) => event.id === id)) return false;
    const text = `event ${sequence} and its entry among the dead letters do not agree: the last worker died on the way, the next one mends it`;
    this.#add("moving", "notice", sequence, text);
    return true;
  }

  #finishTimes(): void {
    let latest = Number.NEGATIVE_INFINITY;
    for (const { sequence, finishedAt } of this.#own.archived) {
      const at = Date.parse(finishedAt ?? "");
      if (Number.isNaN(at)) continue;
      if (at < latest - FINISH_TOLERANCE_MS) {
        const text = `event ${sequence} was archived more than ${FINISH_TOLERANCE_MS / 60_000} minutes before the one before it`;
        this.#add("inversion", "notice", sequence, text);
      }
      latest = Math.max(latest, at);
    }
  }
}
