/**
 * The sweep (design §7, G5): finds pending events that nobody handles, from their blobs alone, and wakes their orders. It trusts neither
 * wake-ups nor the length of their queue. It sends wake-ups, and takes the lease of an order with leftovers of a dead worker for 15 s, which
 * nobody releases (see `mark`); so any number of sweeps may overlap (C42). It also takes dead letters off the list whose events are finished, and
 * wakes the orders of those that are not on it.
 *
 * Cost: one listing each of `events/` and `dead/`, one query for pauses, two calls an order that is woken, and two more for one with leftovers;
 * a few reads for each dead letter that may be stale.
 * Orders without pending events cost nothing, however many there are.
 */
import { randomUUID } from "node:crypto";
import type { Clock } from "../core/clock.ts";
import { pauseFinder } from "../core/controls.ts";
import { describeError, isOutboxError } from "../core/errors.ts";
import { MIN_LEASE_MS } from "../core/lease-time.ts";
import { encodeSwept } from "../core/holder-mark.ts";
import { silentLogger, type Logger } from "../core/logger.ts";
import type { OrderId, OrderKey } from "../core/order-id.ts";
import { isDue } from "../core/pending-event.ts";
import type { CallOptions, LeaseBlob, Storage } from "../core/ports.ts";
import { decodeProgress, NO_PROGRESS, streamProgress, type Progress } from "../core/progress.ts";
import { contradictionIn, isFinished } from "../core/stream.ts";
import { encodeWakeUp } from "../core/wake-up.ts";
import { systemClock } from "../system/clock.ts";
import { assertGoesOn } from "./context.ts";
import { readFigures } from "./figures.ts";
import { inLanes } from "./lanes.ts";
import { FigureReporter, recordSweep, type SubscriptionFigures } from "./metrics.ts";
import { listPauses } from "./list-pauses.ts";
import type { ForeignNames, StreamHead } from "./stream-heads.ts";
import { dropStaleEntries } from "./stale-letters.ts";
import { WakeMemory } from "./wake-memory.ts";

export interface SweeperOptions {
  readonly storage: Storage;
  /**
   * Names of the subscriptions that workers run. The orders of others are counted but not woken: nobody could handle their events (F10).
   * Default: all are woken.
   */
  readonly subscriptions?: readonly string[];
  readonly clock?: Clock;
  readonly logger?: Logger;
}

export interface SweepResult {
  /** By name; those with neither pending events nor dead letters are left out. */
  readonly subscriptions: readonly SubscriptionFigures[];
  readonly foreign: ForeignNames;
  /** Orders that got a wake-up, or would get one. */
  readonly woken: number;
  /** Those of them that hold leftovers of a dead worker, and were marked so that the next round clears them. */
  readonly marked: number;
  /** Orders with something due that a worker holds at the moment. */
  readonly leased: number;
  /** Orders with something due that were woken for it a short while ago. */
  readonly wokenBefore: number;
}

export interface SweepOptions extends CallOptions {
  /** Say whom it would wake, send and change nothing. Default false. */
  readonly dryRun?: boolean;
}

/** Keeps in mind whom it woke, so let it live as long as the process. */
export interface Sweeper {
  /**
   * One sweep. A failure of a single order does not keep the others from being woken; it is thrown at the end.
   *
   * @throws what storage throws; `aborted`
   */
  sweep(options?: SweepOptions): Promise<SweepResult>;
}

interface Candidate {
  readonly orderId: OrderId;
  readonly order: OrderKey;
  /** At least one, all of them due. */
  readonly heads: readonly StreamHead[];
}

type Outcome = "woken" | "marked" | "leased" | "wokenBefore" | "failed";

const LANES = 16;
/** So many failures mean that the account is down, not an order: the rest is left for the next sweep. */
const MAX_FAILURES = 10;
/** When the mark's lease has run out, which is the shortest there is. */
const MARK_HIDDEN_MS = MIN_LEASE_MS + 1_000;

