import type { Clock } from "../core/clock.ts";
import { CONTROL_CACHE_MS, CONTROL_PARTITION, parsePauseRow, type Pause } from "../core/controls.ts";
import { describeError } from "../core/errors.ts";
import type { Logger } from "../core/logger.ts";
import type { OrdersTable } from "../core/ports.ts";

/** What operators have paused (F5), asked for at most once in {@link CONTROL_CACHE_MS} by a process. */
export class PauseCache {
  readonly #orders: OrdersTable;
  readonly #clock: Clock;
  readonly #logger: Logger;
  #pauses: Promise<readonly Pause[]> | undefined;
  #readAt = 0;

  constructor(orders: OrdersTable, clock: Clock, logger: Logger) {
    this.#orders = orders;
    this.#clock = clock;
    this.#logger = logger;
  }

  /** Never rejects: if the table can't be asked, what was known before stands. */
  current(): Promise<readonly Pause[]> {
    const now = this.#clock.monotonic();
    if (this.#pauses === undefined || now - this.#readAt >= CONTROL_CACHE_MS) {
      this.#readAt = now;
      this.#pauses = this.#read(this.#pauses);
    }
    return this.#pauses;
  }

  async #read(before: Promise<readonly Pause[]> | undefined): Promise<readonly Pause[]> {
    try {
      const rows = await this.#orders.listEntities(CONTROL_PARTITION, { from: "pause:", to: "pause;" });
      return rows.flatMap(({ rowKey, properties: { actor, reason, at } }) => {
        const paused = parsePauseRow(rowKey);
        return paused === undefined ? [] : [{ ...paused, actor: String(actor ?? ""), reason: String(reason ?? ""), at: String(at ?? "") }];
      });
    } catch (error) {
      this.#logger.warn("pauses can't be read, the last known ones stand", { error: describeError(error) });
      return (await before) ?? [];
    }
  }
}
