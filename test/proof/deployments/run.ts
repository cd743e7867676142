/** One order for a while: processes of two deployments, one of them without a subscription, that die and whose writes land late; operators, sweeps, replays. */
import type { EventId } from "../../../src/core/event-id.ts";
import { isOutboxError } from "../../../src/core/errors.ts";
import { UNROUTED } from "../../../src/core/names.ts";
import { parseOrderId } from "../../../src/core/order-id.ts";
import { decodeDecision } from "../../../src/core/pending-event.ts";
import { encodeWakeUp } from "../../../src/core/wake-up.ts";
import { pick, seededRandom, type Random } from "../../../src/local/seeded-random.ts";
import { parseEventBlobName } from "../../../src/operations/blob-name.ts";
import { decideOrder } from "../../../src/operations/decide-many.ts";
import { replay } from "../../../src/operations/replay.ts";
import { createSweeper, type Sweeper } from "../../../src/operations/sweep.ts";
import { verifyAll } from "../../../src/operations/verify.ts";
import { archivedEntries } from "../../support/archived-entries.ts";
import { settle } from "../../support/manual-clock.ts";
import { ANN, BOB, contextOf } from "../../worker/operator-support.ts";
import { Scene } from "../../worker/round-support.ts";
import { Ledger } from "./ledger.ts";
import { FaultyProcess, type Surroundings } from "./process.ts";

export interface RunOutcome {
  readonly broken: readonly string[];
  readonly starts: number;
  readonly deaths: number;
  readonly calls: number;
}

const ORDER = parseOrderId("o-1");
const ALL = ["audit", "mail"] as const;
const LESS = ["audit"] as const;
const PROCESSES = 3;
const MAX_EVENTS = 40;
const STEPS = 500;
const STEPS_MS = [100, 500, 1_000, 3_000] as const;
const RECOVERY_STEPS = 200;
const RECOVERY_STEP_MS = 5_000;
/** Longer than any write is under way. */
const LATEST_MS = 200_000;

export async function runDeployments(seed: number): Promise<RunOutcome> {
  const random = seededRandom(seed);
  const scene = new Scene();
  const ledger = new Ledger();
  const around: Surroundings = { scene, random, ledger, faultRate: pick(random, [0.01, 0.04, 0.1]) };
  const history = new History(around, random);
  await history.play();
  around.faultRate = 0;
  await history.recover();
  await history.audit();
  return { broken: ledger.broken, starts: ledger.starts, deaths: history.deaths, calls: scene.storage.calls.length };
}

class History {
  readonly #around: Surroundings;
  readonly #random: Random;
  readonly #sweeper: Sweeper;
  /** How often a process is one of the deployment without `mail`. */
  readonly #lessRate: number;
  readonly #replays: boolean;
  #processes: FaultyProcess[];
  #committed = 0;
  #replayed = 0;
  deaths = 0;

  constructor(around: Surroundings, random: Random) {
    this.#around = around;
    this.#random = random;
    this.#sweeper = createSweeper({ storage: around.scene.storage, clock: around.scene.clock });
    this.#lessRate = random() < 0.5 ? 0.3 : 0;
    this.#replays = random() < 0.3;
    this.#processes = [new FaultyProcess(around, ALL), ...Array.from({ length: PROCESSES - 1 }, () => this.#spawn())];
  }

