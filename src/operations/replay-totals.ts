/** What a replay has done over all orders, in bounded memory. */
import { OutboxError } from "../core/errors.ts";
import type { ReplayedOrder, SkipReason } from "./replay-order.ts";

export interface ReplayResult {
  readonly run: string;
  /**
   * - `done`: all that there was is committed. `would-replay`: a dry run.
   * - `done-before`: the run was finished earlier; nothing was looked at.
   * - `incomplete`: some orders failed. `stopped`: the signal came. The same command goes on with what is left.
   * - `left`: of some orders, events are still to run or to be relayed (`unfinished`, `under-way`). The same command, once they have, goes on.
   */
  readonly outcome: "done" | "left" | "would-replay" | "done-before" | "incomplete" | "stopped";
  /** ISO 8601; on `done-before`. */
  readonly finishedAt?: string;
  /** Orders that were looked at; a run that goes on leaves out those that it has done with. */
  readonly orders: number;
  /** Events committed by this call, or to be committed, and of how many orders. */
  readonly events: number;
  readonly ordersWithEvents: number;
  /** Events that earlier calls of the same run have committed. */
  readonly before: number;
  readonly skipped: Readonly<Partial<Record<SkipReason, number>>>;
  /** Orders that were left alone, as they are deleted or gone from the table; those that failed, and those of which something is left for later. */
  readonly deleted: number;
  readonly gone: number;
  readonly failed: number;
  readonly left: number;
  /** The first 1,000 orders of which there is something to tell; the failed ones first. */
  readonly details: readonly ReplayedOrder[];
  /** How many more there are. */
  readonly untold: number;
}

const MAX_DETAILS = 1_000;
/** So many orders without an answer mean that the account is down, not an order. */
const MAX_UNANSWERED = 10;

export class ReplayTotals {
  #orders = 0;
  #events = 0;
  #ordersWithEvents = 0;
  #before = 0;
  #untold = 0;
  #unanswered = 0;
  readonly #skipped: Partial<Record<SkipReason, number>> = {};
  readonly #counts = { deleted: 0, gone: 0, failed: 0, left: 0 };
  readonly #failures: ReplayedOrder[] = [];
  readonly #details: ReplayedOrder[] = [];

  get orders(): number {
    return this.#orders;
  }

  get events(): number {
    return this.#events;
  }

  /** Events of orders that earlier calls of the run have done with. */
  addBefore(events: number): void {
    this.#before += events;
  }

  /** @throws `unavailable` if too many orders had no answer from storage */
  add(order: ReplayedOrder): void {
    const { outcome, events, before, skipped } = order;
    this.#orders += 1;
    this.#events += events;
    this.#before += before;
    if (events > 0) this.#ordersWithEvents += 1;
    for (const [reason, count] of Object.entries(skipped) as [SkipReason, number][])
      this.#skipped[reason] = (this.#skipped[reason] ?? 0) + count;
    if (outcome === "deleted" || outcome === "gone" || outcome === "failed") this.#counts[outcome] += 1;
    if (order.left === true) this.#counts.left += 1;
    if (order.unanswered === true && ++this.#unanswered > MAX_UNANSWERED) {
      throw new OutboxError("unavailable", `${this.#unanswered} orders had no answer from storage, the last one: ${order.message}`);
    }
    if (outcome === "nothing" && order.left !== true) return;
    const list = outcome === "failed" ? this.#failures : this.#details;
    if (list.length < MAX_DETAILS) list.push(order);
    else this.#untold += 1;
  }

  result(run: string, { dryRun, stopped }: { readonly dryRun: boolean; readonly stopped: boolean }): ReplayResult {
    const { failed, left } = this.#counts;
    const all = [...this.#failures, ...this.#details];
    const ending = stopped ? "stopped" : failed > 0 ? "incomplete" : dryRun ? "would-replay" : left > 0 ? "left" : "done";
    return {
      run,
      outcome: ending,
      orders: this.#orders,
      events: this.#events,
      ordersWithEvents: this.#ordersWithEvents,
      before: this.#before,
      skipped: this.#skipped,
      ...this.#counts,
      details: all.slice(0, MAX_DETAILS),
      untold: this.#untold + Math.max(0, all.length - MAX_DETAILS),
    };
  }
}
