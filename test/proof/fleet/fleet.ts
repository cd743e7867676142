/** Producers and workers as processes of their own on one account, under a steady load, with everything written down outside of them. */
import { createHash } from "node:crypto";
import { setTimeout as delay } from "node:timers/promises";
import { describeError } from "../../../src/core/errors.ts";
import type { EventReference } from "../../../src/core/commit-tokens.ts";
import { audit, type AuditResult, type CommittedEvent } from "../../../src/local/audit.ts";
import { dataDigest, type HandledRecord } from "../../../src/local/handled-record.ts";
import type { PlannedCommit } from "../../../src/local/plan.ts";
import { createReconciler } from "../../../src/operations/reconcile.ts";
import { createSweeper } from "../../../src/operations/sweep.ts";
import { verifyAll } from "../../../src/operations/verify.ts";
import { connectStorage, type ConnectedStorage } from "../../../src/storage/connect.ts";
import { listArchiveBlobs, readArchive, type Archive } from "../archive.ts";
import { Member } from "./member.ts";
import type { FromProducer, FromWorker, ToProducer, ToWorker } from "./messages.ts";
import { Receiver } from "./receiver.ts";

export interface FleetOptions {
  /** Not disturbed: of the sweeps and the audit. */
  readonly connectionString: string;
  /** Of the processes. Default: the same. */
  readonly disturbedConnectionString?: string;
  readonly load: Iterator<PlannedCommit, never>;
  readonly workers: number;
  readonly producers: number;
  readonly concurrency: number;
  readonly leaseMs: number;
  readonly handlerMs: number;
  readonly progress: (line: string) => void;
}

export interface FleetResult {
  readonly audit: AuditResult;
  /** Late calls of frozen workers that the receiver refused by their sequence. */
  readonly fenced: number;
  /** Events, each counted once. */
  readonly archived: number;
  /** Blobs with several of them. */
  readonly bundles: number;
  /** Everything that is wrong. */
  readonly violations: readonly { readonly rule: string; readonly text: string }[];
}

/** Events that are committed and not handled yet: more would only wait. */
const MAX_BACKLOG = 60;
const IN_FLIGHT = 4;
const LOOK_MS = 100;
/** As deployed. */
const SWEEP_MS = 60_000;
const MAX_STANDSTILL_MS = 240_000;
const STOP_GRACE_MS = 20_000;
const MAX_TOLD = 5;
const RULES = { missing: "G3", unexpected: "G1", outOfOrder: "G2" } as const;

interface Flight {
  readonly position: number;
  readonly commit: PlannedCommit;
}

const ARRIVED = Symbol("arrived");

export class Fleet implements AsyncDisposable {
  readonly workers: readonly Member<ToWorker, FromWorker>[];
  readonly producers: readonly Member<ToProducer, FromProducer>[];
  /** Names of processes that were killed or frozen. */
  readonly disturbed: Set<string> = new Set();
  readonly frozen: Set<string> = new Set();
  /** Names of processes that have handled or committed something: to kill one before that shows nothing. */
  readonly active: Set<string> = new Set();
  /** Why it can't go on. */
  readonly failures: string[] = [];
  /** Commits that failed with something else than an unknown outcome or an unreachable account. They were repeated all the same. */
  readonly refusals: string[] = [];
  /** Told of each event that arrives at the receiver. */
  onArrival: (record: HandledRecord) => void = () => undefined;
  readonly #options: FleetOptions;
  readonly #storage: ConnectedStorage;
  readonly #receiver: Receiver;
  readonly #plan: PlannedCommit[] = [];
  readonly #answers = new Map<number, readonly EventReference[]>();
  readonly #inFlight: Map<number, Flight>[];
  /** Commits that wait because one of the same order is in flight. */
  readonly #waiting = new Map<string, Flight[]>();
  readonly #handledIds = new Set<string>();
  readonly #committedIds = new Set<string>();
  readonly #lastWorker = new Map<string, string>();
  readonly #lastOrder = new Map<string, string>();
  readonly #openEvents = new Map<string, number>();
  #ended = false;
  #running: Promise<void> = Promise.resolve();

  static async start(options: FleetOptions): Promise<Fleet> {
    const storage = connectStorage({ connectionString: options.connectionString });
    await storage.createResources();
    const holder: { fleet?: Fleet } = {};
    const receiver = new Receiver({
      handlerMs: options.handlerMs,
      wasFrozen: (worker) => holder.fleet?.frozen.has(worker) === true,
      onArrival: (record) => holder.fleet?.[ARRIVED](record),
    });
    const url = await receiver.start();
    holder.fleet = new Fleet(options, storage, receiver, url);
    return holder.fleet;
  }

