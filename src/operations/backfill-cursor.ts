/**
 * How far a backfill has come, so that one that goes on need not read every finished order again: the listings bring the orders in order of
 * their keys, and all up to this one are done. A row beside the record of the run.
 *
 * It is written after what it tells of, so who is killed reads a few orders again, which the marks make harmless. Two operators at once
 * overwrite each other's: either is true.
 */
import { CONTROL_PARTITION } from "../core/controls.ts";
import type { OrderKey } from "../core/order-id.ts";
import type { OrdersTable } from "../core/ports.ts";
import type { RunName } from "./replay-marks.ts";
import { listedBefore } from "./backfill-orders.ts";
import type { ReplayedOrder } from "./replay-order.ts";

/** How many orders are done between two writes. */
const CURSOR_ORDERS = 20;
/** Failed and left orders behind it that it remembers; with more of them it stays where it is. */
const MAX_FAILED = 40;

interface Place {
  readonly order: OrderKey;
  /** Of the orders up to there. */
  readonly events: number;
  readonly failed: readonly OrderKey[];
}

export interface CursorOf {
  /** From the record of the run: a cursor of another one tells nothing. */
  readonly startedAt: string;
  /** Are the listings sorted as they should be? Otherwise there is no place that all before it are done. */
  readonly sorted: boolean;
  readonly dryRun: boolean;
}

export class BackfillCursor {
  readonly #orders: OrdersTable;
  readonly #rowKey: string;
  readonly #startedAt: string;
  readonly #dryRun: boolean;
  readonly #begun: Place | undefined;
  /** Orders from the first one on that is not done, in the order of the listing; undefined: in work. */
  readonly #open = new Map<OrderKey, ReplayedOrder | undefined>();
  #place: Place | undefined;
  #done = 0;
  #last: OrderKey | undefined;
  #usable: boolean;
  /** It stays where it is. */
  #full = false;

  private constructor(orders: OrdersTable, rowKey: string, { startedAt, sorted, dryRun }: CursorOf, begun: Place | undefined) {
    this.#orders = orders;
    this.#rowKey = rowKey;
    this.#startedAt = startedAt;
    this.#dryRun = dryRun;
    this.#begun = begun;
    this.#place = begun;
    this.#usable = sorted;
  }

  static async read(orders: OrdersTable, { subscription, run }: RunName, cursorOf: CursorOf): Promise<BackfillCursor> {
    const { startedAt, sorted } = cursorOf;
    const rowKey = `backfill:${subscription}:${run}`;
    const row = sorted ? await orders.readEntity(CONTROL_PARTITION, rowKey) : undefined;
    const { order, events, failed, startedAt: of } = row?.properties ?? {};
    const found = typeof order === "string" && typeof events === "number" && typeof failed === "string" && of === startedAt;
    const keys = found && failed !== "" ? (failed.split(" ") as OrderKey[]) : [];
    const place = found ? { order: order as OrderKey, events, failed: keys } : undefined;
    return new BackfillCursor(orders, rowKey, cursorOf, place);
  }

  /** Events that earlier calls have committed to orders that this one does not look at. */
  get eventsBefore(): number {
    return this.#begun?.events ?? 0;
  }

  /** Was it done by an earlier call? */
  skips(order: OrderKey): boolean {
    return this.#begun !== undefined && !listedBefore(this.#begun.order, order) && !this.#begun.failed.includes(order);
  }

  /** For every order that is not skipped, in the order of the listing. */
  begin(order: OrderKey): void {
    if (this.#last !== undefined && !listedBefore(this.#last, order)) this.#usable = false;
    this.#last = order;
    if (this.#usable && !this.#full) this.#open.set(order, undefined);
  }

  async end(order: OrderKey, result: ReplayedOrder): Promise<void> {
    if (!this.#usable) return this.#forget();
    if (this.#full) return;
    this.#open.set(order, result);
    this.#advance();
    if (this.#done >= CURSOR_ORDERS) await this.keep();
  }

  /** Writes the place, if there is a new one. */
  async keep(): Promise<void> {
    if (!this.#usable) return this.#forget();
    if (this.#dryRun || this.#place === undefined || this.#done === 0) return;
    const { order, events, failed } = this.#place;
    this.#done = 0;
    const properties = { order, events, failed: failed.join(" "), startedAt: this.#startedAt };
    await this.#orders.putEntity(CONTROL_PARTITION, this.#rowKey, properties);
  }

  /** An order came out of order after all: what was kept does not hold for it. */
  async #forget(): Promise<void> {
    if (this.#place === undefined) return;
    this.#place = undefined;
    if (!this.#dryRun) await this.#orders.deleteEntity(CONTROL_PARTITION, this.#rowKey);
  }

  #advance(): void {
    for (const [order, result] of this.#open) {
      if (result === undefined) return;
      const before = this.#place ?? { order, events: 0, failed: [] };
      const isOpen = result.outcome === "failed" || result.left === true;
      const failed = [...before.failed.filter((other) => other !== order), ...(isOpen ? [order] : [])];
      if (failed.length > MAX_FAILED) {
        this.#full = true;
        return this.#open.clear();
      }
      this.#open.delete(order);
      this.#done += 1;
      const events = before.events + (isOpen ? 0 : result.events + result.before);
      this.#place = { order: listedBefore(before.order, order) ? order : before.order, events, failed };
    }
  }
}
