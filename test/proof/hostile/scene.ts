/**
 * An account with hostile things in it, next to two good orders: `idle` is done with before, and must not be touched in any way; `busy` waits
 * for its turn, and must get it.
 */
import { isOutboxError } from "../../../src/core/errors.ts";
import type { OrderKey } from "../../../src/core/order-id.ts";
import { explain } from "../../../src/operations/explain.ts";
import { listOrders } from "../../../src/operations/orders.ts";
import { createReconciler } from "../../../src/operations/reconcile.ts";
import { readStatus } from "../../../src/operations/status.ts";
import { createSweeper } from "../../../src/operations/sweep.ts";
import { verifyAll } from "../../../src/operations/verify.ts";
import { key, Scene } from "../../worker/round-support.ts";
import { contextOf } from "../../worker/operator-support.ts";
import { readArchive } from "../archive.ts";

/** A hostile input got what none may get. */
export class Harm extends Error {}

export const IDLE = "idle";
export const BUSY = "busy";

interface Handled {
  readonly orderId: string;
  readonly id: string;
  readonly sequence: number;
}

/** So often the hosts try, a minute apart. */
const PASSES = 3;

export class HostileScene {
  readonly scene = new Scene();
  readonly handled: Handled[] = [];
  /** What workers and operations said about an order. */
  readonly reports = new Map<string, string[]>();
  /** Ids of the committed events, by order. */
  readonly #committed = new Map<string, string[]>();
  /** Names of events that are archived, or were before anything hostile came. */
  readonly #finished = new Set<string>();
  readonly worker = this.scene.worker();
  #idle = "";

  static async make(): Promise<HostileScene> {
    const made = new HostileScene();
    made.scene.onEvent = ({ orderId, id, sequence }) => void made.handled.push({ orderId, id, sequence });
    await made.commit(IDLE, 2);
    await made.round(IDLE);
    made.#idle = made.#stateOf(IDLE);
    return made;
  }

  async commit(orderId: string, count: number): Promise<readonly string[]> {
    const before = this.scene.outboxRows(orderId).length;
    await this.scene.commit(
      orderId,
      Array.from({ length: count }, (_each, index) => index + 1),
    );
    const ids = this.scene
      .outboxRows(orderId)
      .slice(before)
      .map((row) => row.slice("outbox:".length));
    this.#committed.set(orderId, [...(this.#committed.get(orderId) ?? []), ...ids]);
    return ids;
  }

  /** One round; what it throws on purpose is a report. */
  async round(orderId: string): Promise<void> {
    await this.reporting(orderId, async () => {
      const { problems } = await this.scene.until(this.worker.handle(orderId));
      for (const problem of problems) this.report(orderId, problem);
    });
  }

  report(orderId: string, text: string): void {
    this.reports.set(orderId, [...(this.reports.get(orderId) ?? []), text]);
  }

  /** Workers, sweeps and operators meet what is there. */
  async meet(victims: readonly string[]): Promise<void> {
    await this.commit(BUSY, 2);
    const context = contextOf(this.scene);
    const { storage, clock } = this.scene;
    const sweeper = createSweeper({ storage, clock });
    const reconciler = createReconciler({ storage, clock });
    for (let pass = 0; pass < PASSES; pass++) {
      for (const orderId of [...victims, BUSY]) await this.round(orderId);
      await this.reporting("", () => this.scene.until(sweeper.sweep()));
      await this.reporting("", () => this.scene.until(reconciler.reconcile()));
      await this.scene.clock.advance(61_000);
    }
    for (const look of [() => readStatus(context), () => listOrders(context)]) await this.reporting("", look);
    for (const orderId of victims) await this.reporting(orderId, () => explain(context, orderId));
    const { findings } = await verifyAll(context);
    for (const { orderId, text } of findings) this.report(orderId ?? "", text);
  }

