import type { Clock } from "../core/clock.ts";
import type { OrderStream } from "./order-stream.ts";
import type { Wakeable } from "./wakeable.ts";

/** Streams that stand for no other reason than that their head waits for its next attempt. */
export function parkedStreams(streams: readonly OrderStream[]): OrderStream[] {
  return streams.filter(({ stopped, queue }) => stopped?.parked === true && queue[0]?.status === "parked");
}

/**
 * What comes first while drains run: a poke or the time to look for new commits, or the end of a drain, of a park or of some time. Only an
 * idle stream gains from an early look (W9), and one that stands from a poke too: an operator may have decided about its head (F4).
 */
export async function newsBefore(
  running: ReadonlyMap<OrderStream, Promise<void>>,
  streams: readonly OrderStream[],
  {
    clock,
    pollMs,
    wakeable,
    goesOn,
  }: { readonly clock: Clock; readonly pollMs: number; readonly wakeable: Wakeable; readonly goesOn: boolean },
): Promise<"poke" | "tick" | "ended"> {
  const over = new AbortController();
  const after = <News>(ms: number, news: News): Promise<News | "ended"> =>
    clock.sleep(ms, over.signal).then(
      () => news,
      () => "ended",
    );
  const idle = streams.some((stream) => !running.has(stream) && stream.stopped === undefined);
  const stands = streams.some((stream) => stream.stopped !== undefined && stream.queue.length > 0);
  const due = goesOn ? parkedStreams(streams).map(({ queue }) => after(queue[0]!.nextAttemptMs - clock.now(), "ended" as const)) : [];
  // Not asked for when it would change nothing: it waits for the next time.
  const poke = (): Promise<"poke" | "ended"> => wakeable.next(over.signal).then((poked) => (poked ? "poke" : "ended"));
  try {
    return await Promise.race([
      ...[...running.values()].map((drain) => drain.then(() => "ended" as const)),
      ...due,
      ...(idle ? [after(pollMs, "tick" as const)] : []),
      ...(idle || stands ? [poke()] : []),
    ]);
  } finally {
    over.abort();
  }
}
