/**
 * One run: a storage account, producers and workers as processes of their own, and this process that watches them.
 *
 * Who owns what: the children end when this process ends, however it does (parent-channel.ts); on every other way out `run` itself waits for
 * them. The handlers' records are in a file, the producers' answers in the ledger; the audit at the end uses nothing else.
 */
import { setTimeout as delay } from "node:timers/promises";
import type { CallCounts } from "../storage/call-counter.ts";
import { connectStorage, type ConnectedStorage } from "../storage/connect.ts";
import { auditedSubscriptions } from "./audited.ts";
import { Azurite } from "./azurite.ts";
import { CallLedger } from "./calls.ts";
import { HandledLogReader } from "./handled-log.ts";
import { Ledger } from "./ledger.ts";
import { Partner } from "./partner.ts";
import type { Plan } from "./plan.ts";
import { ProducerPool } from "./producer-pool.ts";
import type { ProgressDisplay } from "./progress-display.ts";
import { killAtRandom } from "./random-kills.ts";
import { auditRun, type RunAudit } from "./run-audit.ts";
import type { RunFolder } from "./run-folder.ts";
import { seededRandom } from "./seeded-random.ts";
import { deployedSubscriptions } from "./subscriptions.ts";
import { WorkerPool } from "./worker-pool.ts";

export interface RunOptions {
  readonly plan: Plan;
  readonly folder: RunFolder;
  readonly producers: number;
  readonly workers: number;
  /** Kill workers while it runs; `seed` chooses which and when. */
  readonly kill: boolean;
  readonly seed: number;
  readonly display: ProgressDisplay;
  /** Ends the run early. */
  readonly stop: AbortSignal;
}

export interface RunResult {
  readonly audit: RunAudit;
  /** Why the run did not get to its end; empty if it did. */
  readonly failures: readonly string[];
  /** Until every event was handled. */
  readonly seconds: number;
  readonly calls: CallCounts;
  readonly kills: number;
  /** Deliveries that the partner refused. */
  readonly refused: number;
}

const LEASE_MS = 30_000;
/** The shortest there is: an order of a killed worker waits for its lease to expire. */
const LEASE_WITH_KILLS_MS = 15_000;
/** With kills, handlers last as long as a call to another system, so that kills hit some of them. */
const HANDLER_WITH_KILLS_MS = 40;
const LOOK_INTERVAL_MS = 100;
const SETTLE_INTERVAL_MS = 1_000;
const MAX_TIME_WITHOUT_PROGRESS_MS = 3 * 60_000;

/** @throws the reason of `stop` when that ended the run */
export async function run(options: RunOptions): Promise<RunResult> {
  const { folder } = options;
  const log = await HandledLogReader.open(folder.handledLog);
  const watch = new RunWatch(options, log);
  try {
    return await watch.run();
  } finally {
    await watch.end();
    await log.close();
  }
}

class RunWatch {
  readonly #options: RunOptions;
  readonly #log: HandledLogReader;
  readonly #audited = auditedSubscriptions(deployedSubscriptions());
  readonly #ledger: Ledger;
  readonly #calls = new CallLedger();
  readonly #failures: string[] = [];
  readonly #azurite: Azurite;
  readonly #producers: ProducerPool;
  readonly #workers: WorkerPool;
  readonly #partner: Partner;
  #firstSeen = false;

