/** What storage knows of an order's events, as one line for each event and subscription. */
import type { EventId } from "../core/event-id.ts";
import { streamProgress } from "../core/explain.ts";
import { UNROUTED } from "../core/names.ts";
import type { Decision } from "../core/pending-event.ts";
import { splitGhosts } from "../core/stream.ts";
import type { ArchivedEvent, FinishedEvents } from "./finished-events.ts";
import type { GatheredOrder } from "./order-facts.ts";
import type { PendingEvent } from "./pending-streams.ts";

/**
 * `Pending`: waits for its turn or, without a subscription, for a worker. `InFlight`: the head while a worker holds the lease; it runs or is
 * about to. `Failed`: waits for its next attempt. `Dead`: a dead letter, waiting for a human or skipped. `Sent`: handled. `Discarded`: by an
 * operator. `Unwanted`: archived, because no subscription wanted it.
 */
export type TimelineState = "Pending" | "InFlight" | "Sent" | "Failed" | "Dead" | "Discarded" | "Unwanted";

export interface TimelineEntry {
  readonly id: EventId;
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
  /** An operator's, made or carried out. */
  readonly decision?: Pick<Decision, "action" | "actor" | "reason">;
}

const ARCHIVED_STATES = { handled: "Sent", discarded: "Discarded", "dead-lettered": "Dead", unwanted: "Unwanted" } as const;

/** In commit order; an event that is in two places on its way is shown where it goes. */
export function timelineOf(gathered: GatheredOrder<readonly FinishedEvents[]>): readonly TimelineEntry[] {
  const { found, streams, finished, progress, lease } = gathered;
  const entries: TimelineEntry[] = [];
  for (const { subscription, archived, dead } of finished) {
    for (const event of archived) entries.push(archivedEntry(subscription, event, dead.get(event.id)?.reason));
  }
  const archived = new Set(entries.map(({ id, subscription }) => `${subscription}/${id}`));
  for (const { subscription, events } of streams) {
    const head = splitGhosts(events, streamProgress(progress, subscription)).pending[0];
    for (const event of events) {
      if (archived.has(`${subscription}/${event.id}`)) continue;
      entries.push(pendingEntry(subscription, event, event === head && lease?.state === "taken"));
    }
  }
  const relayed = new Set(entries.map(({ id }) => id));
  for (const { id, sequence } of found.outbox) {
    if (!relayed.has(id)) entries.push({ id, sequence, subscription: undefined, state: "Pending", attempts: 0 });
  }
  return entries.sort((a, b) => byCodeUnit(a.id, b.id) || byCodeUnit(a.subscription ?? "", b.subscription ?? ""));
}

function archivedEntry(subscription: string, event: ArchivedEvent, reason: string | undefined): TimelineEntry {
  const { id, sequence, attempts, outcome, finishedAt, decidedBy, decisionReason } = event;
  const decision = decidedBy === undefined ? undefined : { action: "discard" as const, actor: decidedBy, reason: decisionReason ?? "" };
  return {
    id,
    sequence,
    subscription: subscription === UNROUTED ? undefined : subscription,
    state: ARCHIVED_STATES[outcome],
    attempts,
    ...(reason === undefined ? {} : { lastError: reason }),
    ...(finishedAt === undefined ? {} : { finishedAt }),
    ...(decision === undefined ? {} : { decision }),
  };
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
    ...(decision === undefined ? {} : { decision }),
  };
}

function byCodeUnit(a: string, b: string): number {
  if (a === b) return 0;
  return a < b ? -1 : 1;
}