  async play(): Promise<void> {
    const { scene } = this.#around;
    for (let step = 0; step < STEPS; step++) {
      if (this.#committed < MAX_EVENTS && this.#happens(0.12)) await this.#commit(pick(this.#random, [1, 1, 2, 5]));
      if (this.#happens(0.03)) await this.#operate();
      if (this.#happens(0.02)) await scene.storage.wakeUps.send(encodeWakeUp(ORDER), 0);
      for (const process of this.#processes) await process.deliverOne();
      this.#processes = this.#processes.map((process) => (process.dead && this.#happens(0.2) ? this.#follow() : process));
      if (step % 60 === 59) await this.#sweeper.sweep();
      await scene.clock.advance(pick(this.#random, STEPS_MS));
    }
  }

  /** One process that has everything, and nothing that goes wrong any more. Dead letters are redriven. */
  async recover(): Promise<void> {
    const { scene } = this.#around;
    await scene.clock.advance(LATEST_MS);
    for (const process of this.#processes) process.die();
    const last = new FaultyProcess(this.#around, ALL);
    for (let step = 0; step < RECOVERY_STEPS && (step < 40 || this.#left().length > 0); step++) {
      if (step % 5 === 0) {
        await this.#try(() => decideOrder(contextOf(scene), "redrive", { orderId: ORDER }, ANN));
        await this.#sweeper.sweep();
        await scene.storage.wakeUps.send(encodeWakeUp(ORDER), 0);
      }
      await last.deliverOne();
      await scene.clock.advance(RECOVERY_STEP_MS);
    }
    await settle();
  }

  async audit(): Promise<void> {
    const { scene, ledger } = this.#around;
    const left = this.#left();
    if (left.length > 0) ledger.broken.push(`G5: ${left.length} events are left: ${left.join(", ")}`);
    const { findings } = await verifyAll(contextOf(scene));
    for (const { severity, kind, text } of findings) if (severity === "damage") ledger.broken.push(`G6: verify says ${kind}: ${text}`);
    const archived = archivedEntries(scene.storage).map(([name, { metadata }]) => ({ name, metadata, ...parseEventBlobName(name)! }));
    const audits = archived.filter(({ subscription }) => subscription === "audit").length;
    const committed = this.#committed + this.#replayed;
    if (audits !== committed) ledger.broken.push(`G3: audit has ${audits} of ${committed} events in the archive`);
    for (const { name, subscription, id, metadata } of archived) {
      if (subscription === UNROUTED) continue;
      if (metadata["outcome"] === "handled" && !ledger.wasHandled(subscription, id)) ledger.broken.push(`G6: ${name} was never handled`);
      if (metadata["outcome"] === "discarded" && decodeDecision(metadata)?.action !== "discard")
        ledger.broken.push(`G6: ${name} was discarded by nobody`);
    }
  }

  #happens(chance: number): boolean {
    return this.#random() < chance;
  }

  #spawn(): FaultyProcess {
    return new FaultyProcess(this.#around, this.#happens(this.#lessRate) ? LESS : ALL);
  }

  #follow(): FaultyProcess {
    this.deaths += 1;
    return this.#spawn();
  }

  async #commit(count: number): Promise<void> {
    const numbers = Array.from({ length: count }, (_, n) => this.#committed + n + 1);
    await this.#around.scene.commit(ORDER, numbers);
    this.#committed += count;
  }

  async #operate(): Promise<void> {
    const { scene } = this.#around;
    const context = contextOf(scene);
    const chance = this.#random();
    const subscription = pick(this.#random, ALL);
    if (this.#replays && chance < 0.2) {
      const run = `run-${this.#replayed}`;
      await this.#try(async () => {
        this.#replayed += (await replay(context, { orderId: ORDER, subscription: "audit" }, ANN, { run })).events;
      });
    } else if (chance < 0.5) await this.#try(() => decideOrder(context, "redrive", { orderId: ORDER }, ANN));
    else if (chance < 0.7) await this.#try(() => decideOrder(context, "discard", { orderId: ORDER, subscription }, BOB));
    else {
      const id = scene.ids("events", subscription)[0] as EventId | undefined;
      if (id !== undefined) await this.#try(() => decideOrder(context, "discard", { orderId: ORDER, subscription, id }, BOB));
    }
  }

  /** What can't be done is told the operator; anything else is a fault. */
  async #try(act: () => Promise<unknown>): Promise<void> {
    try {
      await act();
    } catch (error) {
      if (!isOutboxError(error, "not-found", "conflict")) this.#around.ledger.broken.push(`G6: an operator was told ${String(error)}`);
    }
  }

  /** What is pending, and in the outbox. */
  #left(): readonly string[] {
    const { scene } = this.#around;
    return [...scene.storage.blobEntries("events").map(([name]) => name), ...scene.outboxRows()];
  }
}
