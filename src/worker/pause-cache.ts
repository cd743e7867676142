import type { Clock } from "../core/clock.ts";
import { CONTROL_CACHE_MS, CONTROL_PARTITION, decodePause, PAUSE_ROWS, type Pause } from "../core/controls.ts";
import { describeError } from "../core/errors.ts";
import type { Logger } from "../core/logger.ts";
import type { OrdersTable } from "../core/ports.ts";

/** After a failure the table is asked again after this time. */
const RETRY_MS = 1_000;
/** While the table can't be asked, what was known stands for this long: a pause that came since must not wait for ever. */
const MAX_KNOWN_MS = 60_000;

/** What is paused (F5), asked for at most once in {@link CONTROL_CACHE_MS} by a process, as long as the table answers. */
export class PauseCache {
  readonly #orders: OrdersTable;
  readonly #clock: Clock;
  readonly #logger: Logger;
  #answer: Promise<readonly Pause[] | undefined> | undefined;
  #askedAt = 0;
  #failed = false;
  #known: { readonly pauses: readonly Pause[]; readonly askedAt: number } | undefined;

  constructor(orders: OrdersTable, clock: Clock, logger: Logger) {
    this.#orders = orders;
    this.#clock = clock;
    this.#logger = logger;
  }

  /** Never rejects: if the table can't be asked, what was known before stands for a while. Undefined: it is not known what is paused. */
  current(): Promise<readonly Pause[] | undefined> {
    return this.#noOlderThan(this.#failed ? RETRY_MS : CONTROL_CACHE_MS);
  }

  /**
   * The same, asked for from now on. A stream that stands by this answer is found by the `resume` that ends its pause: its events were there
   * before the answer, and `resume` looks for them after it has removed the pause.
   */
  fresh(): Promise<readonly Pause[] | undefined> {
    return this.#noOlderThan(0);
  }

  #noOlderThan(ageMs: number): Promise<readonly Pause[] | undefined> {
    const now = this.#clock.monotonic();
    if (this.#answer === undefined || now - this.#askedAt >= ageMs) {
      this.#askedAt = now;
      this.#answer = this.#ask(now);
    }
    return this.#answer;
  }

  /** A pause that is in the table by now, until the table is asked again. */
  learn(pause: Pause): void {
    this.#answer = this.current().then((pauses) => {
      if (this.#known !== undefined) this.#known = { ...this.#known, pauses: [...this.#known.pauses, pause] };
      return pauses && [...pauses, pause];
    });
  }

  async #ask(askedAt: number): Promise<readonly Pause[] | undefined> {
    try {
      const rows = await this.#orders.listEntities(CONTROL_PARTITION, PAUSE_ROWS);
      const pauses = rows.flatMap(({ rowKey, properties }) => decodePause(rowKey, properties) ?? []);
      this.#known = { pauses, askedAt };
      this.#failed = false;
      return pauses;
    } catch (error) {
      this.#failed = true;
      const known = this.#known;
      const isRecent = known !== undefined && this.#clock.monotonic() - known.askedAt < MAX_KNOWN_MS;
      const meanwhile = isRecent ? "the last known ones stand" : "nothing is started until they can";
      this.#logger.warn(`pauses can't be read, ${meanwhile}`, { error: describeError(error) });
      return isRecent ? known.pauses : undefined;
    }
  }
}
