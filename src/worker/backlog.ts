/** What is pending already when a round begins: backlog, what a crash left over, blocked streams, streams that are not deployed here. */
import { printable } from "../core/errors.ts";
import { isSwept } from "../core/holder-mark.ts";
import { knownStream, streamProgress, type Progress } from "../core/progress.ts";
import { contradictionAlarm, contradictionIn, relayedSequence, splitGhosts, type QueuedEvent } from "../core/stream.ts";
import { ghostEnd } from "./head-end.ts";
import { listPending } from "./list-pending.ts";
import type { OrderStream } from "./order-stream.ts";
import type { RoundState } from "./round-state.ts";
import { settle } from "./settled-head.ts";

/**
 * Fills the streams from their blobs. Returns the sequences found.
 *
 * @param all false: only streams that wait by what the progress says (another deployment, without them, may have called the order clean
 *   since), and those it does not know although the order is not new
 */
export async function listBacklog(round: RoundState, all: boolean): Promise<ReadonlySet<number>> {
  const progress = round.writer.written;
  const isNew = progress.clean === 0 && progress.relayed === 0 && Object.keys(progress.streams).length === 0;
  const sequences = new Set<number>();
  const lists = await Promise.allSettled([
    ...round.streams
      .filter(({ name }) => all || (knownStream(progress, name) === undefined ? !isNew : waits(progress, name)))
      .map((stream) => listStream(round, stream, sequences)),
    ...round
      .absent()
      .filter((name) => all || waits(progress, name))
      .map((name) => listAbsent(round, name, sequences)),
  ]);
  for (const result of lists) if (result.status === "rejected") throw result.reason;
  return sequences;
}

function waits(progress: Progress, name: string): boolean {
  const { sequence, relayed } = streamProgress(progress, name);
  return relayed > sequence;
}

async function listStream(round: RoundState, stream: OrderStream, sequences: Set<number>): Promise<void> {
  const { storage, logger } = round.options;
  const { events, foreign } = await listPending(storage.blobs, stream.name, round.order, logger);
  for (const name of foreign) round.problem(`events/${printable(name)} is not one of ours; it is left alone`);
  const { ghosts, pending } = splitGhosts(events, stream.recorded);
  // W12: by a progress that may be wrong nothing is deleted.
  if (contradictionIn(pending, stream.recorded, round.top) === undefined) {
    round.archiver.addLeftOver(stream.name, ghosts.map(ghostEnd), pending[0]);
  }
  for (const event of pending) sequences.add(event.sequence);
  const [head, ...rest] = pending;
  if (head === undefined) return;
  // Only a head can have been running. Later ones are suspect too, but nothing is held against them.
  if (!mayHaveRun(round, stream, head)) return stream.enqueue(pending);
  round.mayHaveDied();
  stream.enqueue([{ ...head, mayHaveRun: true }, ...rest]);
}

/**
 * Its holder died: that of the lease before, as far as can be told; or one that had the lease since it was read as free. That one wrote nothing
 * on the lease blob, or it could not have been taken as it was read; so what it relayed is not on record, as it is whenever a lease is given
 * back. Starts of what is on record were counted (W4). Under a sweep's mark nothing ran.
 */
function mayHaveRun(round: RoundState, { name }: OrderStream, head: QueuedEvent): boolean {
  const { livingUpTo, blob } = round.input;
  const onRecord = blob.state === "free" || isSwept(blob.metadata) ? streamProgress(round.writer.written, name).relayed : 0;
  return head.sequence > Math.max(onRecord, livingUpTo);
}

/**
 * Keeps in mind what waits in the stream of a subscription that is not deployed here: the progress must not forget it. Nothing of it runs,
 * but what needs no handler goes: what an operator has discarded, or what was skipped by its last deployment (F10).
 */
async function listAbsent(round: RoundState, name: string, sequences: Set<number>): Promise<void> {
  const { storage, logger } = round.options;
  const { events } = await listPending(storage.blobs, name, round.order, logger);
  for (const { sequence } of events) sequences.add(sequence);
  let progress = streamProgress(round.writer.written, name);
  const { ghosts, pending } = splitGhosts(events, progress);
  const wrong = contradictionIn(pending, progress, round.top);
  if (wrong !== undefined) round.gap(contradictionAlarm(name, wrong, progress));
  else round.archiver.addLeftOver(name, ghosts.map(ghostEnd), pending[0]);
  progress = { ...progress, relayed: relayedSequence(pending, progress, round.top) };
  for (const event of wrong === undefined ? pending : []) {
    const end = await settle({ ...round.options, ...round.input }, name, event, progress.sequence);
    if (end === undefined) break;
    progress = { ...progress, sequence: event.sequence, id: event.id };
    round.keepElsewhere(name, progress);
    await round.recordStreams();
    round.archiver.add({ subscription: name, ...end });
  }
  round.keepElsewhere(name, progress);
  round.waitsElsewhere(
    name,
    pending.filter(({ sequence }) => sequence > progress.sequence),
  );
}
