/** What storage knows of an order's events, as one line for each event and subscription. */
import type { EventId } from "../core/event-id.ts";
import { streamProgress } from "../core/progress.ts";
import { UNROUTED } from "../core/names.ts";
import type { DeadLetterSummary } from "../core/dead-letter.ts";
import type { Decision, PendingState } from "../core/pending-event.ts";
import { firstUnaccounted, missingSequence, newestSequence, seenSequence, splitGhosts } from "../core/stream.ts";
import { eventIdsOf } from "./event-ids.ts";
import type { ArchivedEvent, FinishedEvents } from "./finished-events.ts";
import type { GatheredOrder } from "./order-facts.ts";
import type { PendingEvent } from "./pending-streams.ts";

/**
 * `Pending`: waits for its turn or, without a subscription, for a worker. `InFlight`: the head while a worker holds the lease; it runs or is
 * about to. `Failed`: waits for its next attempt. `Dead`: a dead letter, waiting for a human or skipped. `Sent`: handled. `Discarded`: by an
 * operator. `Redriven`: skipped as a dead letter, and committed again as a new event. `Unwanted`: archived, because no subscription wanted
 * it. `Missing`: must be there and is not (W3); nothing after it runs.
 */
export type TimelineState = "Pending" | "InFlight" | "Sent" | "Failed" | "Dead" | "Discarded" | "Redriven" | "Unwanted" | "Missing";

export interface TimelineEntry {
  /** Undefined only if it is missing, and nothing that is left tells it. */
  readonly id: EventId | undefined;
  /** Undefined if the blob's metadata is not ours. */
  readonly sequence: number | undefined;
  /** Undefined while it is in the order's outbox (who wants it is decided when it is relayed), and if no subscription wanted it. */
  readonly subscription: string | undefined;
  readonly state: TimelineState;
  readonly attempts: number;
  /** ISO 8601. */
  readonly nextAttemptAt?: string;
  readonly lastError?: string;
  /** ISO 8601. */
  readonly finishedAt?: string;
  /** An operator's. `carriedOut`: false as long as it is only recorded. */
  readonly decision?: Pick<Decision, "action" | "actor" | "reason"> & { readonly carriedOut: boolean };
}

const ARCHIVED_STATES = { handled: "Sent", discarded: "Discarded", "dead-lettered": "Dead", unwanted: "Unwanted" } as const;

/** In commit order; an event that is in two places on its way is shown where it goes. */
export function timelineOf(gathered: GatheredOrder<readonly FinishedEvents[]>): readonly TimelineEntry[] {
  const { found, streams, finished, progress, lease } = gathered;
  const entries: TimelineEntry[] = [];
  const letters = new Map(finished.map(({ subscription, dead }) => [subscription, dead]));
  for (const { subscription, archived, dead } of finished) {
    for (const event of archived) entries.push(archivedEntry(subscription, event, dead.get(event.id)));
  }
  const archived = new Set(entries.map(({ id, subscription }) => `${subscription}/${id}`));
  for (const { subscription, events } of streams) {
    const { ghosts, pending } = splitGhosts(events, streamProgress(progress, subscription));
    const isArchived = ({ id }: PendingEvent): boolean => archived.has(`${subscription}/${id}`);
    for (const event of ghosts)
      if (!isArchived(event)) entries.push(passedEntry(subscription, event, letters.get(subscription)?.get(event.id)));
    for (const event of pending) {
      if (!isArchived(event)) entries.push(pendingEntry(subscription, event, event === pending[0] && lease?.state === "taken"));
    }
  }
  const relayed = new Set<EventId | undefined>(entries.map(({ id }) => id));
  for (const { id, sequence } of found.outbox) {
    if (!relayed.has(id)) entries.push({ id, sequence, subscription: undefined, state: "Pending", attempts: 0 });
  }
  entries.sort((a, b) => byCodeUnit(a.id ?? "", b.id ?? "") || byCodeUnit(a.subscription ?? "", b.subscription ?? ""));
  for (const missing of missingEntries(gathered)) {
    const next = entries.findIndex(({ sequence = 0 }) => sequence > missing.sequence);
    entries.splice(next < 0 ? entries.length : next, 0, missing);
  }
  return entries;
}

