/**
 * One holding of an order's lease (design §5): backlog, relay, drain, archive. Nothing runs before the backlog is listed and the entities
 * seen are gone: W3 here, W1 in relay-step.ts. Then W2, W9 and G2 in drain.ts, W4 in run-head.ts.
 *
 * Who writes what: RoundState has the order's place and why it stands, OrderStream one stream's queue and why it stands; each is changed by
 * its own methods alone, which name their callers. The ProgressWriter alone writes the lease blob; the Archiver alone writes the archive and
 * deletes finished event blobs; event-blobs.ts creates event blobs, save-state.ts writes their metadata, dead-head.ts the index of dead
 * letters.
 */
import { isOutboxError } from "../core/errors.ts";
import { listBacklog } from "./backlog.ts";
import { Drain } from "./drain.ts";
import { readOutbox, relayFound, topSequence } from "./relay-step.ts";
import type { RoundInput, RoundOptions, RoundOutcome } from "./round-options.ts";
import { RoundState } from "./round-state.ts";

/** Throws what storage threw; a lost lease is an outcome, not an error. */
export async function runRound(options: RoundOptions, input: RoundInput): Promise<RoundOutcome> {
  const round = new RoundState(options, input);
  const drain = new Drain(round);
  input.lease.onRenewed(() => round.writer.mark());
  try {
    await start(round);
    await drain.run();
    await recordWaiting(round);
  } catch (error) {
    round.fail(error);
  }
  const unarchived = await round.archiver.flush();
  await round.writer.close();
  const { failure } = round;
  if (failure !== undefined && !isOutboxError(failure, "lease-lost")) throw failure;
  return {
    handled: drain.handled,
    lookAgainAfter: round.stopped === undefined ? round.seen : undefined,
    retryInMs: retryInMs(round),
    problems: [...new Set([...round.problems, ...unarchived.retryable, ...unarchived.final])],
    clean: unarchived.retryable.length === 0 && failure === undefined,
  };
}

/** Everything that is pending is in the streams afterwards. */
async function start(round: RoundState): Promise<void> {
  const found = await readOutbox(round);
  const { clean } = round.writer.written;
  const sequence = topSequence(found);
  if (sequence < round.seen) {
    round.stopAll();
    round.gap(`the order entity is at event ${sequence}, its progress at ${round.seen}: the entity was restored or removed. Nothing runs.`);
    return;
  }
  // W3: by arithmetic, is anything older than the entities pending? A holder that never said good-bye may have left blobs behind.
  const nothingOlder =
    round.input.blob.state === "free" && clean + found.outbox.length === sequence && (found.outbox[0]?.sequence ?? clean + 1) === clean + 1;
  const listed = await listBacklog(round, !nothingOlder);
  await relayFound(round, found, listed);
  await recordClean(round);
}

/** Nothing to run, but the progress does not say so yet: events that nobody wants, or what a crash left finished. */
async function recordClean(round: RoundState): Promise<void> {
  if (!round.isClean() || round.writer.written.clean >= round.seen) return;
  await round.recordProgress();
}

/** Events wait, and nothing has been written since they were relayed: a deployment without their subscription must find them on record. */
async function recordWaiting(round: RoundState): Promise<void> {
  const { streams } = round.writer.written;
  const unknown = round.streams.some(({ name, progress }) => progress.relayed > (streams[name]?.relayed ?? 0));
  if (!unknown || round.failure !== undefined || round.input.lease.lost.aborted) return;
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
