/** What the handlers of the deployed app wrote into the log, and whether it is what was committed. */
import { GrowingFile } from "../support/growing-file.ts";
import { parseLog, type LogEntry } from "./host/start-host.ts";

export interface HandledEvent {
  readonly pid: number;
  readonly at: number;
  readonly orderId: string;
  readonly id: string;
  readonly sequence: number;
  readonly type: string;
}

/** In the order in which the handlers ran, whatever process they ran in. */
export function handledEvents(logFile: string): readonly HandledEvent[] {
  return new HandledLog(logFile).read();
}

/** Reads a log that grows, each line once. */
export class HandledLog {
  readonly #file: GrowingFile;
  readonly #events: HandledEvent[] = [];

  constructor(logFile: string) {
    this.#file = new GrowingFile(logFile);
  }

  /** All events so far. */
  read(): readonly HandledEvent[] {
    for (const entry of parseLog(this.#file.readNew())) this.#add(entry);
    return this.#events;
  }

  #add({ pid, at, category, text }: LogEntry): void {
    if (category !== "user" || !text.startsWith(MARK)) return;
    this.#events.push({ ...(JSON.parse(text.slice(MARK.length)) as Omit<HandledEvent, "pid" | "at">), pid, at });
  }
}

/** What the subscription `audit-log` writes. */
const MARK = "shipment event ";

export interface Audit {
  readonly handled: number;
  /** Of the event that an order was at (G3). */
  readonly repeats: number;
  /** Those that neither the kill nor the outage explains: what ran then could not record that it was done. */
  readonly unexplainedRepeats: readonly string[];
  readonly missing: readonly string[];
  readonly unexpected: readonly string[];
  readonly outOfOrder: readonly string[];
}

/** What went wrong on purpose. */
export interface Mishaps {
  readonly killedPid: number;
  /** Wall clock. */
  readonly downAt: number;
  readonly upAt: number;
}

/** A handler that ran so long before the outage may have been about to record it: retries and deadlines of its storage call. */
const CALL_MS = 10_000;

/** @param committed in commit order for each order */
export function auditHandled(
  committed: readonly { readonly orderId: string; readonly events: readonly { readonly type: string }[] }[],
  handled: readonly HandledEvent[],
  { killedPid, downAt, upAt }: Mishaps,
): Audit {
  const types = new Map<string, string[]>();
  for (const { orderId, events } of committed) types.set(orderId, [...(types.get(orderId) ?? []), ...events.map(({ type }) => type)]);
  const last = new Map<string, HandledEvent>();
  const audit = {
    handled: 0,
    repeats: 0,
    unexplainedRepeats: [] as string[],
    missing: [] as string[],
    unexpected: [] as string[],
    outOfOrder: [] as string[],
  };
  for (const event of handled) {
    const { orderId, id, sequence, type } = event;
    const text = `${orderId} ${sequence} ${type}`;
    const before = last.get(orderId);
    if (types.get(orderId)?.[sequence - 1] !== type) audit.unexpected.push(text);
    else if (before?.id === id) {
      audit.repeats += 1;
      if (before.pid !== killedPid && !(before.at > downAt - CALL_MS && before.at < upAt)) audit.unexplainedRepeats.push(text);
    } else if (sequence !== (before?.sequence ?? 0) + 1) audit.outOfOrder.push(text);
    else audit.handled += 1;
    last.set(orderId, event);
  }
  for (const [orderId, own] of types) {
    const done = last.get(orderId)?.sequence ?? 0;
    if (done !== own.length) audit.missing.push(`${orderId} from ${done + 1} on`);
  }
  return audit;
}