/** The first missing event of the order as a whole, and of each stream. While a worker moves the order nothing is said to be missing. */
function missingEntries(gathered: GatheredOrder<readonly FinishedEvents[]>): readonly (TimelineEntry & { readonly sequence: number })[] {
  const { found, streams, progress, settled } = gathered;
  if (!settled) return [];
  const ids = eventIdsOf(gathered);
  const entry = (sequence: number | undefined, subscription?: string): (TimelineEntry & { readonly sequence: number })[] =>
    sequence === undefined ? [] : [{ id: ids.get(sequence), sequence, subscription, state: "Missing", attempts: 0 }];
  const statesOf = (subscription: string): readonly PendingState[] => {
    const events = streams.find((stream) => stream.subscription === subscription)?.events ?? [];
    return splitGhosts(events, streamProgress(progress, subscription)).pending.flatMap(({ state }) => state ?? []);
  };
  const names = new Set([...streams.map(({ subscription }) => subscription), ...Object.keys(progress.streams)]);
  const waiting = new Set(streams.flatMap(({ events }) => events.flatMap(({ state }) => state?.sequence ?? [])));
  const top = newestSequence(found.order?.sequence, found.outbox);
  const committed = new Set(found.outbox.map(({ sequence }) => sequence));
  return [
    ...entry(firstUnaccounted(seenSequence(progress), top, committed, waiting)),
    ...[...names].sort().flatMap((name) => entry(missingSequence(statesOf(name), streamProgress(progress, name)), name)),
  ];
}

/** @param letter its entry in the index of dead letters, from which it goes when it is redriven or dismissed */
function archivedEntry(subscription: string, event: ArchivedEvent, letter: DeadLetterSummary | undefined): TimelineEntry {
  const { id, sequence, attempts, outcome, finishedAt, decidedBy, decisionReason, decided = "discard" } = event;
  const carriedOut = letter === undefined;
  const decision = decidedBy === undefined ? undefined : { action: decided, actor: decidedBy, reason: decisionReason ?? "", carriedOut };
  const isRedriven = decision?.action === "redrive" && carriedOut;
  return {
    id,
    sequence,
    subscription: subscription === UNROUTED ? undefined : subscription,
    state: isRedriven ? "Redriven" : ARCHIVED_STATES[outcome],
    attempts,
    ...(letter === undefined ? {} : { lastError: letter.reason }),
    ...(finishedAt === undefined ? {} : { finishedAt }),
    ...(decision === undefined ? {} : { decision }),
  };
}

/** Its stream is done with it, and it waits to be archived. What is discarded is archived before its stream passes it: so this one was not. */
function passedEntry(subscription: string, { id, state }: PendingEvent, letter: DeadLetterSummary | undefined): TimelineEntry {
  const base = { id, sequence: state?.sequence, subscription, attempts: Math.max(1, state?.attempts ?? 0) };
  return letter?.policy === "skip" ? { ...base, state: "Dead", lastError: letter.reason } : { ...base, state: "Sent" };
}

function pendingEntry(subscription: string, { id, state }: PendingEvent, mayRun: boolean): TimelineEntry {
  const base = { id, sequence: state?.sequence, subscription, attempts: state?.attempts ?? 0 };
  if (state === undefined) return { ...base, state: mayRun ? "InFlight" : "Pending" };
  const { status, nextAttemptMs, lastError, decision } = state;
  const waiting = { pending: "Pending", parked: "Failed", blocked: "Dead" } as const;
  return {
    ...base,
    state: mayRun && status === "pending" ? "InFlight" : waiting[status],
    ...(status === "parked" ? { nextAttemptAt: new Date(nextAttemptMs).toISOString() } : {}),
    ...(lastError === undefined ? {} : { lastError }),
    ...(decision === undefined ? {} : { decision: { ...decision, carriedOut: false } }),
  };
}

function byCodeUnit(a: string, b: string): number {
  if (a === b) return 0;
  return a < b ? -1 : 1;
}
