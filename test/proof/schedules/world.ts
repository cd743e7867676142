/** One account, two producers, two worker hosts and operators, as a scenario wants them, on a scheduler. */
import { z } from "zod";
import { describeError, describeStack, isOutboxError, OutboxError } from "../../../src/core/errors.ts";
import type { EventId } from "../../../src/core/event-id.ts";
import { encodeOrderId, parseOrderId, type OrderKey } from "../../../src/core/order-id.ts";
import type { OrderTransaction, Storage } from "../../../src/core/ports.ts";
import { PermanentError } from "../../../src/core/retry.ts";
import { defineSubscription, defineWorkflow, type Subscription } from "../../../src/core/workflow.ts";
import type { OperationsContext, Operator } from "../../../src/operations/context.ts";
import { decideOrder } from "../../../src/operations/decide-many.ts";
import { pause, resume } from "../../../src/operations/pauses.ts";
import { createReconciler } from "../../../src/operations/reconcile.ts";
import { createSweeper } from "../../../src/operations/sweep.ts";
import { unlockOrder } from "../../../src/operations/unlock.ts";
import { verifyAll } from "../../../src/operations/verify.ts";
import { wakeOrder } from "../../../src/operations/wake.ts";
import { createOutbox } from "../../../src/producer/outbox.ts";
import { startWorkerHost, type WorkerHost } from "../../../src/worker/host.ts";
import { createWorker } from "../../../src/worker/worker.ts";
import { seededRandom } from "../../../src/local/seeded-random.ts";
import { createMemoryStorage, type MemoryStorage } from "../../support/memory-storage.ts";
import { Ledger, Violation, wants } from "./ledger.ts";
import { SUBSCRIPTIONS, type CommitPlan, type Incident, type Scenario, type SubscriptionName } from "./scenario.ts";
import { idle, Scheduler, type Process } from "./scheduler.ts";

const ORDERS = ["o-1", "o-2"] as const;
const HOSTS = ["w1", "w2"] as const;
const OPERATOR: Operator = { actor: "ann", reason: "carrier is back" };

const workflow = defineWorkflow({
  name: "schedules",
  state: z.object({ committed: z.number() }),
  events: { step: z.object({ n: z.number() }), other: z.object({ n: z.number() }) },
});

/** Nothing is left after so many times 60 s of peace, or never. */
const MAX_RECOVERY_MINUTES = 60;
/** More than any scenario takes. */
const MAX_STEPS = 60_000;

type Fate = "unknown" | "none" | "all" | "running";

export class World {
  readonly scheduler = new Scheduler();
  readonly storage: MemoryStorage = createMemoryStorage(this.scheduler.clock);
  readonly ledger = new Ledger(this.storage);
  readonly #scenario: Scenario;
  readonly #random = seededRandom(1);
  readonly #hosts: { process: Process; host: WorkerHost }[] = [];
  readonly #producers: Process[] = [];
  /** What the callers of `commit` were told, by the first number of the commit. */
  readonly #fates = new Map<number, { readonly numbers: readonly number[]; fate: Fate }>();
  readonly #started = new Map<string, number>();
  #lives = 0;
  #operators = 0;
  #healthy = false;
  #unexpected: unknown;

  constructor(scenario: Scenario) {
    this.#scenario = scenario;
  }

  /** Runs the scenario, lets the system recover, and audits. Throws a {@link Violation}. */
  async run(): Promise<void> {
    for (const name of HOSTS) this.#hosts.push(this.#host(name));
    this.#startProducers();
    await idle();
    try {
      await this.#disturbed();
      await this.#recover();
      await this.#audit();
    } finally {
      this.scheduler.close();
    }
  }

