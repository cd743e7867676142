/** A worker process whose calls meet faults, and which may die at any of them or in a handler. */
import { OutboxError } from "../../../src/core/errors.ts";
import type { StoredEvent } from "../../../src/core/event.ts";
import { PermanentError } from "../../../src/core/retry.ts";
import { decodeWakeUp } from "../../../src/core/wake-up.ts";
import { pick, type Random } from "../../../src/local/seeded-random.ts";
import type { Worker } from "../../../src/worker/round-result.ts";
import { passing, type Scene } from "../../worker/round-support.ts";
import { never } from "../faults/strikes.ts";
import type { Ledger } from "./ledger.ts";

export interface Surroundings {
  readonly scene: Scene;
  readonly random: Random;
  readonly ledger: Ledger;
  /** Of each call. 0: nothing goes wrong any more. */
  faultRate: number;
}

const MAX_CRASHES = 4;
const LEASE_MS = 30_000;
const MAX_ROUNDS = 2;

const FAULTS = ["late", "late", "lost", "refused", "slow", "slow answer", "dies before", "dies after", "dies, and it lands late"] as const;
/** From a moment to longer than any lease. */
const DELAYS_MS = [10, 1_000, 8_000, 26_000, 40_000, 90_000] as const;
const TIMEOUTS_MS = [10, 5_000, 20_000] as const;
const HANDLER_MS = [0, 0, 0, 200, 3_000, 12_000] as const;

export class FaultyProcess {
  readonly #around: Surroundings;
  readonly #worker: Worker;
  #dead = false;
  #rounds = 0;

  /** @param subscriptions those of its deployment; `mail` skips its dead letters */
  constructor(around: Surroundings, subscriptions: readonly string[]) {
    this.#around = around;
    const { scene, random } = around;
    const storage = passing(scene.storage, (real) => this.#call(real));
    const own = subscriptions.map((name) => {
      const onDead = name === "mail" ? "skip" : "block";
      const retry = { shortStarts: 2, shortDelayMs: 1_000, longRetries: 2, longDelayMs: 5_000, maxCrashes: MAX_CRASHES, onDead } as const;
      return { ...scene.subscription(name, { retry }), handle: (event: StoredEvent) => this.#handle(name, event) };
    });
    this.#worker = scene.worker(own, { storage, random, breaker: false });
  }

  get dead(): boolean {
    return this.#dead;
  }

  die(): void {
    this.#dead = true;
  }

  /** Does with a visible wake-up, if there is one, what a host does. */
  async deliverOne(): Promise<void> {
    if (this.#dead || this.#rounds >= MAX_ROUNDS) return;
    const { wakeUps } = this.#around.scene.storage;
    const [message] = await wakeUps.receive(1, LEASE_MS);
    if (message === undefined) return;
    this.#rounds += 1;
    const round = async (): Promise<void> => {
      try {
        const { status, retryInMs } = await this.#worker.handle(decodeWakeUp(message.text));
        if (status === "done") await wakeUps.delete(message.receipt);
        else await wakeUps.hide(message.receipt, message.text, Math.max(1_000, retryInMs));
      } catch {
        // The queue shows it again.
      } finally {
        this.#rounds -= 1;
      }
    };
    void round();
  }

  async #handle(subscription: string, event: StoredEvent): Promise<void> {
    if (this.#dead) return never();
    const { scene, random, ledger, faultRate } = this.#around;
    ledger.started(subscription, event);
    await scene.clock.sleep(pick(random, HANDLER_MS));
    const chance = faultRate === 0 ? 1 : random();
    if (chance < 0.03) {
      this.#dead = true;
      return never();
    }
    if (chance < 0.12) throw new Error("down");
    if (chance < 0.16) throw new PermanentError("refused");
    ledger.handled(subscription, event);
  }

  async #call(real: () => Promise<unknown>): Promise<unknown> {
    if (this.#dead) return never();
    const { random, faultRate } = this.#around;
    if (random() < faultRate) await this.#meet(pick(random, FAULTS), real);
    const answer = await real();
    return this.#dead ? never() : answer;
  }

  /** Returns if the call goes on as if nothing had been; what was done already is refused or done again, as the service does it. */
  async #meet(fault: (typeof FAULTS)[number], real: () => Promise<unknown>): Promise<void> {
    const { scene, random } = this.#around;
    const { clock } = scene;
    const delayMs = pick(random, DELAYS_MS);
    const later = (): void =>
      void clock
        .sleep(delayMs)
        .then(real)
        .catch(() => undefined);
    switch (fault) {
      case "late":
        later();
        await clock.sleep(pick(random, TIMEOUTS_MS));
        throw new OutboxError("timeout", "no answer");
      case "lost":
        await real().catch(() => undefined);
        throw new OutboxError("unavailable", "the answer is lost");
      case "refused":
        throw new OutboxError("unavailable", "busy");
      case "slow":
        await clock.sleep(delayMs);
        // What it has sent arrives without it.
        if (this.#dead) await real().catch(() => undefined);
        break;
      case "slow answer":
        await real().catch(() => undefined);
        await clock.sleep(delayMs);
        throw new OutboxError("timeout", "the answer came too late");
      case "dies before":
        this.#dead = true;
        break;
      case "dies after":
        await real().catch(() => undefined);
        this.#dead = true;
        break;
      case "dies, and it lands late":
        later();
        this.#dead = true;
    }
    if (this.#dead) return never();
  }
}
