/**
 * Is the trace of one order whole? Archive, pending events and dead letters together must be what was committed, each event in one place, in
 * order. Judged from names and metadata; no event is read.
 */
import { streamProgress } from "../core/progress.ts";
import { UNROUTED } from "../core/names.ts";
import { firstUnaccounted, newestSequence, seenSequence, splitGhosts } from "../core/stream.ts";
import { eventIdsOf } from "./event-ids.ts";
import type { Finding } from "./finding.ts";
import type { FinishedEvents } from "./finished-events.ts";
import type { GatheredOrder } from "./order-facts.ts";
import { StreamCheck } from "./verify-stream.ts";

export function verifyGathered(gathered: GatheredOrder<readonly FinishedEvents[]>): readonly Finding[] {
  const { settled, finished } = gathered;
  const findings: Finding[] = settled
    ? []
    : [{ kind: "moving", severity: "notice", text: "a worker is at the order: what it may be moving was not judged" }];
  findings.push(
    ...gathered.foreign.map((name): Finding => ({ kind: "foreign", severity: "damage", text: `events/${name} is not one of ours` })),
  );
  findings.push(...verifyOrderRow(gathered));
  const ids = eventIdsOf(gathered);
  for (const own of finished) findings.push(...new StreamCheck(own, gathered, ids).run());
  return findings;
}

function verifyOrderRow(gathered: GatheredOrder<readonly FinishedEvents[]>): Finding[] {
  const { found, progress, streams, settled } = gathered;
  const { order, outbox, unreadable } = found;
  const findings = unreadable.map((rowKey): Finding => ({ kind: "foreign", severity: "damage", text: `row ${rowKey} is not one of ours` }));
  const seen = seenSequence(progress);
  const top = newestSequence(order?.sequence, outbox);
  if (settled && top < seen) {
    const text = `the order entity is at event ${top}, workers have seen ${seen}`;
    findings.push({ kind: "behind-progress", severity: "damage", text });
  }
  const pending = new Set(streams.flatMap(({ events }) => events.flatMap(({ state }) => state?.sequence ?? [])));
  const missing = firstUnaccounted(seen, top, new Set(outbox.map(({ sequence }) => sequence)), pending);
  if (settled && missing !== undefined) {
    const text = `event ${missing} was committed, and is neither in the outbox nor pending nor finished`;
    findings.push({ kind: "gap", severity: "damage", sequence: missing, text });
  }
  const unfinished = settled ? withoutTrace(gathered, top) : undefined;
  if (unfinished !== undefined) {
    const text = `event ${unfinished} is not recorded as finished everywhere, and is neither pending nor archived as unwanted`;
    findings.push({ kind: "gap", severity: "notice", sequence: unfinished, text });
  }
  if (outbox.some(({ sequence }, index) => index > 0 && sequence <= outbox[index - 1]!.sequence)) {
    findings.push({ kind: "inversion", severity: "damage", text: "ids and sequences of the outbox entities disagree" });
  }
  return findings;
}

/**
 * The first event that no stream finished, that waits nowhere, and that is not among those nobody wanted. A worker gives an order back either
 * with something pending or with everything finished, so a blob may be gone, of a stream that has no progress yet. Retention may have removed
 * an unwanted one too: hence a notice.
 */
function withoutTrace({ lease, progress, streams, finished }: GatheredOrder<readonly FinishedEvents[]>, top: number): number | undefined {
  const waits = streams.some(({ subscription, events }) => splitGhosts(events, streamProgress(progress, subscription)).pending.length > 0);
  const finishedTo = Object.values(progress.streams).reduce((most, { sequence }) => Math.max(most, sequence), progress.clean);
  if (lease?.state !== "free" || waits || progress.relayed < top) return undefined;
  const unwanted = finished.find(({ subscription }) => subscription === UNROUTED)?.archived ?? [];
  return firstUnaccounted(finishedTo, top, new Set(unwanted.map(({ sequence }) => sequence)));
}
