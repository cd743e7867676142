/** What the worker processes of a fan-out write down, all into one file, and what an audit can make of it. */
import type { OrderKey } from "../../src/core/order-id.ts";
import { GrowingFile } from "../support/growing-file.ts";
import type { Start } from "../support/stream-audit.ts";

interface Line {
  readonly pid: number;
  readonly order: OrderKey;
}

/** Written when the lease is had, and before it is given back. */
interface HoldingLine extends Line {
  readonly what: "acquired" | "gives back";
}

/** Written when a write of the progress has been confirmed: the last finished sequence of each subscription. */
interface ProgressLine extends Line {
  readonly what: "recorded";
  readonly finished: Readonly<Record<string, number>>;
}

interface HandlerLine extends Line {
  readonly what: "start" | "handled" | "failed";
  readonly subscription: string;
  readonly sequence: number;
}

export type FanOutLine = HoldingLine | ProgressLine | HandlerLine;

interface HeldOrder {
  holder: number | undefined;
  life: number;
}

/**
 * Tells which starts may be repeated. A life of an order ends when somebody gets its lease that the holder before has not given back: that one
 * was killed, or it has lost the lease, say because the emulator stood still for longer than it lasts. A worker that lost the lease stops and
 * can't write the progress any more, so whoever comes next has to repeat the event that was running (G3, W2), be it the same process.
 *
 * That hides neither a real double nor a wrong order. A new life excuses nothing but the event that its stream was at, and only if no write of
 * the progress that has it was confirmed: what was on record is a double, kill or no kill. Whoever gives the order back ends no life, so that
 * what ran before is a double in any process. And a worker that goes on without the lease is seen by itself (`ghosts`).
 */
export class FanOutLog {
  readonly #file: GrowingFile;
  readonly #starts: Start[] = [];
  readonly #orders = new Map<OrderKey, HeldOrder>();
  /** The last start of each stream. */
  readonly #last = new Map<string, Start>();
  readonly #open = new Map<string, Start>();
  readonly #pids = new Set<number>();
  readonly #brokenOff: number[] = [];
  readonly #ghosts: string[] = [];

  constructor(file: string) {
    this.#file = new GrowingFile(file);
  }

  /** All starts, in the order in which they happened. */
  get starts(): readonly Start[] {
    return this.#starts;
  }

  /** The process that has started a handler last. */
  busy: number | undefined;

  /** Of the processes that have started a handler. */
  get pids(): ReadonlySet<number> {
    return this.#pids;
  }

  /** The holder of each holding that was not given back. */
  get brokenOff(): readonly number[] {
    return this.#brokenOff;
  }

  /** Starts by somebody who did not hold the order (W5). */
  get ghosts(): readonly string[] {
    return this.#ghosts;
  }

  /** Takes in what has been written since. */
  read(): this {
    for (const text of this.#file.readNew().split("\n").slice(0, -1)) this.#add(JSON.parse(text) as FanOutLine);
    return this;
  }

  #add(line: FanOutLine): void {
    switch (line.what) {
      case "acquired":
        return this.#acquired(line);
      case "gives back": {
        const held = this.#orders.get(line.order);
        if (held?.holder === line.pid) held.holder = undefined;
        return;
      }
      case "recorded":
        for (const [subscription, sequence] of Object.entries(line.finished)) {
          const last = this.#last.get(streamOf(subscription, line.order));
          if (last?.outcome === "handled" && last.sequence <= sequence) last.recorded = true;
        }
        return;
      case "start":
        return this.#started(line);
      default:
        this.#open.get(startOf(line))!.outcome = line.what;
    }
  }

  #acquired({ order, pid }: Line): void {
    const held = this.#orders.get(order);
    if (held === undefined) this.#orders.set(order, { holder: pid, life: 1 });
    else {
      if (held.holder !== undefined) {
        this.#brokenOff.push(held.holder);
        held.life += 1;
      }
      held.holder = pid;
    }
  }

  #started(line: HandlerLine): void {
    const { pid, order, subscription, sequence } = line;
    const held = this.#orders.get(order);
    if (held?.holder !== pid) this.#ghosts.push(`${subscription} ${order} E${sequence}: started by ${pid}, held by ${held?.holder}`);
    const start: Start = { subscription, orderId: order, sequence, life: held?.life ?? 0, outcome: "died" };
    this.#starts.push(start);
    this.#last.set(streamOf(subscription, order), start);
    this.#open.set(startOf(line), start);
    this.#pids.add(pid);
    this.busy = pid;
  }
}

function streamOf(subscription: string, order: OrderKey): string {
  return `${subscription}/${order}`;
}

/** A process has one start of an event at a time, and writes its lines in order. */
function startOf({ pid, subscription, order, sequence }: HandlerLine): string {
  return `${pid}/${subscription}/${order}/${sequence}`;
}
