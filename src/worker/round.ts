/**
 * One holding of an order's lease (design §5): backlog, relay, drain, archive. Nothing runs before the backlog is listed and the entities
 * seen are gone: W3 here, W1 in relay-step.ts. Then W2, W9 and G2 in drain.ts, W4 in start-count.ts.
 *
 * Who writes what: RoundState has the order's place and why it stands, OrderStream one stream's queue and why it stands; each is changed by
 * its own methods alone, which name their callers. The ProgressWriter alone writes the lease blob; the Archiver alone writes the archive (but
 * for discards, which are in it before the progress passes them, archive-blob.ts) and deletes finished event blobs; event-blobs.ts creates
 * event blobs, save-state.ts and mend-chain.ts write their metadata, dead-head.ts the index of dead letters.
 */
import { isOutboxError } from "../core/errors.ts";
import { knownStream } from "../core/progress.ts";
import { listBacklog } from "./backlog.ts";
import { Drain } from "./drain.ts";
import { readOutbox, relayFound, topSequence } from "./relay-step.ts";
import type { RoundInput, RoundOptions, RoundOutcome } from "./round-options.ts";
import { RoundState } from "./round-state.ts";

/** What storage threw is part of the outcome; a lost lease is nothing that went wrong. Throws `corrupt` if the progress can't be read. */
export async function runRound(options: RoundOptions, input: RoundInput): Promise<RoundOutcome> {
  const round = new RoundState(options, input);
  const drain = new Drain(round);
  input.lease.onRenewed(() => round.writer.mark());
  try {
    await start(round);
    await drain.run();
    await drain.recordGuesses();
    await recordWaiting(round);
  } catch (error) {
    round.fail(error);
  }
  const unarchived = await round.archiver.flush();
  await round.writer.close();
  const { failure } = round;
  return {
    handled: drain.handled,
    lookAgainAfter: round.stopped === undefined ? round.seen : undefined,
    retryInMs: retryInMs(round),
    problems: [...new Set([...round.problems, ...unarchived.retryable, ...unarchived.final])],
    clean: unarchived.retryable.length === 0 && failure === undefined,
    livingUpTo: round.livingUpTo,
    ...(failure === undefined || isOutboxError(failure, "lease-lost") ? {} : { failure }),
  };
}

/** Everything that is pending is in the streams afterwards. */
async function start(round: RoundState): Promise<void> {
  const found = await readOutbox(round, round.input.found);
  const sequence = topSequence(found);
  if (sequence < round.seen) {
    round.stopAll();
    round.gap(`the order entity is at event ${sequence}, its progress at ${round.seen}: the entity was restored or removed. Nothing runs.`);
    return;
  }
  // W3: by arithmetic, does the progress know of everything older than the entities? Then only streams that wait by what it says are listed:
  // one that has nothing to do costs nothing. A holder that never said good-bye may have left blobs behind.
  const { seen } = round;
  const onRecord =
    round.input.blob.state === "free" && seen + found.outbox.length === sequence && (found.outbox[0]?.sequence ?? seen + 1) === seen + 1;
  const listed = await listBacklog(round, !onRecord);
  round.headsJudged();
  await relayFound(round, found, listed);
  await recordClean(round);
}

/**
 * Nothing to run, but the progress does not say so yet: events that nobody wants, what a crash left finished, or a subscription that the order
 * has not known. It was listed, and need not be with every wake-up to come.
 */
async function recordClean(round: RoundState): Promise<void> {
  const { written } = round.writer;
  const isRecorded = round.seen === 0 || round.streams.every(({ name }) => knownStream(written, name) !== undefined);
  if (!round.isClean() || (written.clean >= round.seen && isRecorded)) return;
  await round.recordProgress();
}

/**
 * Events wait, and nothing has been written since they were relayed: a deployment without their subscription must find them on record. And what
 * is not on record after a lease was given back tells of a holder that died (W4).
 */
async function recordWaiting(round: RoundState): Promise<void> {
  if (!round.hasUnrecorded() || round.failure !== undefined || round.input.lease.lost.aborted) return;
  await round.recordProgress();
}

/** Undefined if nothing is left, or if what is left has a wake-up of its own or waits for a human. */
function retryInMs(round: RoundState): number | undefined {
  const { retryDelayMs, recheckDelayMs } = round.options;
  if (round.failure !== undefined) return retryDelayMs;
  const delays = round.streams.map((stream) => {
    if (stream.stopped !== undefined) return stream.stopped.retryInMs;
    if (round.isRunnable(stream)) return 0;
    if (stream.queue.length > 0) return round.input.mayStart() ? recheckDelayMs : 0;
    return stream.missing() === undefined ? undefined : recheckDelayMs;
  });
  if (round.stopped !== undefined) delays.push(recheckDelayMs);
  const due = delays.filter((delay) => delay !== undefined);
  return due.length === 0 ? undefined : Math.min(...due);
}
