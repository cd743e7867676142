/** How much waits in each subscription: the numbers of the sweep and its gauges, of `status` and of `metrics`. */
import { decodeDeadLetterSummary } from "../core/dead-letter.ts";
import type { CallOptions, Storage } from "../core/ports.ts";
import { parseEventBlobName } from "./blob-name.ts";
import type { SubscriptionFigures } from "./metrics.ts";
import { suspectEntries, unlistedHeads } from "./stale-letters.ts";
import { listStreamHeads, type StreamHead, type StreamHeads } from "./stream-heads.ts";

export interface Figures extends StreamHeads {
  /** Names in the index of dead letters whose event may be finished. */
  readonly suspectEntries: readonly string[];
  /** Heads that are dead and not in the index. */
  readonly unlisted: readonly StreamHead[];
}

/**
 * Costs one listing each of `events/` and `dead/`.
 *
 * @param nowMs by the wall clock, for the ages of events
 */
export async function readFigures({ blobs }: Pick<Storage, "blobs">, nowMs: number, options: CallOptions): Promise<Figures> {
  const [pending, dead] = await Promise.all([listStreamHeads(blobs, nowMs, options), listDead(blobs, options)]);
  return {
    ...pending,
    figures: withDead(pending.figures, dead.counts),
    suspectEntries: suspectEntries(dead.blocking, pending.heads),
    unlisted: unlistedHeads(dead.names, pending.heads),
  };
}

async function listDead(
  blobs: Storage["blobs"],
  options: CallOptions,
): Promise<{ readonly counts: ReadonlyMap<string, number>; readonly names: ReadonlySet<string>; readonly blocking: readonly string[] }> {
  const names = new Set<string>();
  const counts = new Map<string, number>();
  const blocking: string[] = [];
  for await (const { name, metadata } of blobs.list("dead", "", options)) {
    const subscription = parseEventBlobName(name)?.subscription;
    if (subscription === undefined) continue;
    names.add(name);
    counts.set(subscription, (counts.get(subscription) ?? 0) + 1);
    if (decodeDeadLetterSummary(metadata)?.policy === "block") blocking.push(name);
  }
  return { counts, names, blocking };
}

function withDead(figures: readonly SubscriptionFigures[], dead: ReadonlyMap<string, number>): readonly SubscriptionFigures[] {
  const nothing = { pending: 0, parked: 0, blocked: 0, oldestAgeMs: 0 };
  const names = new Set([...figures.map(({ subscription }) => subscription), ...dead.keys()]);
  return [...names].sort().map((subscription) => ({
    ...(figures.find((each) => each.subscription === subscription) ?? { subscription, ...nothing }),
    dead: dead.get(subscription) ?? 0,
  }));
}
