/**
 * The orders that other subscriptions have events of, from listings of `archive` and `events` that are read side by side: names sort by order
 * within each subscription, so that an order's events come together, and no more than a page of each listing is held.
 *
 * Events move while the listings go on, and a listing may sort by a rule of its own. So what is found of an order is a beginning: who uses it
 * looks closer where something seems to be missing, and may meet an order twice.
 */
import { assertSubscriptionName, UNROUTED } from "../core/names.ts";
import type { OrderId, OrderKey } from "../core/order-id.ts";
import type { Blobs } from "../core/ports.ts";
import { parseEventBlobName } from "./blob-name.ts";
import { addSource, sourceSequence, type SourceContainer, type Sources } from "./replay-sources.ts";

export interface FoundOrder {
  readonly order: OrderKey;
  readonly orderId: OrderId;
  readonly sources: Sources;
}

export interface OtherStreams {
  /** Do the listings sort names by code unit, as far as it shows? */
  readonly sorted: boolean;
  /** {@link UNROUTED} among them. */
  readonly names: ReadonlySet<string>;
  readonly orders: AsyncGenerator<FoundOrder>;
}

/**
 * @param except the subscription whose own stream is none of this
 * @param onForeign is told of names that are none of ours (W10), and of blobs without our metadata
 */
export async function listOtherStreams(blobs: Blobs, except: string, onForeign: (name: string) => void): Promise<OtherStreams> {
  const containers = ["events", "archive"] as const;
  let sorted = true;
  const listings: { readonly container: SourceContainer; readonly subscription: string }[] = [];
  for (const container of containers) {
    const found = await subscriptionsIn(blobs, container);
    sorted &&= found.sorted;
    found.names.delete(except);
    for (const subscription of found.names) listings.push({ container, subscription });
  }
  const groups = listings.map(({ container, subscription }) => ordersOf(blobs, container, subscription, onForeign));
  return { sorted, names: new Set([UNROUTED, ...listings.map(({ subscription }) => subscription)]), orders: merged(groups) };
}

/** Only the names are kept. There is no other way to ask for them: a listing by prefix needs to know them. */
async function subscriptionsIn(
  blobs: Blobs,
  container: SourceContainer,
): Promise<{ readonly names: Set<string>; readonly sorted: boolean }> {
  const names = new Set<string>();
  let last = "";
  let sorted = true;
  for await (const { name } of blobs.list(container, "")) {
    sorted &&= last < name;
    last = name;
    const subscription = name.slice(0, Math.max(0, name.indexOf("/")));
    if (!names.has(subscription) && isStream(subscription)) names.add(subscription);
  }
  return { names, sorted };
}

/** Does a listing bring the events of one order before those of the other? In names a slash follows, and a dash sorts before that. */
export function listedBefore(one: OrderKey, other: OrderKey): boolean {
  return `${one}/` < `${other}/`;
}

function isStream(name: string): boolean {
  if (name === UNROUTED) return true;
  try {
    assertSubscriptionName(name);
    return true;
  } catch {
    return false;
  }
}

/** What one listing has of each order. */
async function* ordersOf(
  blobs: Blobs,
  container: SourceContainer,
  subscription: string,
  onForeign: (name: string) => void,
): AsyncGenerator<FoundOrder> {
  let current: FoundOrder | undefined;
  for await (const { name, metadata } of blobs.list(container, `${subscription}/`)) {
    const parsed = parseEventBlobName(name);
    const sequence = sourceSequence(metadata);
    if (parsed === undefined || sequence === undefined) {
      onForeign(`${container}/${name}`);
      continue;
    }
    const { order, orderId, id } = parsed;
    if (current?.order !== order) {
      if (current !== undefined) yield current;
      current = { order, orderId, sources: new Map() };
    }
    addSource(current.sources, id, sequence, container, name);
  }
  if (current !== undefined) yield current;
}

/** The first of the heads, with what the other heads have of the same order. */
async function* merged(groups: readonly AsyncGenerator<FoundOrder>[]): AsyncGenerator<FoundOrder> {
  try {
    const heads = await Promise.all(groups.map((group) => group.next()));
    for (;;) {
      let first: FoundOrder | undefined;
      for (const head of heads) {
        if (head.done !== true && (first === undefined || listedBefore(head.value.order, first.order))) first = head.value;
      }
      if (first === undefined) return;
      const sources: Sources = new Map();
      for (const [index, head] of heads.entries()) {
        if (head.done === true || head.value.order !== first.order) continue;
        for (const { id, sequence, places } of head.value.sources.values()) {
          for (const { container, name } of places) addSource(sources, id, sequence, container, name);
        }
        heads[index] = await groups[index]!.next();
      }
      yield { ...first, sources };
    }
  } finally {
    for (const group of groups) await group.return(undefined);
  }
}