  private constructor(options: FleetOptions, storage: ConnectedStorage, receiver: Receiver, url: string) {
    this.#options = options;
    this.#storage = storage;
    this.#receiver = receiver;
    const { leaseMs, concurrency, progress } = options;
    const connectionString = options.disturbedConnectionString ?? options.connectionString;
    const common = { onOutput: progress, onCrash: (text: string) => void this.failures.push(text) };
    this.workers = Array.from(
      { length: options.workers },
      (_, index) =>
        new Member<ToWorker, FromWorker>({
          ...common,
          place: `worker ${index + 1}`,
          script: "worker-process.ts",
          start: (name) => ({ kind: "start", name, connectionString, receiver: url, leaseMs, concurrency }),
          onMessage: () => undefined,
          onStarted: () => undefined,
        }),
    );
    this.#inFlight = Array.from({ length: options.producers }, () => new Map<number, Flight>());
    this.producers = this.#inFlight.map(
      (flights, index) =>
        new Member<ToProducer, FromProducer>({
          ...common,
          place: `producer ${index + 1}`,
          script: "producer-process.ts",
          start: () => ({ kind: "start", connectionString }),
          // What its predecessor was not done with is repeated: the idempotency key makes that safe.
          onStarted: () => flights.forEach((flight) => this.#launch(index, flight)),
          onMessage: (message) => {
            if (message.kind === "failed") this.refusals.push(message.text);
            else this.#committed(index, message.position, message.events);
          },
        }),
    );
  }

  get counts(): { readonly committed: number; readonly handled: number; readonly records: number } {
    return { committed: this.#committedIds.size, handled: this.#handledIds.size, records: this.#receiver.records.length };
  }

  /**
   * The order that this process holds, as far as anybody outside can tell: the one whose event it got last, if that is not answered yet or
   * more of the order is to come. For processes with one order at a time.
   */
  orderOf(worker: string): string | undefined {
    const orderId = this.#lastOrder.get(worker);
    if (orderId === undefined || this.#lastWorker.get(orderId) !== worker) return undefined;
    return this.#receiver.isCalledBy(worker, orderId) || this.#hasOpenEvents(orderId) ? orderId : undefined;
  }

  /** Keeps the load up until `until` says so, then waits until everything is handled and archived. */
  async run(until: () => boolean): Promise<void> {
    const running = this.#run(until);
    this.#running = running.catch(() => undefined);
    await running;
  }

  async #run(until: () => boolean): Promise<void> {
    const sweeping = new AbortController();
    const sweeps = this.#sweep(sweeping.signal);
    try {
      while (!until() && this.#canGoOn) {
        this.#feed();
        await delay(LOOK_MS);
      }
      await this.#drain();
    } finally {
      sweeping.abort();
      await sweeps;
    }
  }

  get #canGoOn(): boolean {
    return this.failures.length === 0 && !this.#ended;
  }

  /** Kills what is left of it. */
  async [Symbol.asyncDispose](): Promise<void> {
    this.#ended = true;
    await Promise.all([...this.workers, ...this.producers].map((member) => member[Symbol.asyncDispose]()));
    await this.#receiver.stop();
    await this.#running;
  }

