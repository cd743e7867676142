/**
 * The long-running host for a container or VM: receives wake-ups and gives each to the worker. The counterpart of the queue trigger.
 *
 * - H1 It receives only what it can start at once; a message is in the hands of exactly one `HeldWakeUp` from its receipt to its end.
 * - H2 A wake-up ends deleted, hidden until later, or left to the queue, which shows it again. None ends as poison, none is only dropped,
 *   except a text that names no order (C23).
 * - H3 Queue and storage failures never end the loop; it recovers by itself (C33).
 * - H4 `stop` waits for the loop and every round, or reports the rounds that ignored their signal.
 */
import type { Clock } from "../core/clock.ts";
import { describeError, OutboxError } from "../core/errors.ts";
import type { OrderId } from "../core/order-id.ts";
import { MAX_HIDDEN_MS, type ReceivedWakeUp } from "../core/ports.ts";
import { decodeWakeUp } from "../core/wake-up.ts";
import { HeldWakeUp } from "./held-wake-up.ts";
import { HiddenWakeUps } from "./hidden-wake-ups.ts";
import { resolveHostOptions, type ResolvedHostOptions, type WorkerHostOptions } from "./host-options.ts";
import { jitteredBackoff, type BackoffRange } from "./jittered-backoff.ts";

export interface HostStatus {
  /** `stopping`: nothing new is received, rounds still run. `stopped`: {@link WorkerHost.stop} has resolved. */
  readonly state: "running" | "stopping" | "stopped";
  /** Wake-ups in work. */
  readonly inFlight: number;
  /** Wake-ups received since the start. */
  readonly received: number;
  /** Events recorded as finished since the start, over all subscriptions. */
  readonly handled: number;
  /** Wall clock, in ms since 1970, when the loop last turned: asked the queue, or saw that all its slots are taken. */
  readonly lastPollAt: number;
  /** Age of {@link HostStatus.lastPollAt} by a clock that doesn't jump. At most about 30 s plus one queue call while the loop is alive. */
  readonly sinceLastPollMs: number;
  /** Why the queue can't be reached at present. */
  readonly lastPollError?: string;
}

export interface StopReport {
  /** Wake-ups still in work when the time for a quiet end was over: their rounds got the abort signal. */
  readonly aborted: number;
  /** Orders whose rounds did not end even then. They are leased until this process ends. */
  readonly left: readonly OrderId[];
}

export interface WorkerHost extends AsyncDisposable {
  /**
   * Stops in two stages: no new events, running handlers may finish (`stopGraceMs`); then the abort signal (`abortGraceMs`). Never rejects,
   * and resolves even if a handler ignores the signal. Further calls get the same report.
   *
   * @param options.abortNow goes on to the second stage at once; also in a further call
   */
  stop(options?: { readonly abortNow?: boolean }): Promise<StopReport>;
  status(): HostStatus;
}

/** The most a queue gives in one call. */
const MAX_RECEIVED = 32;
const RECEIVE_FAILED: BackoffRange = { minMs: 1_000, maxMs: 30_000 };
const ROUND_FAILED: BackoffRange = { minMs: 1_000, maxMs: 60_000 };
/** No wake-up comes back sooner, whatever the round asks for (W6). */
const MIN_HIDDEN_MS = 1_000;

/**
 * Starts receiving. Stop it with `stop` or `await using`.
 *
 * @throws `invalid-option`
 */
export function startWorkerHost(options: WorkerHostOptions): WorkerHost {
  return new Host(resolveHostOptions(options));
}

interface InFlight {
  readonly held: HeldWakeUp;
  /** Undefined for a text that names no order. */
  readonly orderId: OrderId | undefined;
  /** Never rejects. */
  readonly done: Promise<void>;
}

