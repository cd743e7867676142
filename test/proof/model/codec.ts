/** A state as a short string, and back. Two states that differ only in which of two equal workers is which have the same string. */
import { IDLE, idleWorker, initialState, type Late, type Producer, type Shared, type State, type Worker } from "./state.ts";

const NO_FAULTS = { crashes: 0, expiries: 0, unanswered: 0, queue: 0, stops: 0 };
const SHARED = Object.keys(initialState(0, 0, NO_FAULTS).shared) as readonly (keyof Shared)[];
const PRODUCER: readonly (keyof Producer)[] = ["at", "commit", "base", "insured"];
const WORKER = Object.keys(idleWorker()) as readonly (keyof Worker)[];
const LATE: readonly (keyof Late)[] = ["kind", "by", "mine", "fresh", "x", "y", "clean", "relayed", "done", "waits"];

/** @param symmetric workers may be exchanged for each other */
export function encode({ shared, producers, workers, late }: State, symmetric: boolean): string {
  const codes = [late.length];
  for (const field of SHARED) codes.push(shared[field]);
  for (const producer of producers) for (const field of PRODUCER) codes.push(producer[field]);
  const head = String.fromCharCode(...codes);
  const workerTexts = workers.map(encodeWorker);
  const lateTexts = late.map((each) => String.fromCharCode(...LATE.map((field) => each[field])));
  if (symmetric) workerTexts.sort();
  lateTexts.sort();
  return head + workerTexts.join("") + lateTexts.join("");
}

function encodeWorker(worker: Worker): string {
  if (worker.at === IDLE) return String.fromCharCode(IDLE, worker.letGo);
  const codes: number[] = [];
  for (const field of WORKER) codes.push(worker[field]);
  return String.fromCharCode(...codes);
}

export function decode(text: string, producerCount: number, workerCount: number): State {
  let at = 1;
  const read = <Fields extends string>(fields: readonly Fields[]): Record<Fields, number> => {
    const record = {} as Record<Fields, number>;
    for (const field of fields) record[field] = text.charCodeAt(at++);
    return record;
  };
  const shared = read(SHARED);
  const producers = Array.from({ length: producerCount }, () => read(PRODUCER));
  const workers = Array.from({ length: workerCount }, () => {
    if (text.charCodeAt(at) !== IDLE) return read(WORKER);
    at += 2;
    return idleWorker(text.charCodeAt(at - 1));
  });
  const late = Array.from({ length: text.charCodeAt(0) }, () => read(LATE));
  return { shared, producers, workers, late };
}
