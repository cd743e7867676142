/** Audit of what handlers wrote down, subscription by subscription and order by order. Asks nobody else. */
export interface Start {
  readonly subscription: string;
  readonly orderId: string;
  readonly sequence: number;
  /** Which process it was in, and which time of holding the order, where that can be lost while the process lives. */
  readonly life: number | string;
  /** `died`: its process ended before it did, or before anybody could know. */
  outcome: "handled" | "failed" | "died";
}

export interface StreamAudit {
  readonly problems: readonly string[];
  readonly failed: number;
  /** Starts after a start of the same event that had been handled: G3 allows them only in another life. */
  readonly repeated: number;
}

/**
 * Every stream must have the sequences 1 to `events`, in order, each handled; the same one again after a failure, and after success only in
 * another process, for the one before was killed.
 *
 * @param starts in the order in which they happened
 */
export function auditStreams(
  starts: readonly Start[],
  subscriptions: readonly string[],
  orderIds: readonly string[],
  events: number,
): StreamAudit {
  const problems: string[] = [];
  const streams = new Map<string, Start[]>();
  for (const start of starts) {
    const key = JSON.stringify([start.subscription, start.orderId]);
    const stream = streams.get(key);
    if (stream === undefined) streams.set(key, [start]);
    else stream.push(start);
  }
  let repeated = 0;
  for (const subscription of subscriptions) {
    for (const orderId of orderIds) {
      const stream = streams.get(JSON.stringify([subscription, orderId])) ?? [];
      let last: Start | undefined;
      for (const start of stream) {
        const at = `${subscription} ${orderId} E${start.sequence}`;
        if (last === undefined ? start.sequence !== 1 : start.sequence !== last.sequence && start.sequence !== last.sequence + 1)
          problems.push(`${at}: out of order, after E${last?.sequence ?? 0}`);
        if (last !== undefined && start.sequence > last.sequence && last.outcome !== "handled")
          problems.push(`${at}: E${last.sequence} was ${last.outcome}`);
        if (last !== undefined && start.sequence === last.sequence && last.outcome === "handled") {
          repeated += 1;
          if (last.life === start.life) problems.push(`${at}: handled twice without a kill`);
        }
        last = start;
      }
      if (last?.sequence !== events || last.outcome !== "handled")
        problems.push(`${subscription} ${orderId}: ends at E${last?.sequence ?? 0}, ${last?.outcome ?? "never started"}`);
    }
  }
  if (streams.size !== subscriptions.length * orderIds.length) problems.push(`${streams.size} streams`);
  return { problems, failed: starts.filter(({ outcome }) => outcome === "failed").length, repeated };
}
