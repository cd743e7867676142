/** How much waits in each subscription: the numbers of the sweep and its gauges, of `status` and of `metrics`. */
import type { CallOptions, Storage } from "../core/ports.ts";
import { parseEventBlobName } from "./blob-name.ts";
import type { SubscriptionFigures } from "./metrics.ts";
import { listStreamHeads, type StreamHeads } from "./stream-heads.ts";

/**
 * Costs one listing each of `events/` and `dead/`.
 *
 * @param nowMs by the wall clock, for the ages of events
 */
export async function readFigures({ blobs }: Pick<Storage, "blobs">, nowMs: number, options: CallOptions): Promise<StreamHeads> {
  const [pending, dead] = await Promise.all([listStreamHeads(blobs, nowMs, options), countDead(blobs, options)]);
  return { ...pending, figures: withDead(pending.figures, dead) };
}

async function countDead(blobs: Storage["blobs"], options: CallOptions): Promise<ReadonlyMap<string, number>> {
  const counts = new Map<string, number>();
  for await (const { name } of blobs.list("dead", "", options)) {
    const subscription = parseEventBlobName(name)?.subscription;
    if (subscription !== undefined) counts.set(subscription, (counts.get(subscription) ?? 0) + 1);
  }
  return counts;
}

function withDead(figures: readonly SubscriptionFigures[], dead: ReadonlyMap<string, number>): readonly SubscriptionFigures[] {
  const nothing = { pending: 0, parked: 0, blocked: 0, oldestAgeMs: 0 };
  const names = new Set([...figures.map(({ subscription }) => subscription), ...dead.keys()]);
  return [...names].sort().map((subscription) => ({
    ...(figures.find((each) => each.subscription === subscription) ?? { subscription, ...nothing }),
    dead: dead.get(subscription) ?? 0,
  }));
}
