/** F2: long retries. The head waits for its next attempt without a worker; a wake-up of its own brings one back. */
import { describeError } from "../core/errors.ts";
import { MAX_HIDDEN_MS } from "../core/ports.ts";
import type { QueuedEvent } from "../core/stream.ts";
import { encodeWakeUp } from "../core/wake-up.ts";
import { stands, type HeadEnd, type HeadStep } from "./head-end.ts";
import type { HeadContext } from "./round-options.ts";
import { saveState } from "./save-state.ts";

/** A parked event that is due within this time keeps the round's own wake-up (W8); more than clocks may differ. */
const SOON_MS = 600_000;

/** The wake-up first. If it can't be sent, the round's own one is kept instead. */
export async function parkHead(
  context: HeadContext,
  subscription: string,
  queued: QueuedEvent,
  delayMs: number,
  problem: string,
): Promise<HeadStep> {
  const sent = await wake(context, Math.min(delayMs, MAX_HIDDEN_MS));
  const { saved, queued: next } = await saveState(context, subscription, queued, {
    status: "parked",
    nextAttemptMs: context.clock.now() + delayMs,
    waitMs: delayMs,
  });
  if (!saved) return { kind: "again", queued: next };
  return stands(next, sent ? undefined : delayMs, problem);
}

/** Its own wake-up is on the way, but may have come while the lease was taken (W8), or not reach as far (C30). */
export async function standParked(context: HeadContext, queued: QueuedEvent): Promise<HeadEnd> {
  const leftMs = queued.nextAttemptMs - context.clock.now();
  if (queued.waitMs > MAX_HIDDEN_MS && !(await wake(context, Math.min(leftMs, MAX_HIDDEN_MS)))) {
    return stands(queued, Math.min(leftMs, MAX_HIDDEN_MS));
  }
  // Its wake-up may just have come, to a host whose clock is behind the one that parked it.
  return stands(queued, leftMs <= SOON_MS ? leftMs : undefined);
}

/** False if the wake-up can't be sent. */
async function wake({ storage, orderId, logger }: HeadContext, hiddenMs: number): Promise<boolean> {
  try {
    await storage.wakeUps.send(encodeWakeUp(orderId), hiddenMs);
    return true;
  } catch (error) {
    logger.warn("the wake-up of a parked event could not be sent", { orderId, error: describeError(error) });
    return false;
  }
}
