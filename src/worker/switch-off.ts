/**
 * Switches a subscription off whose handler says that it is gone for good: the pause that an operator would have made, with its two audit
 * records (F5, G6). `ordered-outbox resume` lets it go on.
 */
import type { AuditRecord } from "../core/audit-record.ts";
import type { Clock } from "../core/clock.ts";
import { CONTROL_PARTITION, decodePause, pauseRow, WORKER_ACTOR, type Pause } from "../core/controls.ts";
import { describeError, isOutboxError } from "../core/errors.ts";
import { nextEventId, type EventId } from "../core/event-id.ts";
import type { Logger } from "../core/logger.ts";
import type { Storage } from "../core/ports.ts";
import { appendAuditRecord } from "../system/append-audit-record.ts";
import type { PauseCache } from "./pause-cache.ts";

export interface SwitchOffContext {
  readonly storage: Storage;
  readonly clock: Clock;
  /** Numbers in [0, 1), for the ids of audit records. */
  readonly random: () => number;
  readonly logger: Logger;
  readonly pauses: PauseCache;
}

/** `unanswered`: why it is not known whether there is a pause. */
type Written = { readonly pause: Pause; readonly isMine: boolean } | { readonly unanswered: unknown };

interface Stored {
  readonly pause: Pause;
  readonly call: unknown;
}

export class SwitchOff {
  readonly #context: SwitchOffContext;
  readonly #underWay = new Map<string, Promise<Pause>>();

  constructor(context: SwitchOffContext) {
    this.#context = context;
  }

  /**
   * Resolves to the pause that stands from now on; this process starts nothing of the subscription any more, others within 15 s. However
   * many orders find out at the same time, it is written once.
   *
   * @throws what storage throws: then nothing is paused, or, where an answer was lost and the table could not be asked again, it may be. The
   *   audit log says `failed` or `unknown`; whoever tries again finds a pause that is there.
   */
  off(subscription: string, reason: string): Promise<Pause> {
    const known = this.#underWay.get(subscription);
    if (known !== undefined) return known;
    const written = this.#switchOff(subscription, reason).finally(() => this.#underWay.delete(subscription));
    this.#underWay.set(subscription, written);
    return written;
  }

  async #switchOff(subscription: string, reason: string): Promise<Pause> {
    // Somebody may have been faster: then theirs stands.
    const pause = (await this.#stored(subscription))?.pause ?? (await this.#write(subscription, reason));
    this.#context.pauses.learn(pause);
    return pause;
  }

  async #stored(subscription: string): Promise<Stored | undefined> {
    const rowKey = pauseRow(subscription, undefined);
    const row = await this.#context.storage.orders.readEntity(CONTROL_PARTITION, rowKey);
    const pause = row && decodePause(rowKey, row.properties);
    return pause && { pause, call: row?.properties["call"] };
  }

  async #write(subscription: string, reason: string): Promise<Pause> {
    const { clock, logger } = this.#context;
    const actor = WORKER_ACTOR;
    const wanted: Pause = { subscription, orderId: undefined, actor, reason, at: new Date(clock.now()).toISOString() };
    const entry = { actor, reason, action: "pause", target: { subscription } } as const;
    const intention = await this.#record({ ...entry, outcome: "intended" }, undefined);
    const conclude = (outcome: string): Promise<unknown> =>
      this.#record({ ...entry, outcome, intention }, intention).catch((error: unknown) =>
        logger.error("the outcome of a pause could not be recorded; its intention is in the audit log", {
          subscription,
          intention,
          error: describeError(error),
        }),
      );
    let written: Written;
    try {
      written = await this.#insert(wanted);
    } catch (error) {
      await conclude(`failed: ${describeError(error)}`);
      throw error;
    }
    if ("unanswered" in written) {
      await conclude(`unknown: ${describeError(written.unanswered)}`);
      throw written.unanswered;
    }
    if (written.isMine)
      logger.warn("a subscription is gone and was paused; `ordered-outbox resume` lets it go on", { subscription, reason });
    await conclude(written.isMine ? "paused" : "already-paused");
    return written.pause;
  }

  /** Never over a pause that an operator, or another worker, has made in the meantime: that one stands. */
  async #insert(wanted: Pause): Promise<Written> {
    const { storage, clock, random } = this.#context;
    const { subscription, actor, reason, at } = wanted;
    const call = nextEventId(undefined, clock.now(), random);
    try {
      await storage.orders.insertEntity(CONTROL_PARTITION, pauseRow(subscription, undefined), { actor, reason, at, call });
      return { pause: wanted, isMine: true };
    } catch (error) {
      if (!isOutboxError(error, "already-exists", "unavailable", "timeout")) throw error;
      // A request that the client repeated is refused by itself, and one without an answer may be in force: was it mine?
      let stored: Stored | undefined;
      try {
        stored = await this.#stored(subscription);
      } catch {
        return { unanswered: error };
      }
      if (stored === undefined) throw error;
      return { pause: stored.pause, isMine: stored.call === call };
    }
  }

  #record(entry: Omit<AuditRecord, "id" | "at">, after: EventId | undefined): Promise<EventId> {
    const { storage, clock, random } = this.#context;
    return appendAuditRecord({ blobs: storage.blobs, at: clock.now(), random }, entry, after);
  }
}
