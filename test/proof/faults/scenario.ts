/** The fixed scenarios, and how their processes and callers behave: they start anew what died, and repeat what failed. */
import { z } from "zod";
import { describeError, isOutboxError } from "../../../src/core/errors.ts";
import { PermanentError } from "../../../src/core/retry.ts";
import { defineSubscription, defineWorkflow, type Subscription } from "../../../src/core/workflow.ts";
import { decideMany } from "../../../src/operations/decide-many.ts";
import { createReconciler } from "../../../src/operations/reconcile.ts";
import { createSweeper } from "../../../src/operations/sweep.ts";
import { createOutbox, type Outbox } from "../../../src/producer/outbox.ts";
import { startWorkerHost, type WorkerHost } from "../../../src/worker/host.ts";
import { createWorker } from "../../../src/worker/worker.ts";
import { Books, type CommitPlan, type HandlerCall } from "./books.ts";
import { never, Process } from "./strikes.ts";
import { key, type World } from "./world.ts";

export const SUBSCRIPTIONS = ["audit", "billing"] as const;

const workflow = defineWorkflow({
  name: "proof",
  state: z.object({ applied: z.array(z.string()) }),
  events: { step: z.object({ n: z.number() }) },
});

/** Fails at its first start, in `billing`. */
export const FAILS_ONCE = 20;
/** Fails for good until an operator redrives it, in `billing`. */
export const DIES = 11;

const HANDLER_MS = 200;
const RESTART_MS = 5_000;
const REPEAT_MS = 5_000;
const MAX_REPEATS = 20;

export type ScenarioName = "full" | "core";

const FULL_COMMITS: readonly CommitPlan[] = [
  { name: "a1", producer: "p1", orderId: "A", events: [1, 2], keyed: true },
  { name: "c1", producer: "p2", orderId: "C", events: [10, DIES, 12], keyed: false },
  { name: "b1", producer: "p1", orderId: "B", events: [FAILS_ONCE, 21], keyed: true },
  { name: "a2", producer: "p1", orderId: "A", events: [3], keyed: true },
  { name: "a3", producer: "p2", orderId: "A", events: [4], keyed: false },
];

const CORE_COMMITS: readonly CommitPlan[] = [{ name: "a1", producer: "p1", orderId: "A", events: [1], keyed: true }];

export class Scene {
  readonly world: World;
  readonly books: Books = new Books();
  readonly commits: readonly CommitPlan[];
  /** What operators have repaired. */
  #repaired = false;
  #redriven = false;
  readonly #name: ScenarioName;
  readonly #processes = new Map<string, number>();
  readonly #hosts: WorkerHost[] = [];
  readonly #outboxes = new Map<string, { readonly process: Process; readonly outbox: Outbox<typeof workflow> }>();

  constructor(world: World, name: ScenarioName) {
    this.world = world;
    this.#name = name;
    this.commits = name === "full" ? FULL_COMMITS : CORE_COMMITS;
  }

  get subscriptions(): readonly string[] {
    return this.#name === "full" ? SUBSCRIPTIONS : ["audit"];
  }

  /** Up to the point where everything is done if nothing goes wrong. */
  async play(): Promise<void> {
    this.#startWorker();
    if (this.#name === "core") {
      await this.#run(this.#commit(this.commits[0]!));
      await this.world.pass(3_000);
      return;
    }
    const [a1, c1, b1, a2, a3] = this.commits as [CommitPlan, CommitPlan, CommitPlan, CommitPlan, CommitPlan];
    await this.#run(this.#commit(a1));
    await this.world.pass(1_000);
    await this.#run(this.#commit(c1));
    await this.#run(this.#commit(b1));
    await this.#run(Promise.all([this.#commit(a2), this.#commit(a3)]));
    await this.world.pass(30_000);
    await this.#run(this.#sweep());
    await this.#run(this.#redrive());
    await this.world.pass(20_000);
  }

  /** What goes on by itself in a deployment: a sweep and a part of reconcile each minute, restarts, and operators who look at dead letters. */
  async recoverOneMinute(): Promise<void> {
    await this.#run(this.#sweep());
    if (this.#name === "full" && !this.#redriven) await this.#run(this.#redrive());
    await this.world.pass(60_000);
  }

  async stop(): Promise<void> {
    await this.#run(Promise.all(this.#hosts.map((host) => host.stop())));
  }

  /** Waits for work while time goes by. */
  async #run<T>(work: Promise<T>): Promise<T> {
    let over = false;
    const mark = (): void => void (over = true);
    work.then(mark, mark);
    for (let spent = 0; !over; spent += 100) {
      if (spent > 3_600_000) throw new Error("still not done after an hour");
      await this.world.pass(100);
    }
    return work;
  }

  #process(name: string): Process {
    const life = (this.#processes.get(name) ?? 0) + 1;
    this.#processes.set(name, life);
    return new Process(`${name}.${life}`);
  }