class Host implements WorkerHost {
  readonly #options: ResolvedHostOptions;
  readonly #hidden: HiddenWakeUps;
  /** By message id. */
  readonly #inFlight = new Map<string, InFlight>();
  /** Stage 1. Ends the loop's pauses. */
  readonly #stopping = new AbortController();
  /** Stage 2. The rounds see it. */
  readonly #aborting = new AbortController();
  /** Cuts stage 1 short. */
  readonly #abortNow = new AbortController();
  /** Ends the wait of a loop whose slots are all taken. */
  #slotFreed = new AbortController();
  #state: HostStatus["state"] = "running";
  #received = 0;
  #handled = 0;
  #lastPoll: { readonly at: number; readonly monotonic: number };
  #lastPollError: string | undefined;
  /** Receive calls that failed in a row. */
  #receiveFailures = 0;
  readonly #loop: Promise<void>;
  #stopped: Promise<StopReport> | undefined;

  constructor(options: ResolvedHostOptions) {
    this.#options = options;
    this.#hidden = new HiddenWakeUps(options.clock);
    this.#lastPoll = timesOf(options.clock);
    this.#loop = this.#poll();
  }

  status(): HostStatus {
    return {
      state: this.#state,
      inFlight: this.#inFlight.size,
      received: this.#received,
      handled: this.#handled,
      lastPollAt: this.#lastPoll.at,
      sinceLastPollMs: this.#options.clock.monotonic() - this.#lastPoll.monotonic,
      ...(this.#lastPollError === undefined ? {} : { lastPollError: this.#lastPollError }),
    };
  }

  stop({ abortNow = false }: { readonly abortNow?: boolean } = {}): Promise<StopReport> {
    if (abortNow) this.#abortNow.abort();
    this.#stopped ??= this.#stop();
    return this.#stopped;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.stop();
  }

  async #stop(): Promise<StopReport> {
    const { worker, stopGraceMs, abortGraceMs, clock } = this.#options;
    this.#state = "stopping";
    worker.stopStarting();
    this.#stopping.abort();
    const work = this.#allDone();
    let aborted = 0;
    if (!(await endsWithin(work, stopGraceMs, clock, this.#abortNow.signal))) {
      aborted = this.#inFlight.size;
      this.#aborting.abort(new OutboxError("aborted", "the worker host stops"));
      await endsWithin(work, abortGraceMs, clock);
    }
    const left = [...this.#inFlight.values()];
    // From here on the queue is left alone, whatever those rounds still do.
    for (const { held } of left) held.abandon();
    this.#state = "stopped";
    return { aborted, left: left.flatMap(({ orderId }) => orderId ?? []) };
  }

  async #allDone(): Promise<void> {
    await this.#loop;
    await Promise.all([...this.#inFlight.values()].map(({ done }) => done));
  }

  async #poll(): Promise<void> {
    const { concurrency, pollMinMs, pollMaxMs, clock, random } = this.#options;
    let inVain = 0;
    while (!this.#stopping.signal.aborted) {
      this.#lastPoll = timesOf(clock);
      const free = concurrency - this.#inFlight.size;
      if (free === 0) {
        this.#slotFreed = new AbortController();
        // Looks up now and then, so that a host with long rounds is seen to be alive.
        await this.#pause(pollMaxMs, this.#slotFreed.signal);
        continue;
      }
      const messages = await this.#receive(Math.min(free, MAX_RECEIVED));
      for (const message of messages) this.#accept(message);
      inVain = messages.length > 0 || this.#receiveFailures > 0 ? 0 : inVain + 1;
      if (this.#receiveFailures > 0) await this.#pause(jitteredBackoff(RECEIVE_FAILED, this.#receiveFailures, random));
      else if (inVain > 0) await this.#pause(jitteredBackoff({ minMs: pollMinMs, maxMs: pollMaxMs }, inVain, random));
    }
  }

  async #pause(ms: number, ...early: readonly AbortSignal[]): Promise<void> {
    try {
      await this.#options.clock.sleep(ms, AbortSignal.any([this.#stopping.signal, ...early]));
    } catch {
      // Ended early: the loop looks for itself what there is to do.
    }
  }

  /** Empty also if the queue did not answer; `#receiveFailures` tells. */
  async #receive(max: number): Promise<readonly ReceivedWakeUp[]> {
    const { wakeUps, visibilityMs, logger } = this.#options;
    try {
      // Stage 1 does not cut this call off: messages it has already taken would stay hidden from the other hosts.
      const messages = await wakeUps.receive(max, visibilityMs, { signal: this.#aborting.signal });
      if (this.#receiveFailures > 0) logger.info("wake-ups are received again", { failedCalls: this.#receiveFailures });
      this.#receiveFailures = 0;
      this.#lastPollError = undefined;
      return messages;
    } catch (error) {
      this.#lastPollError = describeError(error);
      if (this.#receiveFailures === 0)
        logger.error("wake-ups can't be received, trying again until they can", { error: this.#lastPollError });
      this.#receiveFailures += 1;
      return [];
    }
  }

  #accept(message: ReceivedWakeUp): void {
    this.#received += 1;
    const { messageId } = message.receipt;
    const known = this.#inFlight.get(messageId);
    if (known !== undefined) {
      // A message may come back before its time. Its round still runs here: a second one would only join it and use up the message.
      known.held.receivedAgain(message.receipt);
      return;
    }
    const { wakeUps: queue, visibilityMs, clock, logger } = this.#options;
    const held = new HeldWakeUp(message, { queue, visibilityMs, clock, logger });
    const orderId = this.#orderIdOf(message);
    const done = this.#process(held, orderId).finally(() => {
      this.#inFlight.delete(messageId);
      this.#slotFreed.abort();
    });
    this.#inFlight.set(messageId, { held, orderId, done });
  }

  /** Undefined for a text that names no order. The sweep covers the order that may have been meant (C23, W7). */
  #orderIdOf({ text, receipt }: ReceivedWakeUp): OrderId | undefined {
    try {
      return decodeWakeUp(text);
    } catch (error) {
      this.#options.logger.error("a wake-up names no order and is dropped", { messageId: receipt.messageId, error: describeError(error) });
      return undefined;
    }
  }

  async #process(held: HeldWakeUp, orderId: OrderId | undefined): Promise<void> {
    if (orderId === undefined) return held.delete();
    if (this.#stopping.signal.aborted) {
      await held.hide(0); // Another host takes it at once.
      return;
    }
    this.#hidden.received(orderId, held.messageId);
    const lookAgainInMs = await this.#round(orderId, held.dequeueCount);
    if (lookAgainInMs === undefined) return held.delete();
    const needed = await this.#hidden.hide(orderId, held.messageId, lookAgainInMs, (hiddenMs) => held.hide(hiddenMs));
    if (!needed) await held.delete();
  }

  /** Resolves to the time after which to look again, in ms, or undefined if the wake-up is used up. */
  async #round(orderId: OrderId, dequeueCount: number): Promise<number | undefined> {
    const { worker, random, logger, concurrency } = this.#options;
    try {
      const options = { signal: this.#aborting.signal, capacity: concurrency };
      const { status, handled, retryInMs, problems } = await worker.handle(orderId, options);
      this.#handled += handled;
      if (problems.length > 0)
        logger.warn("an order has problems", { orderId, round: status, problems: problems.length, first: problems[0] });
      // `joined` too: the round that runs here may end without holding a message of its own (it slipped to another host), and this one
      // would have been the last.
      if (status === "done") return undefined;
      return Math.min(Math.max(retryInMs, MIN_HIDDEN_MS), MAX_HIDDEN_MS);
    } catch (error) {
      const retryInMs = jitteredBackoff(ROUND_FAILED, dequeueCount, random);
      const level = this.#aborting.signal.aborted ? "info" : "error";
      logger[level]("a round failed and will be repeated", { orderId, dequeueCount, retryInMs, error: describeError(error) });
      return retryInMs;
    }
  }
}

function timesOf(clock: Clock): { readonly at: number; readonly monotonic: number } {
  return { at: clock.now(), monotonic: clock.monotonic() };
}

/** Whether `work`, which never rejects, ends before the time is over or cut short. Leaves no timer behind. */
async function endsWithin(work: Promise<void>, ms: number, clock: Clock, cutShort?: AbortSignal): Promise<boolean> {
  const ended = new AbortController();
  const signal = cutShort === undefined ? ended.signal : AbortSignal.any([ended.signal, cutShort]);
  const timeIsOver = clock.sleep(ms, signal).then(
    () => false,
    () => false,
  );
  try {
    return await Promise.race([work.then(() => true), timeIsOver]);
  } finally {
    ended.abort();
  }
}
