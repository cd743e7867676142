/** The head of every pending stream and how many events wait behind it: one listing of `events/`, and only heads are kept in memory. */
import { pendingAgeMs } from "../core/event-time.ts";
import type { EventId } from "../core/event-id.ts";
import type { OrderId, OrderKey } from "../core/order-id.ts";
import { decodePendingState, type PendingState } from "../core/pending-event.ts";
import type { Blobs, CallOptions, Etag, Metadata } from "../core/ports.ts";
import { parseEventBlobName } from "./blob-name.ts";
import type { SubscriptionFigures } from "./metrics.ts";

/** The oldest pending event of one order for one subscription. */
export interface StreamHead {
  readonly subscription: string;
  readonly order: OrderKey;
  readonly orderId: OrderId;
  readonly id: EventId;
  readonly etag: Etag;
  /** Both undefined if the metadata is not ours: a worker has to read the blob. */
  readonly sequence: number | undefined;
  readonly state: PendingState | undefined;
}

export interface ForeignNames {
  readonly count: number;
  /** The first few of them. */
  readonly names: readonly string[];
}

export interface StreamHeads {
  readonly heads: readonly StreamHead[];
  /** By name; `dead` is 0. */
  readonly figures: readonly SubscriptionFigures[];
  /** Names below `events/` that are none of ours: reported, never touched (W10). */
  readonly foreign: ForeignNames;
}

const MAX_FOREIGN_NAMES = 20;

/** @param nowMs by the wall clock, for the ages of events */
export async function listStreamHeads(blobs: Blobs, nowMs: number, options?: CallOptions): Promise<StreamHeads> {
  const heads = new Map<string, Omit<StreamHead, "sequence" | "state"> & { readonly metadata: Metadata }>();
  const counts = new Map<string, { pending: number; oldestAgeMs: number }>();
  const foreign: string[] = [];
  let foreignCount = 0;
  for await (const { name, ageMs, etag, metadata } of blobs.list("events", "", options)) {
    const parsed = parseEventBlobName(name);
    if (parsed === undefined) {
      foreignCount += 1;
      if (foreign.length < MAX_FOREIGN_NAMES) foreign.push(name);
      continue;
    }
    const { subscription, order, orderId, id } = parsed;
    const count = counts.get(subscription) ?? { pending: 0, oldestAgeMs: 0 };
    counts.set(subscription, count);
    count.pending += 1;
    count.oldestAgeMs = Math.max(count.oldestAgeMs, pendingAgeMs(id, ageMs, nowMs));
    const key = `${subscription}/${order}`;
    const head = heads.get(key);
    // The service lists by its own rule for letters; ours is by code unit.
    if (head === undefined || id < head.id) heads.set(key, { subscription, order, orderId, id, etag, metadata });
  }
  // Decoded late: the state of events behind a head is nobody's business here.
  const decoded = [...heads.values()].map(({ metadata, ...head }) => {
    const state = decodePendingState(metadata);
    return { ...head, sequence: state?.sequence, state };
  });
  return { heads: decoded, figures: figuresOf(counts, decoded), foreign: { count: foreignCount, names: foreign } };
}

function figuresOf(
  counts: ReadonlyMap<string, { readonly pending: number; readonly oldestAgeMs: number }>,
  heads: readonly StreamHead[],
): readonly SubscriptionFigures[] {
  const waiting = { parked: new Map<string, number>(), blocked: new Map<string, number>() };
  for (const { subscription, state } of heads) {
    // Once a human has decided it waits for a worker, if it is not finished already and only its blob is left.
    if ((state?.status !== "parked" && state?.status !== "blocked") || state.decision !== undefined) continue;
    const map = waiting[state.status];
    map.set(subscription, (map.get(subscription) ?? 0) + 1);
  }
  return [...counts.keys()].sort().map((subscription) => ({
    subscription,
    pending: counts.get(subscription)?.pending ?? 0,
    parked: waiting.parked.get(subscription) ?? 0,
    blocked: waiting.blocked.get(subscription) ?? 0,
    oldestAgeMs: counts.get(subscription)?.oldestAgeMs ?? 0,
    dead: 0,
  }));
}