  /** Throws {@link Harm}. */
  assertHarmless(victims: readonly string[]): void {
    if (this.#stateOf(IDLE) !== this.#idle) throw new Harm("an order that is done with was changed");
    this.noteFinished();
    const last = new Map<string, number>();
    for (const { orderId, id, sequence } of this.handled) {
      const place = this.#committed.get(orderId)?.indexOf(id) ?? -1;
      if (place === -1) throw new Harm(`a handler got event ${id} of order ${orderId}, which was never committed`);
      if (place + 1 < (last.get(orderId) ?? 0)) throw new Harm(`event ${place + 1} of ${orderId} was handled after a later one`);
      const waiting = this.#committed
        .get(orderId)!
        .slice(0, place)
        .find((each) => !this.#finished.has(`audit/${key(orderId)}/${each}.json`));
      if (waiting !== undefined) throw new Harm(`event ${place + 1} of ${orderId} was handled, and ${waiting} before it is not done with`);
      if (sequence !== place + 1) throw new Harm(`event ${place + 1} of ${orderId} was handled as ${sequence}`);
      last.set(orderId, place + 1);
    }
    for (const orderId of [IDLE, BUSY]) {
      const got = this.handled.filter((each) => each.orderId === orderId).map(({ id }) => id);
      if (got.join() !== this.#committed.get(orderId)?.join())
        throw new Harm(`order ${orderId} has nothing to do with it, and got ${got.join()}`);
    }
    for (const orderId of victims) {
      for (const id of this.#committed.get(orderId) ?? []) this.#assertAccounted(orderId, id);
    }
  }

  noteFinished(): void {
    for (const name of this.#outcomes().keys()) this.#finished.add(name);
  }

  /** Of what is archived, as a blob of its own or in a bundle that is whole. */
  #outcomes(): ReadonlyMap<string, string | undefined> {
    const outcomes = new Map<string, string | undefined>();
    for (const [name, { bytes, metadata }] of this.scene.storage.blobEntries("archive")) {
      const { events, bundles } = readArchive([{ name, bytes, metadata }]);
      if (bundles === 0) outcomes.set(name, metadata["outcome"]);
      else for (const [each, [{ outcome }]] of events) if (!outcomes.has(each)) outcomes.set(each, outcome);
    }
    return outcomes;
  }

  #assertAccounted(orderId: string, id: string): void {
    if (this.handled.some((each) => each.orderId === orderId && each.id === id)) return;
    const { storage } = this.scene;
    const name = `audit/${key(orderId)}/${id}.json`;
    const isIn = (container: "events" | "dead"): boolean => storage.blobEntries(container).some(([each]) => each === name);
    if (isIn("dead")) return;
    const archived = this.#outcomes().get(name);
    // Filed as done, and nobody has done it.
    if (archived !== undefined && archived !== "handled") return;
    const waits = isIn("events") || this.scene.outboxRows(orderId).includes(`outbox:${id}`);
    const isReported = (this.reports.get(orderId) ?? []).length > 0;
    if (!isReported) throw new Harm(`event ${id} of ${orderId} ${archived ?? (waits ? "waits" : "is gone")}, and nobody says why`);
  }

  /** What the act throws on purpose is a report about this order, or about none. */
  async reporting(orderId: string, act: () => Promise<unknown>): Promise<void> {
    try {
      await act();
    } catch (error) {
      if (!isOutboxError(error)) throw error;
      this.report(orderId, error.message);
    }
  }

  /** All that storage has of an order, with its etags. */
  #stateOf(orderId: string): string {
    const { storage } = this.scene;
    const order: OrderKey = key(orderId);
    const blobs = (["events", "archive", "dead", "payloads"] as const).flatMap((container) =>
      storage.blobEntries(container).flatMap(([name, blob]) => (name.split("/")[1] === order ? [[container, name, blob] as const] : [])),
    );
    const texts = [storage.rows(order), blobs, storage.leaseOf(order)];
    return JSON.stringify(texts, (_name, value: unknown) => (typeof value === "bigint" ? String(value) : value));
  }
}
