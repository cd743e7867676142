/** Audit of what handlers wrote down, subscription by subscription and order by order. Asks nobody else. */
export interface Start {
  readonly subscription: string;
  readonly orderId: string;
  readonly sequence: number;
  /** Whose end may have cut off what ran in it. Of two lives, the later one has the greater number. */
  readonly life: number;
  /** `died`: its process ended before it did, or before anybody could know. */
  outcome: "handled" | "failed" | "died";
  /** The write of the progress that tells so was confirmed (W2), as far as is known. */
  recorded?: boolean;
}

export interface StreamAudit {
  /** All that is wrong, in words; the numbers of them by kind. */
  readonly problems: readonly string[];
  /** Events that were never handled. */
  readonly lost: number;
  readonly outOfOrder: number;
  /** Repeated without need. */
  readonly doubled: number;
  readonly failed: number;
  /** Starts after a start of the same event that had been handled: G3 allows them only in another life, and before that was on record. */
  readonly repeated: number;
}

/**
 * Every stream must have the sequences 1 to `events`, in order, each handled; the same one again after a failure, and after success only in
 * another life, for the one before ended before it could record that.
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
  let lost = 0;
  let outOfOrder = 0;
  let doubled = 0;
  let repeated = 0;
  for (const subscription of subscriptions) {
    for (const orderId of orderIds) {
      const stream = streams.get(JSON.stringify([subscription, orderId])) ?? [];
      let last: Start | undefined;
      for (const start of stream) {
        const at = `${subscription} ${orderId} E${start.sequence}`;
        if (last === undefined ? start.sequence !== 1 : start.sequence !== last.sequence && start.sequence !== last.sequence + 1) {
          outOfOrder += 1;
          problems.push(`${at}: out of order, after E${last?.sequence ?? 0}`);
        }
        if (last !== undefined && start.sequence > last.sequence && last.outcome !== "handled") {
          outOfOrder += 1;
          problems.push(`${at}: E${last.sequence} was ${last.outcome}`);
        }
        if (last !== undefined && start.sequence === last.sequence && last.outcome === "handled") {
          repeated += 1;
          if (last.life === start.life || last.recorded === true) {
            doubled += 1;
            problems.push(`${at}: handled twice, ${last.recorded === true ? "and was on record" : "without a kill"}`);
          }
        }
        last = start;
      }
      const handled = new Set(stream.filter(({ outcome }) => outcome === "handled").map(({ sequence }) => sequence));
      lost += events - handled.size;
      if (handled.size !== events)
        problems.push(`${subscription} ${orderId}: ${events - handled.size} of ${events} events were not handled`);
      else if (last?.sequence !== events || last.outcome !== "handled")
        problems.push(`${subscription} ${orderId}: ends at E${last?.sequence ?? 0}, ${last?.outcome}`);
    }
  }
  if (streams.size !== subscriptions.length * orderIds.length) problems.push(`${streams.size} streams`);
  return { problems, lost, outOfOrder, doubled, failed: starts.filter(({ outcome }) => outcome === "failed").length, repeated };
}
