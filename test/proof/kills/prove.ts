/**
 * The proof by kills: producers and workers die by SIGKILL at random moments, or stand still by SIGSTOP for longer than their leases, while
 * the load goes on. What the handlers got is written down outside of them, and audited against what was committed.
 */
import { setTimeout as delay } from "node:timers/promises";
import type { HandledRecord } from "../../../src/local/handled-record.ts";
import { randomInteger, seededRandom, type Random } from "../../../src/local/seeded-random.ts";
import { Emulator } from "../../emulator/emulator.ts";
import { Fleet } from "../fleet/fleet.ts";
import { endlessLoad } from "../fleet/load.ts";
import type { PartReport, ProveOptions } from "../report.ts";
import { describeDistribution, Recoveries } from "./recoveries.ts";

const FULL_KILLS = 1_000;
const SMALL_KILLS = 12;
const WORKERS = 4;
const PRODUCERS = 2;
/** The shortest there is. */
const LEASE_MS = 15_000;
const HANDLER_MS = 30;
/** An order a process: so no kill explains more than one duplicate. */
const CONCURRENCY = 1;
const MIN_PAUSE_MS = 300;
const MAX_PAUSE_MS = 1_100;
/** After so many kills, one freeze comes on top of them. */
const FREEZE_EACH = 25;
const FREEZE_MS = LEASE_MS + 4_000;
/** For a worker to get something to do. */
const MAX_WAIT_MS = 3_000;
const PROGRESS_MS = 10_000;
/** G5 for this lease: the lease, a sweep, and the time for which the service may hold an expired lease. */
const BOUND_MS = LEASE_MS + 60_000 + 60_000;

export async function proveKills({
  progress = () => undefined,
  seed,
  budgetMs = Number.POSITIVE_INFINITY,
  small = false,
}: ProveOptions): Promise<PartReport> {
  const until = performance.now() + budgetMs;
  const kills = small ? SMALL_KILLS : FULL_KILLS;
  await using azurite = await Emulator.start();
  await using fleet = await Fleet.start({
    connectionString: azurite.connectionString,
    load: await endlessLoad(seed),
    workers: WORKERS,
    producers: PRODUCERS,
    concurrency: CONCURRENCY,
    leaseMs: LEASE_MS,
    handlerMs: HANDLER_MS,
    progress,
  });
  const killer = new Killer(fleet, seededRandom(seed));
  fleet.onArrival = (record) => killer.arrived(record);
  using _shown = setInterval(() => progress(killer.line(kills)), PROGRESS_MS);
  let over = false;
  const killing = killer.kill(kills, () => performance.now() > until || fleet.failures.length > 0).finally(() => (over = true));
  try {
    await Promise.all([fleet.run(() => over), killing]);
  } finally {
    killer.stop();
    await killing.catch(() => undefined);
  }
  const { audit, fenced, archived, bundles, violations } = await fleet.end();
  const recovery = killer.recoveries.distribution();
  const killed = killer.workers + killer.frozen;
  const found = [
    ...violations,
    ...(audit.duplicates > killed ? [{ rule: "G3", text: `${audit.duplicates} duplicates after ${killed} kills of workers` }] : []),
    ...(recovery.maxMs > BOUND_MS
      ? [{ rule: "G5", text: `an order recovered after ${recovery.maxMs} ms, ${BOUND_MS} are published` }]
      : []),
    ...(killer.recoveries.waiting > 0 ? [{ rule: "G5", text: `${killer.recoveries.waiting} orders never recovered` }] : []),
  ];
  const replay = `npm run proof -- --only kills --seed ${seed}`;
  return {
    figures: [
      ["SIGKILLs of workers", killer.workers],
      ["SIGKILLs of producers", killer.producers],
      ["workers frozen past their lease", killer.frozen],
      ["orders", audit.orders],
      ["events", audit.events],
      ["events archived, each once", archived],
      ["blobs that hold several of them", bundles],
      ["lost", audit.missing],
      ["out of order", audit.outOfOrder],
      ["duplicates", audit.duplicates],
      ["duplicates without a kill of their process", audit.unexplainedDuplicates],
      ["late calls of thawed workers, refused by their sequence", fenced],
      ["recovery", describeDistribution(recovery)],
      ["recovery bound", `${BOUND_MS / 1000} s`],
    ],
    violations: found.map((violation) => ({ ...violation, replay })),
    complete: killer.killed >= FULL_KILLS,
  };
}

class Killer {
  readonly recoveries: Recoveries = new Recoveries();
  workers = 0;
  producers = 0;
  frozen = 0;
  readonly #fleet: Fleet;
  readonly #random: Random;
  readonly #thaws: Promise<void>[] = [];
  #onArrival: (worker: string) => void = () => undefined;
  readonly #stopped = new AbortController();

  constructor(fleet: Fleet, random: Random) {
    this.#fleet = fleet;
    this.#random = random;
  }

  /** By SIGKILL. */
  get killed(): number {
    return this.workers + this.producers;
  }

  arrived({ orderId, worker }: HandledRecord): void {
    this.recoveries.progressed(orderId);
    this.#onArrival(worker);
  }

  line(kills: number): string {
    const { committed, handled } = this.#fleet.counts;
    return `${this.killed} of ${kills} kills, ${this.frozen} frozen, ${committed} events committed, ${handled} handled; recovery: ${describeDistribution(this.recoveries.distribution())}`;
  }

  async kill(kills: number, stop: () => boolean): Promise<void> {
    while (this.killed < kills && !stop() && !this.#stopped.signal.aborted) {
      await delay(randomInteger(this.#random, MIN_PAUSE_MS, MAX_PAUSE_MS));
      await this.#one();
    }
    await Promise.all(this.#thaws);
  }

  /** No more kills, and whatever is frozen thaws. */
  stop(): void {
    this.#stopped.abort();
  }

  /** Waits until an event of this process arrives, and a moment more: a kill of a process that is idle shows little. */
  async #atWork(name: string): Promise<boolean> {
    const arrived = new Promise<true>((resolve) => (this.#onArrival = (worker) => worker === name && resolve(true)));
    const ended = new AbortController();
    const tooLate = delay(MAX_WAIT_MS, false, { signal: ended.signal }).catch(() => false);
    const atWork = await Promise.race([arrived, tooLate]);
    ended.abort();
    if (atWork) await delay(this.#random() * HANDLER_MS * 2);
    return atWork;
  }

  /** Kills or freezes one of them, unless the one that it falls on has nothing to do. */
  async #one(): Promise<void> {
    const { workers, producers } = this.#fleet;
    const place = randomInteger(this.#random, 0, workers.length + producers.length - 1);
    const worker = workers[place];
    const member = worker ?? producers[place - workers.length]!;
    if (!member.ready || !this.#fleet.active.has(member.name)) return;
    if (worker !== undefined && !(await this.#atWork(worker.name))) return;
    if (worker === undefined) {
      this.#fleet.disturbed.add(member.name);
      await member.kill();
      this.producers += 1;
      return;
    }
    this.#fleet.disturbed.add(worker.name);
    this.recoveries.killed(this.#fleet.orderOf(worker.name));
    if (this.frozen < Math.floor(this.killed / FREEZE_EACH)) {
      this.#fleet.frozen.add(worker.name);
      const thaw = worker.freeze();
      this.#thaws.push(delay(FREEZE_MS, undefined, { signal: this.#stopped.signal }).then(thaw, thaw));
      this.frozen += 1;
      return;
    }
    await worker.kill();
    this.workers += 1;
  }
}