  /** Undefined if the process dies on the way. */
  async #inProcess<T>(process: Process, work: Promise<T>): Promise<T | undefined> {
    return Promise.race([work, process.died.then(() => undefined)]);
  }

  #producer(name: string): { readonly process: Process; readonly outbox: Outbox<typeof workflow> } {
    const present = this.#outboxes.get(name);
    if (present !== undefined && !present.process.dead) return present;
    const process = this.#process(name);
    const { clock, random } = this.world;
    const producer = { process, outbox: createOutbox({ workflow, storage: this.world.connect(process), clock, random }) };
    this.#outboxes.set(name, producer);
    return producer;
  }

  /** As a caller would: an error is no reason to give up, a death is one if there is no idempotency key. */
  async #commit({ name, producer, orderId, events, keyed }: CommitPlan): Promise<void> {
    const { clock } = this.world;
    let commitToken: string | undefined;
    for (let repeats = 0; repeats < MAX_REPEATS; repeats++) {
      const { process, outbox } = this.#producer(producer);
      const committing = outbox.commit(
        orderId,
        (state) => ({
          state: { applied: [...(state?.applied ?? []), name] },
          events: events.map((n) => ({ type: "step", data: { n } })),
        }),
        { ...(keyed ? { idempotencyKey: name } : {}), ...(commitToken === undefined ? {} : { commitToken }) },
      );
      try {
        const result = await this.#inProcess(process, committing);
        if (result !== undefined) {
          if (result.events.length !== events.length) this.books.surprises.push(`commit ${name} answered ${result.events.length} events`);
          this.books.answered.add(name);
          return;
        }
        committing.catch(() => undefined);
        if (!keyed) return void this.books.unknown.add(name);
        await clock.sleep(RESTART_MS);
      } catch (error) {
        if (!isOutboxError(error, "outcome-unknown", "timeout", "unavailable")) {
          this.books.surprises.push(`commit ${name} failed: ${describeError(error)}`);
        }
        if (isOutboxError(error, "outcome-unknown")) commitToken = error.details.commitToken;
        await clock.sleep(REPEAT_MS);
      }
    }
    this.books.surprises.push(`commit ${name} never got through`);
  }

  #startWorker(): void {
    const process = this.#process("w");
    const { clock, random } = this.world;
    const storage = this.world.connect(process);
    const worker = createWorker({
      workflow,
      subscriptions: this.subscriptions.map((name) => this.#subscription(name, process)),
      storage,
      clock,
      random,
    });
    const host = startWorkerHost({
      worker,
      wakeUps: storage.wakeUps,
      clock,
      random,
      pollMinMs: 1_000,
      pollMaxMs: 20_000,
      stopGraceMs: 1_000,
      abortGraceMs: 1_000,
    });
    this.#hosts.push(host);
    void process.died.then(async () => {
      for (const call of this.books.calls) {
        if (call.worker === process.name && call.outcome === undefined) {
          call.outcome = "died";
          call.endedAt = clock.monotonic();
        }
      }
      this.#hosts.splice(this.#hosts.indexOf(host), 1);
      await clock.sleep(RESTART_MS);
      this.#startWorker();
    });
  }

  #subscription(name: string, process: Process): Subscription {
    const { clock } = this.world;
    return defineSubscription(workflow, {
      name,
      retry: { shortStarts: 1, longDelayMs: 10_000 },
      handle: async (event, { signal }) => {
        if (process.dead) return never();
        const { n } = event.data;
        const call: HandlerCall = {
          subscription: name,
          orderId: event.orderId,
          n,
          id: event.id,
          sequence: event.sequence,
          text: event.text,
          worker: process.name,
          startedAt: clock.monotonic(),
        };
        const before = this.books.calls.filter((other) => other.subscription === name && other.id === event.id);
        this.books.calls.push(call);
        const end = (outcome: "done" | "failed"): void => {
          call.outcome = outcome;
          call.endedAt = clock.monotonic();
        };
        try {
          await clock.sleep(HANDLER_MS, signal);
        } catch (error) {
          if (process.dead) return never();
          end("failed");
          throw error;
        }
        if (process.dead) return never();
        const fails =
          name === "billing" &&
          ((n === FAILS_ONCE && before.every(({ outcome }) => outcome === "died")) || (n === DIES && !this.#repaired));
        end(fails ? "failed" : "done");
        if (fails) throw n === DIES ? new PermanentError("refused for good") : new Error("refused for now");
      },
    });
  }

  async #sweep(): Promise<void> {
    const process = this.#process("sweep");
    const { clock } = this.world;
    const storage = this.world.connect(process);
    const both = async (): Promise<void> => {
      await createSweeper({ storage, clock, subscriptions: this.subscriptions }).sweep();
      await createReconciler({ storage, clock }).reconcile();
    };
    // A sweep that fails is no trouble: there is another one each minute.
    await this.#inProcess(process, both()).catch((error: unknown) => {
      if (!isOutboxError(error, "timeout", "unavailable", "aborted"))
        this.books.surprises.push(`the sweep failed: ${describeError(error)}`);
    });
  }

  async #redrive(): Promise<void> {
    this.#repaired = true;
    const process = this.#process("operator");
    const { clock, random } = this.world;
    const context = { storage: this.world.connect(process), clock, random };
    try {
      const redriving = decideMany(context, "redrive", {}, { actor: "proof", reason: "the carrier is back" });
      const done = await this.#inProcess(process, redriving);
      if (done !== undefined && done.left === 0 && done.results.every(({ outcome }) => outcome !== "failed")) {
        this.#redriven = done.results.length > 0 || (await this.#wasHandled(DIES));
      }
    } catch (error) {
      if (!isOutboxError(error, "timeout", "unavailable", "conflict"))
        this.books.surprises.push(`the redrive failed: ${describeError(error)}`);
    }
  }

  async #wasHandled(n: number): Promise<boolean> {
    return this.books.calls.some((call) => call.n === n && call.subscription === "billing" && call.outcome === "done");
  }

  /** Nothing is left to do, as storage shows it. */
  async isQuiet(): Promise<boolean> {
    const { raw } = this.world;
    for await (const _ of raw.blobs.list("events", "")) return false;
    for (const orderId of new Set(this.commits.map((commit) => commit.orderId))) {
      if ((await raw.orders.readOutbox(key(orderId))).outbox.length > 0) return false;
    }
    return this.books.calls.every(({ outcome }) => outcome !== undefined);
  }
}
