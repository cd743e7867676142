/** One order: where it stands, and the timeline of every event of it that storage still knows. */
import { isOutboxError } from "../core/errors.ts";
import { decodeEvent, decodeEventBytes, type StoredEvent } from "../core/event.ts";
import type { EventId } from "../core/event-id.ts";
import { eventBlobName, UNROUTED } from "../core/names.ts";
import { parseOrderId, type OrderId, type OrderKey } from "../core/order-id.ts";
import type { LeaseBlob, OutboxEntity } from "../core/ports.ts";
import type { OperationsContext } from "./context.ts";
import { listFinished } from "./finished-events.ts";
import { holderOf } from "./holder.ts";
import { inLanes } from "./lanes.ts";
import { gatherOrder } from "./order-facts.ts";
import { timelineOf, type TimelineEntry } from "./timeline.ts";

export interface ShownEvent extends TimelineEntry {
  /** Undefined if the event was not read, or can't be. */
  readonly type: string | undefined;
  /** When it happened, ISO 8601, by the producer. */
  readonly occurredAt: string | undefined;
  /** Of an event that was redriven out of order: the new event that it was committed again as, if it was read. */
  readonly redrivenAs?: { readonly id: EventId; readonly sequence: number };
  /** Of such a new event: the one that it repeats. */
  readonly redriveOf?: { readonly id: EventId; readonly sequence: number | undefined };
  /** Of an event that replay or backfill committed: the one that it repeats. */
  readonly replayOf?: { readonly id: EventId; readonly sequence: number | undefined };
}

export interface ShownOrder {
  readonly orderId: OrderId;
  /** Sequence of the last committed event; undefined if there is no such order. */
  readonly sequence: number | undefined;
  /** True for an order that was deleted: only its place in the order of events is kept (C7). */
  readonly deleted: boolean;
  /** `none`: no worker has ever had it. */
  readonly lease: LeaseBlob["state"] | "none";
  /** ISO 8601, by the worker's clock; only while the lease is taken and its holder has left its mark. */
  readonly heldSince?: string;
  /** Host and process id of the holder, told with {@link heldSince}. */
  readonly heldBy?: string;
  /** Last finished sequence of each subscription that has finished any. */
  readonly progress: Readonly<Record<string, number>>;
  /** In commit order. Events that retention has removed from the archive are not in here. */
  readonly timeline: readonly ShownEvent[];
}

/** How many events, the newest ones, are read for their type and time. */
const MAX_READS = 500;
const LANES = 8;

/** Costs one listing of `events/`, two small ones a subscription, and one read an event, at most {@link MAX_READS}. */
export async function showOrder(context: OperationsContext, rawOrderId: string): Promise<ShownOrder> {
  const orderId = parseOrderId(rawOrderId);
  const gathered = await gatherOrder(context, orderId, {
    readFinished: (subscriptions, order) => inLanes(subscriptions, LANES, (subscription) => listFinished(context, subscription, order)),
  });
  const { order, found, lease, progress } = gathered;
  const timeline = timelineOf(gathered);
  const holder = await holderOf(context, order, lease);
  const events = await readEvents(context, order, found.outbox, timeline);
  const redriven = redrivenIn(timeline);
  return {
    orderId,
    sequence: found.order?.sequence,
    deleted: found.order !== undefined && found.order.state === undefined,
    lease: lease?.state ?? "none",
    ...(holder === undefined ? {} : { heldSince: new Date(holder.sinceMs).toISOString() }),
    ...(holder?.process === undefined ? {} : { heldBy: holder.process }),
    progress: Object.fromEntries(Object.entries(progress.streams).map(([name, { sequence }]) => [name, sequence])),
    timeline: timeline.map((entry) => shownEvent(entry, events, redriven)),
  };
}

/** Events that somebody decided to redrive although their streams have passed them, each with its subscription. */
function redrivenIn(timeline: readonly TimelineEntry[]): ReadonlySet<string> {
  const redriven = timeline.filter(({ state, decision }) => state === "Redriven" || (state === "Dead" && decision?.action === "redrive"));
  return new Set(redriven.map(({ id, subscription }) => `${subscription}/${id}`));
}

function shownEvent(entry: TimelineEntry, events: ReadonlyMap<EventId, StoredEvent>, redriven: ReadonlySet<string>): ShownEvent {
  const event = entry.id && events.get(entry.id);
  const replay =
    entry.state === "Redriven"
      ? [...events.values()].find(({ replayOf, replayFor }) => replayOf === entry.id && replayFor === entry.subscription)
      : undefined;
  return {
    ...entry,
    type: event?.type,
    occurredAt: event?.time,
    ...(replay === undefined ? {} : { redrivenAs: { id: replay.id, sequence: replay.sequence } }),
    ...(event && originOf(event, events, redriven)),
  };
}

function originOf(
  { replayOf, replayFor }: StoredEvent,
  events: ReadonlyMap<EventId, StoredEvent>,
  redriven: ReadonlySet<string>,
): Pick<ShownEvent, "redriveOf" | "replayOf"> {
  if (replayOf === undefined) return {};
  const origin = { id: replayOf, sequence: events.get(replayOf)?.sequence };
  return redriven.has(`${replayFor}/${replayOf}`) ? { redriveOf: origin } : { replayOf: origin };
}

/** Each event once, whatever the number of its subscriptions. */
async function readEvents(
  context: OperationsContext,
  order: OrderKey,
  outbox: readonly OutboxEntity[],
  timeline: readonly TimelineEntry[],
): Promise<ReadonlyMap<EventId, StoredEvent>> {
  const there = timeline.filter(({ state }) => state !== "Missing");
  const places = new Map(there.flatMap((entry) => (entry.id === undefined ? [] : [[entry.id, entry] as const])));
  const newest = [...places].slice(-MAX_READS);
  const entities = new Map(outbox.map((entity) => [entity.id, entity]));
  const events = new Map<EventId, StoredEvent>();
  await inLanes(newest, LANES, async ([id, entry]) => {
    try {
      const event = await readEvent(context, order, id, entry, entities.get(id));
      if (event !== undefined) events.set(id, event);
    } catch (error) {
      // Shown without type and time; what is wrong with it is for `verify` to say.
      if (!isOutboxError(error, "corrupt")) throw error;
    }
  });
  return events;
}

async function readEvent(
  { storage: { blobs } }: OperationsContext,
  order: OrderKey,
  id: EventId,
  { subscription, finishedAt }: TimelineEntry,
  entity: OutboxEntity | undefined,
): Promise<StoredEvent | undefined> {
  if (entity?.text !== undefined) return decodeEvent(entity.text);
  if (entity?.payloadBlob !== undefined) {
    const payload = await blobs.read("payloads", entity.payloadBlob);
    if (payload !== undefined) return decodeEventBytes(payload.bytes);
  }
  if (subscription === undefined) {
    const unwanted = await blobs.read("archive", eventBlobName(UNROUTED, order, id));
    return unwanted && decodeEventBytes(unwanted.bytes);
  }
  const name = eventBlobName(subscription, order, id);
  // Where it was, and where it may have gone meanwhile.
  const blob =
    finishedAt === undefined
      ? ((await blobs.read("events", name)) ?? (await blobs.read("archive", name)))
      : await blobs.read("archive", name);
  return blob && decodeEventBytes(blob.bytes);
}