  constructor(options: RunOptions, log: HandledLogReader) {
    const { plan, folder, producers, workers, display } = options;
    this.#options = options;
    this.#log = log;
    this.#ledger = new Ledger(plan, this.#audited);
    this.#partner = new Partner(folder.handledLog, options.seed);
    display.start(() => ({ ...this.#ledger.counts, refused: this.#partner.refused }));
    // All at once: the children load their code while the account comes up.
    const calls = this.#calls;
    const onOutput = (line: string): void => display.line(line);
    const onFailure = (text: string): void => void this.#failures.push(text);
    this.#azurite = new Azurite(folder.azurite, { onOutput, onCrash: onFailure });
    this.#workers = new WorkerPool({ workers, calls, onOutput, onCrash: onFailure });
    this.#producers = new ProducerPool({
      producers,
      calls,
      onOutput,
      onFailure,
      onCommitted: (position, events) => this.#ledger.committed(position, events),
    });
  }

  async run(): Promise<RunResult> {
    const { plan, folder, kill, seed, display } = this.#options;
    display.phase("starting the storage account");
    const connectionString = await this.#unlessStopped(this.#azurite.connectionString);
    const storage = connectStorage({ connectionString });
    await this.#unlessStopped(storage.createResources());
    await folder.writeOrders(new Set(plan.map(({ orderId }) => orderId)));

    display.phase("starting the workers");
    const pace = kill ? { leaseMs: LEASE_WITH_KILLS_MS, handlerMs: HANDLER_WITH_KILLS_MS } : { leaseMs: LEASE_MS, handlerMs: 0 };
    const partner = await this.#unlessStopped(this.#partner.start());
    await this.#unlessStopped(this.#workers.start({ connectionString, handledLog: folder.handledLog, partner, ...pace }));
    display.phase("running");
    this.#producers.start(connectionString, plan);
    const endKills = new AbortController();
    const kills = kill ? killAtRandom(this.#workers, seededRandom(seed), endKills.signal) : Promise.resolve();
    try {
      await this.#untilAllHandled();
    } finally {
      endKills.abort();
      await kills;
    }
    const seconds = display.elapsedSeconds;
    if (kill && this.#failures.length === 0) await this.#untilSettled(storage);

    display.phase("stopping the workers");
    await this.#workers.stop();
    await this.#readLog();
    display.phase("auditing");
    this.#calls.report("main", storage.calls.snapshot());
    return {
      audit: auditRun({
        audited: this.#audited,
        committed: this.#ledger.committedEvents(),
        handled: this.#ledger.records,
        tornRecords: this.#log.torn,
        killedWorkers: this.#workers.killed,
        earlierOrders: folder.earlierOrders,
      }),
      failures: this.#failures,
      seconds,
      calls: this.#calls.total(),
      kills: this.#workers.killed.size,
      refused: this.#partner.refused,
    };
  }

  /** Ends what still runs. The account is last: workers that stop still write to it. */
  async end(): Promise<void> {
    this.#options.display.phase("stopping");
    await this.#producers.kill();
    await this.#workers.stop();
    await this.#partner.stop();
    await this.#azurite.stop();
    this.#options.display.stop();
  }

  /** Ends early on a failure, or when nothing moves any more. */
  async #untilAllHandled(): Promise<void> {
    const { display, stop } = this.#options;
    let progress = "";
    let progressAt = performance.now();
    let draining = false;
    while (this.#failures.length === 0) {
      await this.#readLog();
      if (this.#ledger.complete) return;
      const { planned, committed, handled } = this.#ledger.counts;
      if (committed === planned && !draining) {
        draining = true;
        display.phase("draining");
      }
      if (`${committed} ${handled}` !== progress) {
        progress = `${committed} ${handled}`;
        progressAt = performance.now();
      } else if (performance.now() - progressAt > MAX_TIME_WITHOUT_PROGRESS_MS) {
        this.#failures.push(`no progress for ${MAX_TIME_WITHOUT_PROGRESS_MS / 60_000} minutes`);
      }
      await this.#unlessStopped(delay(LOOK_INTERVAL_MS, undefined, { signal: stop }));
    }
  }

  /**
   * Waits until no event blob is left. An event whose worker was killed after its handler and before its progress was recorded is repeated (G3):
   * the audit has to see that too.
   */
  async #untilSettled(storage: ConnectedStorage): Promise<void> {
    const { display, stop } = this.#options;
    display.phase("settling");
    const until = performance.now() + MAX_TIME_WITHOUT_PROGRESS_MS;
    while (this.#failures.length === 0) {
      const lists = this.#audited.map(({ name }) => isEmpty(storage.blobs.list("events", `${name}/`, { signal: stop })));
      if ((await this.#unlessStopped(Promise.all(lists))).every(Boolean)) return;
      if (performance.now() > until) this.#failures.push("events were handled and not archived");
      await this.#unlessStopped(delay(SETTLE_INTERVAL_MS, undefined, { signal: stop }));
    }
  }

  async #readLog(): Promise<void> {
    this.#ledger.handled(await this.#log.readNew());
    if (this.#firstSeen || this.#ledger.counts.handled === 0) return;
    this.#firstSeen = true;
    const { display } = this.#options;
    display.line(`first event handled after ${display.elapsedSeconds.toFixed(1)} s`);
  }

  /** The outcome of `work`, or a throw with the reason of the stop as soon as that is asked for. */
  async #unlessStopped<T>(work: Promise<T>): Promise<T> {
    const { stop } = this.#options;
    const stopped = Promise.withResolvers<never>();
    const onAbort = (): void => stopped.reject(stop.reason);
    stop.addEventListener("abort", onAbort, { once: true });
    if (stop.aborted) onAbort();
    try {
      return await Promise.race([work, stopped.promise]);
    } finally {
      stop.removeEventListener("abort", onAbort);
    }
  }
}

async function isEmpty(items: AsyncIterable<unknown>): Promise<boolean> {
  for await (const _ of items) return false;
  return true;
}