export function createSweeper(options: SweeperOptions): Sweeper {
  const { storage, clock = systemClock, logger = silentLogger } = options;
  const known = options.subscriptions && new Set(options.subscriptions);
  const memory = new WakeMemory(clock);
  const reporter = new FigureReporter();

  async function wake({ orderId, order, heads }: Candidate, dryRun: boolean, callOptions: CallOptions): Promise<Outcome> {
    // An attempt that failed again changes the blob, so its etag makes it new.
    const reasons = heads.map(({ subscription, id, etag }) => `${subscription} ${id} ${etag}`);
    if (!memory.mayWake(order, reasons)) return "wokenBefore";
    const blob = await storage.leases.read(order, callOptions);
    if (blob?.state === "taken") return "leased";
    const leftovers = blob?.state === "free" && needsListing(progressOf(blob), heads);
    if (dryRun) return leftovers ? "marked" : "woken";
    if (leftovers && !(await mark(order, blob, callOptions))) return "leased";
    await storage.wakeUps.send(encodeWakeUp(orderId), leftovers ? MARK_HIDDEN_MS : 0, callOptions);
    memory.wasWoken(order, reasons);
    return leftovers ? "marked" : "woken";
  }

  /**
   * A round that starts from a free lease trusts the progress's arithmetic and lists nothing (W3), so it would never see a blob that a dead
   * holder's late write left behind the progress. A lease that nobody releases makes the next round look.
   */
  async function mark(order: OrderKey, { etag, metadata }: LeaseBlob, callOptions: CallOptions): Promise<boolean> {
    const leaseId = randomUUID();
    try {
      await storage.leases.acquire(order, { id: leaseId, durationMs: MIN_LEASE_MS, etag }, callOptions);
    } catch (error) {
      // A worker or another sweep was faster.
      if (!isOutboxError(error, "lease-taken", "precondition-failed", "not-found")) throw error;
      return false;
    }
    await storage.leases.writeMetadata(order, encodeSwept(metadata), { leaseId, etag }, callOptions);
    return true;
  }

  /** Progress that can't be read is no reason to leave the order alone: a worker will say what is wrong with it. */
  function progressOf({ metadata }: LeaseBlob): Progress {
    try {
      return decodeProgress(metadata);
    } catch {
      return NO_PROGRESS;
    }
  }

  async function tidy(suspects: readonly string[], callOptions: CallOptions): Promise<void> {
    const names = await dropStaleEntries(storage, suspects, callOptions);
    if (names.length === 0) return;
    logger.info("dead letters whose events are finished by now are off the list", { count: names.length, first: names[0] });
  }

  return {
    async sweep({ dryRun = false, ...callOptions } = {}) {
      const now = clock.now();
      const [pending, pauses] = await Promise.all([readFigures(storage, now, callOptions), listPauses({ storage, clock, ...callOptions })]);
      const { figures } = pending;
      // First of all: the numbers matter most while waking fails.
      reporter.report(figures, new Set(pending.heads.map(({ order }) => order)).size);
      const pauseOf = pauseFinder(pauses);
      const unlisted = new Set(pending.unlisted);
      const due = pending.heads.filter(
        (head) =>
          (isHeadDue(head, now) || unlisted.has(head)) &&
          (known === undefined || known.has(head.subscription) || needsNoHandler(head)) &&
          // A decision is carried out although the stream is paused (F4).
          (head.state?.decision !== undefined || needsNoHandler(head) || pauseOf(head.subscription, head.orderId) === undefined),
      );

      const failures: unknown[] = [];
      const outcomes = await inLanes(byOrder(due), LANES, async (candidate): Promise<Outcome> => {
        if (failures.length >= MAX_FAILURES || callOptions.signal?.aborted === true) return "failed";
        try {
          return await wake(candidate, dryRun, callOptions);
        } catch (error) {
          failures.push(error);
          logger.warn("the sweep could not wake an order", { orderId: candidate.orderId, error: describeError(error) });
          return "failed";
        }
      });
      assertGoesOn({ storage, clock, ...callOptions }, "the sweep");
      if (!dryRun) await tidy(pending.suspectEntries, callOptions).catch((error: unknown) => void failures.push(error));
      if (failures.length > 0) throw failures[0];
      if (pending.foreign.count > 0) {
        logger.warn("blobs below events/ are none of ours; they are left alone", {
          count: pending.foreign.count,
          first: pending.foreign.names[0],
        });
      }
      if (!dryRun) recordSweep();
      const count = (...wanted: readonly Outcome[]): number => outcomes.filter((outcome) => wanted.includes(outcome)).length;
      return {
        subscriptions: figures,
        foreign: pending.foreign,
        woken: count("woken", "marked"),
        marked: count("marked"),
        leased: count("leased"),
        wokenBefore: count("wokenBefore"),
      };
    },
  };
}

/** A blocked head waits for a human, and is due once a decision is recorded on it (F4). */
function isHeadDue({ state }: StreamHead, now: number): boolean {
  if (state === undefined || state.decision !== undefined || state.status === "pending") return true;
  return isDue(state, now);
}

/** Discarded, or at an end that its blob tells already. */
function needsNoHandler({ state }: StreamHead): boolean {
  return state?.decision?.action === "discard" || state?.ending !== undefined;
}

/** Is a head a ghost (W2), or does it contradict the progress (W12)? A round that lists nothing would not see it, or take it for finished. */
function needsListing(progress: Progress, heads: readonly StreamHead[]): boolean {
  return heads.some((head) => {
    const own = streamProgress(progress, head.subscription);
    return isFinished(head, own) || contradictionIn([head], own, Number.POSITIVE_INFINITY) !== undefined;
  });
}

function byOrder(heads: readonly StreamHead[]): readonly Candidate[] {
  return [...Map.groupBy(heads, ({ order }) => order)].map(([order, own]) => ({ order, orderId: own[0]!.orderId, heads: own }));
}
