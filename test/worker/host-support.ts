/** A host on a memory queue and a manual clock, with a worker that answers as it is told. */
import { OutboxError } from "../../src/core/errors.ts";
import type { LogFields, Logger } from "../../src/core/logger.ts";
import { parseOrderId } from "../../src/core/order-id.ts";
import type { WakeUpQueue } from "../../src/core/ports.ts";
import { encodeWakeUp } from "../../src/core/wake-up.ts";
import type { WorkerHostOptions } from "../../src/worker/host-options.ts";
import { startWorkerHost, type WorkerHost } from "../../src/worker/host.ts";
import type { RoundResult, Worker } from "../../src/worker/round-result.ts";
import { ManualClock } from "../support/manual-clock.ts";
import { createMemoryStorage, type MemoryStorage, type PortCall } from "../support/memory-storage.ts";

export const DONE: RoundResult = { status: "done", retryInMs: 0, handled: 1, problems: [] };
export const JOINED: RoundResult = { status: "joined", retryInMs: 30_000, handled: 0, problems: [] };
export function taken(retryInMs: number): RoundResult {
  return { status: "taken", retryInMs, handled: 0, problems: [] };
}
export function left(retryInMs: number): RoundResult {
  return { status: "left", retryInMs, handled: 0, problems: ["mail: E1 failed"] };
}

export type Round = (orderId: string, signal: AbortSignal) => RoundResult | Promise<RoundResult>;

/** Answers every round as it is told and counts what runs. */
export class FakeWorker implements Worker {
  round: Round;
  readonly started: string[] = [];
  running = 0;
  mostRunning = 0;
  stopped = false;

  constructor(round: Round) {
    this.round = round;
  }

  async handle(orderId: string, options: { readonly signal?: AbortSignal } = {}): Promise<RoundResult> {
    this.started.push(orderId);
    this.running += 1;
    this.mostRunning = Math.max(this.mostRunning, this.running);
    try {
      return await this.round(orderId, options.signal!);
    } finally {
      this.running -= 1;
    }
  }

  stopStarting(): void {
    this.stopped = true;
  }
}

interface Entry {
  readonly level: keyof Logger;
  readonly message: string;
  readonly fields: LogFields;
}

function recordingLogger(entries: Entry[]): Logger {
  const at =
    (level: keyof Logger) =>
    (message: string, fields: LogFields = {}): void =>
      void entries.push({ level, message, fields });
  return { debug: at("debug"), info: at("info"), warn: at("warn"), error: at("error") };
}

export interface HostSetup {
  readonly clock: ManualClock;
  readonly storage: MemoryStorage;
  readonly worker: FakeWorker;
  readonly host: WorkerHost;
  readonly log: readonly Entry[];
}

export interface HostTestOptions extends Partial<WorkerHostOptions> {
  /** Messages that are in the queue at the start. */
  readonly texts?: readonly string[];
  /** Makes another queue of the memory queue. */
  readonly queue?: (real: WakeUpQueue) => WakeUpQueue;
  /** Watches and disturbs storage calls from the start. */
  readonly onCall?: MemoryStorage["onCall"];
}

const hosts: Array<{ readonly host: WorkerHost; readonly clock: ManualClock }> = [];

/** A host on a memory queue that holds `texts` already; nothing has been received yet. */
export async function startHost(
  round: Round,
  { texts = [], queue = (real) => real, onCall, ...options }: HostTestOptions = {},
): Promise<HostSetup> {
  const clock = new ManualClock();
  const storage = createMemoryStorage(clock);
  for (const text of texts) await storage.wakeUps.send(text, 0);
  storage.forgetCalls();
  storage.onCall = onCall;
  const worker = new FakeWorker(round);
  const log: Entry[] = [];
  const host = startWorkerHost({
    worker,
    wakeUps: queue(storage.wakeUps),
    clock,
    random: () => 0.5,
    logger: recordingLogger(log),
    ...options,
  });
  hosts.push({ host, clock });
  return { clock, storage, worker, host, log };
}

/** For `afterEach`. Whatever a test did: a host can be stopped and leaves no timer behind. */
export async function stopHosts(): Promise<void> {
  for (const { host, clock } of hosts.splice(0)) {
    const stopped = host.stop({ abortNow: true });
    await clock.advance(600_000);
    await stopped;
    if (clock.pending() > 0) throw new Error(`a stopped host has left ${clock.pending()} timers behind`);
  }
}

/** The texts of wake-ups for these orders. */
export function wakeUps(...orderIds: readonly string[]): string[] {
  return orderIds.map((orderId) => encodeWakeUp(parseOrderId(orderId)));
}

/** The calls of one method of the queue so far. */
export function queueCalls(storage: MemoryStorage, method: string): readonly PortCall[] {
  return storage.calls.filter((call) => call.port === "wakeUps" && call.method === method);
}

/** Throws for every call of these queue methods. */
export function failing(code: "unavailable" | "not-found" | "forbidden", ...names: readonly string[]): MemoryStorage["onCall"] {
  return ({ port, method }) => {
    if (port === "wakeUps" && names.includes(method)) throw new OutboxError(code, `${method} failed`);
  };
}

/** A round that ends with something left when it is aborted. */
export const untilAborted: Round = (_orderId, signal) =>
  new Promise((resolve) => signal.addEventListener("abort", () => resolve(left(0)), { once: true }));