  /** Ends all processes and judges what they did. */
  async end(): Promise<FleetResult> {
    await Promise.all([
      ...this.workers.map((worker) => worker.end({ kind: "stop" }, STOP_GRACE_MS)),
      ...this.producers.map((producer) => producer.end({ kind: "stop" }, STOP_GRACE_MS)),
    ]);
    await this.#receiver.stop();
    const result = audit({
      committed: this.#committedEvents(),
      handled: this.#receiver.records,
      killedWorkers: this.disturbed,
      earlierOrders: new Set(),
    });
    const archive = readArchive(await listArchiveBlobs(this.#options.connectionString));
    const { findings } = await verifyAll({ storage: this.#storage });
    return {
      audit: result,
      fenced: this.#receiver.fenced,
      archived: archive.events.size,
      bundles: archive.bundles,
      violations: [
        ...this.failures.map((text) => ({ rule: "G5", text })),
        ...this.refusals.slice(0, MAX_TOLD).map((text) => ({ rule: "C3", text })),
        ...(this.refusals.length > MAX_TOLD
          ? [{ rule: "C3", text: `and ${this.refusals.length - MAX_TOLD} more commits that failed` }]
          : []),
        ...result.findings.map(({ kind, text }) => ({ rule: RULES[kind], text: `${kind}: ${text}` })),
        ...(archive.events.size === result.events
          ? []
          : [{ rule: "G6", text: `${archive.events.size} events are archived, ${result.events} were committed` }]),
        ...[...archive.problems, ...this.#notAsCommitted(archive), ...(await this.#notAsListed(archive))]
          .slice(0, MAX_TOLD)
          .map((text) => ({ rule: "G6", text })),
        ...findings
          .filter(({ severity }) => severity === "damage")
          .map(({ kind, text }) => ({ rule: "G6", text: `verify: ${kind}: ${text}` })),
      ],
    };
  }

  [ARRIVED](record: HandledRecord): void {
    if (!this.#handledIds.has(record.id)) {
      this.#handledIds.add(record.id);
      this.#count(record.orderId, -1);
    }
    this.#lastWorker.set(record.orderId, record.worker);
    this.#lastOrder.set(record.worker, record.orderId);
    this.active.add(record.worker);
    this.onArrival(record);
  }

  /** An event may be handled before its producer has said that it is committed. */
  #count(orderId: string, change: number): void {
    const open = (this.#openEvents.get(orderId) ?? 0) + change;
    if (open === 0) this.#openEvents.delete(orderId);
    else this.#openEvents.set(orderId, open);
  }

  #hasOpenEvents(orderId: string): boolean {
    return (this.#openEvents.get(orderId) ?? 0) > 0;
  }

  #feed(): void {
    let free = this.#inFlight.reduce((sum, flights) => sum + Math.max(0, IN_FLIGHT - flights.size), 0);
    const waiting = [...this.#waiting.values()].reduce((sum, flights) => sum + flights.length, 0);
    if (this.#committedIds.size - this.#handledIds.size > MAX_BACKLOG || waiting > MAX_BACKLOG) return;
    for (; free > 0; free--) {
      const flight = { position: this.#plan.length, commit: this.#options.load.next().value };
      this.#plan.push(flight.commit);
      const queue = this.#waiting.get(flight.commit.orderId);
      if (queue !== undefined) queue.push(flight);
      else {
        this.#waiting.set(flight.commit.orderId, []);
        this.#take(flight);
      }
    }
  }

  #take(flight: Flight): void {
    const hash = createHash("sha256").update(flight.commit.orderId).digest().readUInt32BE();
    const index = hash % this.producers.length;
    this.#inFlight[index]!.set(flight.position, flight);
    this.#launch(index, flight);
  }

  #launch(index: number, { position, commit }: Flight): void {
    this.producers[index]!.send({ kind: "commit", position, commit });
  }

  #committed(index: number, position: number, events: readonly EventReference[]): void {
    const flight = this.#inFlight[index]!.get(position);
    // Of a commit that a successor was told to repeat.
    if (flight === undefined) return;
    this.#inFlight[index]!.delete(position);
    this.#answers.set(position, events);
    this.active.add(this.producers[index]!.name);
    const { orderId } = flight.commit;
    for (const { id } of events) {
      this.#committedIds.add(id);
      if (!this.#handledIds.has(id)) this.#count(orderId, 1);
    }
    const queue = this.#waiting.get(orderId)!;
    const next = queue.shift();
    if (next === undefined) this.#waiting.delete(orderId);
    else this.#take(next);
  }

  async #drain(): Promise<void> {
    let seen = "";
    let movedAt = performance.now();
    while (this.#canGoOn) {
      const { committed, handled } = this.counts;
      if (this.#answers.size === this.#plan.length && handled >= committed && (await this.#nothingPending())) return;
      if (seen !== `${committed} ${handled}`) {
        seen = `${committed} ${handled}`;
        movedAt = performance.now();
      } else if (performance.now() - movedAt > MAX_STANDSTILL_MS) {
        this.failures.push(`nothing moved for ${MAX_STANDSTILL_MS / 1000} s with ${handled} of ${committed} events handled`);
      }
      await delay(LOOK_MS * 5);
    }
  }

  async #nothingPending(): Promise<boolean> {
    for await (const _ of this.#storage.blobs.list("events", "")) return false;
    return true;
  }

  async #sweep(signal: AbortSignal): Promise<void> {
    const sweeper = createSweeper({ storage: this.#storage });
    const reconciler = createReconciler({ storage: this.#storage });
    for (;;) {
      try {
        await delay(SWEEP_MS, undefined, { signal });
      } catch {
        return;
      }
      try {
        await sweeper.sweep();
        await reconciler.reconcile();
      } catch (error) {
        this.#options.progress(`a sweep failed: ${describeError(error)}`);
      }
    }
  }

  /** Each committed event is archived as handled, with its bytes. */
  #notAsCommitted({ events }: Archive): readonly string[] {
    const copiesOf = Map.groupBy([...events.values()].flat(), ({ id }) => id);
    return this.#plan.flatMap(({ events: planned }, position) =>
      (this.#answers.get(position) ?? []).flatMap(({ id, sequence }, index) => {
        const copies = copiesOf.get(id) ?? [];
        const data = `"data":${planned[index]!.dataText}`;
        if (copies.length === 0) return [`event ${id} was committed and is not archived`];
        return copies
          .filter((copy) => copy.outcome !== "handled" || copy.sequence !== sequence || !copy.text.includes(data))
          .map((copy) => `event ${id}, sequence ${sequence}, is archived as ${copy.outcome}, sequence ${copy.sequence}, in ${copy.blob}`);
      }),
    );
  }

  /** Who lists the archive sees each event once. */
  async #notAsListed({ events }: Archive): Promise<readonly string[]> {
    const listed = (await Array.fromAsync(this.#storage.blobs.list("archive", ""))).map(({ name }) => name);
    const isSame = listed.length === events.size && listed.every((name) => events.has(name)) && new Set(listed).size === listed.length;
    return isSame ? [] : [`the archive is listed with ${listed.length} events, and has ${events.size}`];
  }

  #committedEvents(): CommittedEvent[] {
    return this.#plan.flatMap(({ orderId, events }, position) =>
      (this.#answers.get(position) ?? []).map(({ id, sequence }, index) => {
        const { type, time, dataText } = events[index]!;
        return { orderId, id, sequence, type, time, dataText, dataDigest: dataDigest(dataText) };
      }),
    );
  }
}