  async #disturbed(): Promise<void> {
    const { choices, incidents } = this.#scenario;
    const inOrder = incidents.toSorted((a, b) => a.step - b.step);
    const end = Math.max(choices.length, (inOrder.at(-1)?.step ?? -1) + 1);
    for (let step = 0; step < end; step++) {
      while (inOrder[0]?.step === step) await this.#happen(inOrder.shift()!);
      await this.#step(choices[step] ?? 0);
    }
  }

  async #step(choice: number): Promise<void> {
    while (this.scheduler.choices === 0) if (!this.scheduler.pass()) return;
    await this.scheduler.step(choice);
    this.#assertSound();
  }

  #assertSound(): void {
    this.ledger.assertSound();
    if (this.#unexpected !== undefined) throw new Violation("crash", describeStack(this.#unexpected) ?? describeError(this.#unexpected));
  }

  async #happen({ what, target }: Incident): Promise<void> {
    const { scheduler } = this;
    const processes = [...this.#hosts.map(({ process }) => process), ...this.#producers];
    const process = processes[target % processes.length]!;
    const orderId = ORDERS[target % ORDERS.length]!;
    switch (what) {
      case "kill":
        if (process.alive) this.#kill(process);
        break;
      case "stop":
        await this.#restart(target % HOSTS.length);
        break;
      case "freeze":
        process.frozen = true;
        scheduler.trace.push(`${process.name} freezes`);
        break;
      case "thaw":
        for (const each of processes) each.frozen = false;
        break;
      case "lose-answer":
        await scheduler.loseAnswer(target);
        break;
      case "refuse":
        await scheduler.refuse(target);
        break;
      case "repeat":
        scheduler.repeat(target);
        break;
      case "pass-1s":
      case "pass-11s":
      case "pass-31s":
      case "pass-61s":
        scheduler.pass(Number(/\d+/.exec(what)![0]) * 1_000);
        break;
      case "sweep":
        this.#operate("sweep", ({ storage, clock }) => createSweeper({ storage, clock: clock! }).sweep());
        break;
      case "reconcile":
        this.#operate("reconcile", ({ storage, clock }) => createReconciler({ storage, clock: clock! }).reconcile());
        break;
      case "redrive":
        this.#operate("redrive", (context) => decideOrder(context, "redrive", { orderId }, OPERATOR));
        break;
      case "discard":
        this.#operate("discard", (context) => this.#discard(context, orderId));
        break;
      case "pause":
        this.#operate("pause", (context) => pause(context, { subscription: "audit", orderId }, OPERATOR));
        break;
      case "resume":
        this.#operate("resume", (context) => resume(context, { subscription: "audit", orderId }, OPERATOR));
        break;
      case "unlock":
        this.#operate("unlock", (context) => unlockOrder(context, orderId, OPERATOR));
        break;
      case "wake":
        this.#operate("wake", (context) => wakeOrder(context, orderId, OPERATOR));
        break;
    }
    this.#assertSound();
  }

  /** Names the head, so that also one that runs or waits for its retry is discarded. */
  #discard(context: OperationsContext, orderId: (typeof ORDERS)[number]): Promise<unknown> {
    const order = encodeOrderId(parseOrderId(orderId));
    const [name] = this.storage
      .blobEntries("events")
      .map(([each]) => each.split("/"))
      .filter(([, key]) => key === order);
    const head = name === undefined ? {} : { subscription: name[0]!, id: name[2]!.slice(0, -".json".length) as EventId };
    return decideOrder(context, "discard", { orderId, ...head }, OPERATOR);
  }

  #operate(what: string, act: (context: OperationsContext) => Promise<unknown>): void {
    this.#operators += 1;
    const process = this.scheduler.process(`${what}${this.#operators}`);
    act({ storage: this.#storageOf(process), clock: this.scheduler.clockOf(process), random: this.#random }).catch((error: unknown) => {
      if (!isOutboxError(error)) this.#unexpected ??= error;
    });
  }

  #kill(process: Process): void {
    this.scheduler.kill(process);
    const index = this.#hosts.findIndex((each) => each.process === process);
    if (index !== -1) this.#hosts[index] = this.#host(HOSTS[index]!);
  }

  /** A graceful stop, as of a deployment; the next life begins beside it. */
  async #restart(index: number): Promise<void> {
    const { host, process } = this.#hosts[index]!;
    this.scheduler.trace.push(`${process.name} stops`);
    void host.stop();
    await idle();
    this.#hosts[index] = this.#host(HOSTS[index]!);
  }

  #host(name: string): { process: Process; host: WorkerHost } {
    this.#lives += 1;
    const process = this.scheduler.process(`${name}.${this.#lives}`);
    const storage = this.#storageOf(process);
    const clock = this.scheduler.clockOf(process);
    const random = this.#random;
    const worker = createWorker({
      workflow,
      subscriptions: SUBSCRIPTIONS.map((each) => this.#subscription(process, each)),
      storage,
      clock,
      random,
    });
    return {
      process,
      host: startWorkerHost({ worker, wakeUps: storage.wakeUps, concurrency: 2, pollMinMs: 5_000, pollMaxMs: 5_000, clock, random }),
    };
  }

  #subscription(process: Process, name: SubscriptionName): Subscription {
    return defineSubscription(workflow, {
      name,
      when: ({ type }) => wants(name, type),
      retry: { shortStarts: 2, longRetries: 1, longDelayMs: 5_000, onDead: name === "mail" ? "skip" : "block" },
      handle: (event) => {
        const order = encodeOrderId(parseOrderId(event.orderId));
        const { n } = event.data;
        this.scheduler.trace.push(`${process.name}: ${name} starts event ${event.sequence} of ${event.orderId}`);
        this.ledger.onStart(name, order, event.sequence, event.id);
        const how = this.#failureOf(name, n);
        if (how === "hangs") return new Promise<void>(() => undefined);
        return this.scheduler.handler(process, `${name} ${event.sequence} of ${event.orderId}`, () => {
          if (how === "throws") throw new Error("carrier is down");
          if (how === "gives-up") throw new PermanentError("no such carrier");
          this.ledger.onHandled(name, event.id);
        });
      },
    });
  }

  /** How this start of the event's handler is meant to fail. */
  #failureOf(subscription: SubscriptionName, n: number): string | undefined {
    const key = `${subscription} ${n}`;
    const start = (this.#started.get(key) ?? 0) + 1;
    this.#started.set(key, start);
    if (this.#healthy) return undefined;
    return this.#scenario.failures.find((plan) => plan.subscription === subscription && plan.event === n && start <= plan.times)?.how;
  }

  #startProducers(): void {
    let n = 0;
    const numbered = this.#scenario.commits.map((plan) => ({ plan, numbers: plan.events.map(() => n++) }));
    for (const producer of [0, 1]) {
      const process = this.scheduler.process(`p${producer + 1}`);
      this.#producers.push(process);
      const storage = this.#storageOf(process);
      const clock = this.scheduler.clockOf(process);
      // The wake-up's deadline is a timer of the runtime: out of the way.
      const outbox = createOutbox({ workflow, storage, clock, random: this.#random, wakeUpTimeoutMs: 5_000 });
      const commitAll = async (): Promise<void> => {
        for (const { plan, numbers } of numbered.filter((each) => each.plan.producer === producer)) {
          const entry: { readonly numbers: readonly number[]; fate: Fate } = { numbers, fate: "running" };
          this.#fates.set(numbers[0]!, entry);
          entry.fate = await this.#commit(outbox, plan, numbers);
        }
      };
      commitAll().catch((error: unknown) => (this.#unexpected ??= error));
    }
  }

  async #commit(outbox: ReturnType<typeof createOutbox<typeof workflow>>, plan: CommitPlan, numbers: readonly number[]): Promise<Fate> {
    let commitToken: string | undefined;
    for (let tries = 0; ; tries++) {
      try {
        await outbox.commit(
          ORDERS[plan.order],
          (state) => ({
            state: { committed: (state?.committed ?? 0) + numbers.length },
            events: plan.events.map((type, index) => ({ type, data: { n: numbers[index]! } })),
          }),
          commitToken === undefined ? {} : { commitToken },
        );
        return "all";
      } catch (error) {
        if (!(error instanceof OutboxError)) throw error;
        if (error.code !== "outcome-unknown") return commitToken === undefined ? "none" : "unknown";
        if (tries === 2) return "unknown";
        commitToken = error.details.commitToken;
      }
    }
  }

  #storageOf(process: Process): Storage {
    return this.scheduler.storageOf(process, this.storage, (_process, port, method, args) => {
      if (port === "orders" && method === "commit") this.ledger.onCommit(args[0] as OrderTransaction);
      if (port === "leases" && method === "writeMetadata") this.ledger.onProgress(args[0] as OrderKey);
    });
  }

  /** Everything works from here on, and time passes: the system has to come to rest by itself, with operators for dead letters and pauses. */
  async #recover(): Promise<void> {
    const { scheduler } = this;
    scheduler.trace.push("— from here on nothing goes wrong —");
    this.#healthy = true;
    for (const process of [...this.#hosts.map((each) => each.process), ...this.#producers]) process.frozen = false;
    await this.#until(scheduler.seconds);
    const sweeping = scheduler.process("sweeper");
    const context: OperationsContext = { storage: this.#storageOf(sweeping), clock: scheduler.clockOf(sweeping), random: this.#random };
    const { storage } = context;
    const sweeper = createSweeper({ storage, clock: context.clock! });
    const reconciler = createReconciler({ storage, clock: context.clock! });
    for (let minute = 0; minute < MAX_RECOVERY_MINUTES; minute++) {
      if (this.#isAtRest()) return;
      this.#operate("resume", (own) => resume(own, { subscription: "audit", orderId: "o-1" }, OPERATOR));
      this.#operate("resume", (own) => resume(own, { subscription: "audit", orderId: "o-2" }, OPERATOR));
      for (const orderId of ORDERS) this.#operate("redrive", (own) => decideOrder(own, "redrive", { orderId }, OPERATOR));
      for (const work of [() => sweeper.sweep(), () => reconciler.reconcile()]) {
        work().catch((error: unknown) => (this.#unexpected ??= error));
      }
      await this.#until(scheduler.seconds + 60);
    }
    throw new Violation("G5", `after ${MAX_RECOVERY_MINUTES} minutes of peace these are pending: ${this.ledger.pending().join(", ")}`);
  }

  /** Lets everything run up to that time. */
  async #until(seconds: number): Promise<void> {
    for (let steps = 0; ; steps++) {
      if (steps > MAX_STEPS) throw new Violation("G5", `${MAX_STEPS} steps within a minute: something is spinning`);
      if (this.scheduler.choices > 0) await this.#step(0);
      else if (!this.scheduler.pass() || this.scheduler.seconds > seconds) return;
    }
  }

  #isAtRest(): boolean {
    const isHeld = this.ledger.orders.some((order) => this.storage.leaseOf(order)?.state === "taken");
    return (
      !isHeld &&
      this.ledger.pending().length === 0 &&
      [...this.#fates.values()].every(({ fate }) => fate !== "running" || this.#producers.some(({ alive }) => !alive))
    );
  }

  async #audit(): Promise<void> {
    this.ledger.assertAccounted();
    if (this.#scenario.incidents.length + this.#scenario.failures.length === 0) this.ledger.assertStartedOnce();
    for (const { numbers, fate } of this.#fates.values()) {
      const times = numbers.map((n) => this.ledger.timesCommitted(n));
      const is = (count: number): boolean => times.every((each) => each === count);
      if (!(is(1) ? fate !== "none" : is(0) && fate !== "all")) {
        throw new Violation(
          "G1",
          `the caller was told "${fate}" of events ${numbers.join(", ")}, which are stored ${times.join(", ")} times`,
        );
      }
    }
    const { findings } = await verifyAll({ storage: this.storage, clock: this.scheduler.clock });
    const damage = findings.filter(({ severity }) => severity === "damage");
    if (damage.length > 0) throw new Violation("verify", damage.map(({ kind, text }) => `${kind}: ${text}`).join("; "));
  }
}
