/** Looking at dead letters: one listing of their index, O(dead). */
import { decodeDeadLetter, decodeDeadLetterSummary, errorGroup, type DeadLetter, type DeadLetterSummary } from "../core/dead-letter.ts";
import { OutboxError, printable } from "../core/errors.ts";
import type { EventId } from "../core/event-id.ts";
import { eventBlobName } from "../core/names.ts";
import { encodeOrderId, parseOrderId } from "../core/order-id.ts";
import { decodePendingState, type Decision } from "../core/pending-event.ts";
import { parseEventBlobName, type EventBlobName } from "./blob-name.ts";
import type { OperationsContext } from "./context.ts";

/** What is not set does not filter. */
export interface DeadLetterFilter {
  readonly subscription?: string | undefined;
  readonly orderId?: string | undefined;
  readonly id?: EventId | undefined;
  readonly type?: string | undefined;
  /** The reason contains this text, letters in any case. */
  readonly errorText?: string | undefined;
  /** As in {@link DeadLetterGroup.group}. */
  readonly group?: string | undefined;
  /** Dead for longer than this. */
  readonly olderThanMs?: number | undefined;
  /** Dead for at most this. */
  readonly youngerThanMs?: number | undefined;
}

export interface ListedDeadLetter extends EventBlobName, DeadLetterSummary {
  /** Dead letters that failed alike share it. */
  readonly group: string;
  /** Since it died, by the clock of the service, in milliseconds. */
  readonly ageMs: number;
}

export interface DeadLetterGroup {
  /** What its members have in common; see `errorGroup`. */
  readonly group: string;
  /** The reason of its first member, as it is. */
  readonly example: string;
  readonly count: number;
  readonly orders: number;
  readonly subscriptions: readonly string[];
}

export interface DeadLetterListing {
  /** The oldest event of each order first, orders in order of their keys. */
  readonly letters: readonly ListedDeadLetter[];
  /** The biggest first. */
  readonly groups: readonly DeadLetterGroup[];
  /** Names below `dead/` that are none of ours, or without our metadata. */
  readonly foreign: readonly string[];
}

export async function listDeadLetters({ storage }: OperationsContext, filter: DeadLetterFilter = {}): Promise<DeadLetterListing> {
  if (filter.orderId !== undefined) parseOrderId(filter.orderId);
  const letters: ListedDeadLetter[] = [];
  const foreign: string[] = [];
  const prefix = filter.subscription === undefined ? "" : `${filter.subscription}/`;
  for await (const blob of storage.blobs.list("dead", prefix)) {
    const name = parseEventBlobName(blob.name);
    const summary = decodeDeadLetterSummary(blob.metadata);
    if (name === undefined || summary === undefined) {
      foreign.push(blob.name);
      continue;
    }
    const letter = { ...name, ...summary, group: errorGroup(summary.reason, name.orderId), ageMs: blob.ageMs };
    if (matches(letter, filter)) letters.push(letter);
  }
  letters.sort((a, b) => byCodeUnit(a.order, b.order) || byCodeUnit(a.id, b.id) || byCodeUnit(a.subscription, b.subscription));
  return { letters, groups: groupsOf(letters), foreign };
}

export interface ShownDeadLetter {
  readonly letter: DeadLetter;
  /** The event's exact text, if it is UTF-8; undefined if its blob is gone or holds something else. */
  readonly eventText: string | undefined;
  /** For bytes that are no UTF-8. */
  readonly eventBase64?: string;
  /** What an operator has decided and no worker has carried out yet. */
  readonly decision?: Decision;
}

/** One event of one stream; what a listing tells of it will do. */
export interface DeadLetterTarget {
  readonly subscription: string;
  readonly orderId: string;
  readonly id: EventId;
}

/** Everything about one dead letter. Throws `not-found`, or `corrupt` for an index blob that is not ours. */
export async function showDeadLetter({ storage }: OperationsContext, target: DeadLetterTarget): Promise<ShownDeadLetter> {
  const name = eventBlobName(target.subscription, encodeOrderId(parseOrderId(target.orderId)), target.id);
  const index = await storage.blobs.read("dead", name);
  if (index === undefined) {
    throw new OutboxError(
      "not-found",
      `event ${target.id} of order ${printable(target.orderId)} is no dead letter of ${target.subscription}: \`ordered-outbox dead list\` has those there are`,
    );
  }
  const letter = decodeDeadLetter(index.bytes);
  const event = (await storage.blobs.read("events", name)) ?? (await storage.blobs.read("archive", name));
  const decision = event && decodePendingState(event.metadata)?.decision;
  return { letter, ...eventContent(event?.bytes), ...(decision === undefined ? {} : { decision }) };
}

function eventContent(bytes: Uint8Array | undefined): Pick<ShownDeadLetter, "eventText" | "eventBase64"> {
  if (bytes === undefined) return { eventText: undefined };
  try {
    return { eventText: new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }).decode(bytes) };
  } catch {
    return { eventText: undefined, eventBase64: Buffer.from(bytes).toString("base64") };
  }
}

function matches(letter: ListedDeadLetter, filter: DeadLetterFilter): boolean {
  const { orderId, id, type, errorText, group, olderThanMs, youngerThanMs } = filter;
  return (
    (orderId === undefined || letter.orderId === orderId) &&
    (id === undefined || letter.id === id) &&
    (type === undefined || letter.type === type) &&
    (errorText === undefined || letter.reason.toLowerCase().includes(errorText.toLowerCase())) &&
    (group === undefined || letter.group === group) &&
    (olderThanMs === undefined || letter.ageMs > olderThanMs) &&
    (youngerThanMs === undefined || letter.ageMs <= youngerThanMs)
  );
}

function groupsOf(letters: readonly ListedDeadLetter[]): readonly DeadLetterGroup[] {
  return [...Map.groupBy(letters, ({ group }) => group)]
    .map(([group, members]) => ({
      group,
      example: members[0]!.reason,
      count: members.length,
      orders: new Set(members.map(({ order }) => order)).size,
      subscriptions: [...new Set(members.map(({ subscription }) => subscription))].sort(),
    }))
    .sort((a, b) => b.count - a.count || byCodeUnit(a.group, b.group));
}

function byCodeUnit(a: string, b: string): number {
  if (a === b) return 0;
  return a < b ? -1 : 1;
}
