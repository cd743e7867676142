/** Raw storage calls: what the account and a client can do at most, without anything of a pipeline around it. */
import { ownCpuMs } from "../emulator/own-cpu.ts";
import { OPERATIONS, timesIn, type Mix, type Operation } from "./mix.ts";

/** Makes calls of one kind, each exactly one request, on things of its caller's own. Resolves once the account has answered. */
export type RawCalls = Readonly<Record<Operation, () => Promise<void>>>;

/** What a caller has to have before a run, to delete or change. */
export interface Stock {
  readonly rows: number;
  readonly blobs: number;
  readonly messages: number;
}

export interface RawCaller {
  readonly calls: RawCalls;
  /** Sees to it that everything is there that the calls work on, and sets the sizes of batches. Not measured. */
  prepare(stock: Stock, batches: Sizes): Promise<void>;
}

export interface RawRun {
  readonly calls: number;
  readonly ms: number;
  readonly callsPerSecond: number;
  /** Processor time of this process, a call. */
  readonly cpuMsPerCall: number;
}

export type Sizes = Omit<Mix, "perEvent" | "callsPerEvent">;

/** Callers take the next event as it comes, so one may delete more than it has made: for so many operations there is something in store. */
const SPARE = 8;

/** The calls of events 0 to `events - 1`, by all callers together: each takes the next event and makes its calls one after another. */
export async function runMix(callers: readonly RawCaller[], mix: Mix, events: number): Promise<RawRun> {
  let next = 0;
  const stock = { rows: Math.ceil(SPARE * mix.rowsPerDelete), blobs: Math.ceil(SPARE * mix.blobsPerBatch), messages: SPARE };
  return measure(callers, { stock, batches: mix }, async (caller) => {
    let made = 0;
    for (let unit = next++; unit < events; unit = next++) {
      for (const operation of OPERATIONS) {
        for (let times = timesIn(unit, mix.perEvent[operation]); times > 0; times--) {
          await caller.calls[operation]();
          made += 1;
        }
      }
    }
    return made;
  });
}

/** What a call of an operation uses up. */
const USES: Readonly<Partial<Record<Operation, (sizes: Sizes) => Partial<Stock>>>> = {
  DeleteEntity: () => ({ rows: 1 }),
  DeleteTransaction: ({ rowsPerDelete }) => ({ rows: Math.ceil(rowsPerDelete) }),
  DeleteBlob: () => ({ blobs: 1 }),
  BlobBatch: ({ blobsPerBatch }) => ({ blobs: Math.ceil(blobsPerBatch) }),
  DeleteMessage: () => ({ messages: 1 }),
};

/**
 * Nothing but these operations in turn, `times` by each caller. A commit needs the etag that a read gives, a release an acquisition: they come
 * in pairs.
 */
export async function runOperations(
  callers: readonly RawCaller[],
  operations: readonly Operation[],
  times: number,
  batches: Sizes,
): Promise<RawRun> {
  const stock = { rows: 1, blobs: 1, messages: 1 };
  for (const operation of operations) {
    const { rows = 0, blobs = 0, messages = 0 } = USES[operation]?.(batches) ?? {};
    stock.rows += rows * times;
    stock.blobs += blobs * times;
    stock.messages += messages * times;
  }
  return measure(callers, { stock, batches }, async (caller) => {
    for (let made = 0; made < times; made++) for (const operation of operations) await caller.calls[operation]();
    return times * operations.length;
  });
}

async function measure(
  callers: readonly RawCaller[],
  { stock, batches }: { readonly stock: Stock; readonly batches: Sizes },
  work: (caller: RawCaller) => Promise<number>,
): Promise<RawRun> {
  await Promise.all(callers.map((caller) => caller.prepare(stock, batches)));
  const cpuBefore = ownCpuMs();
  const startedAt = performance.now();
  const made = await Promise.all(callers.map(work));
  const ms = performance.now() - startedAt;
  const cpuMs = ownCpuMs() - cpuBefore;
  const calls = made.reduce((sum, count) => sum + count, 0);
  return { calls, ms, callsPerSecond: (calls / ms) * 1_000, cpuMsPerCall: cpuMs / calls };
}

/** Things that calls use up; running out of them is a fault of the bench, not to be counted as a call. */
export class Pool<Item> {
  readonly #name: string;
  readonly #items: Item[] = [];

  constructor(name: string) {
    this.#name = name;
  }

  get size(): number {
    return this.#items.length;
  }

  put(items: readonly Item[]): void {
    this.#items.push(...items);
  }

  peek(): Item {
    const [first] = this.#items;
    if (first === undefined) throw new Error(`a raw run has no ${this.#name} left`);
    return first;
  }

  take(count: number): Item[] {
    if (this.#items.length < count) throw new Error(`a raw run has ${this.#items.length} ${this.#name} left and needs ${count}`);
    return this.#items.splice(0, count);
  }
}

/** Whole numbers one after another whose mean is that of the mix. */
export class BatchSizes {
  #means: Sizes = { rowsPerCommit: 1, rowsPerDelete: 2, blobsPerBatch: 2, messagesPerReceive: 1 };
  readonly #taken: Record<keyof Sizes, number> = { rowsPerCommit: 0, rowsPerDelete: 0, blobsPerBatch: 0, messagesPerReceive: 0 };

  set(means: Sizes): void {
    this.#means = means;
  }

  next(kind: keyof Sizes): number {
    const size = timesIn(this.#taken[kind], this.#means[kind]);
    this.#taken[kind] += 1;
    // Of one, these would be other operations.
    return Math.max(kind === "rowsPerDelete" || kind === "blobsPerBatch" ? 2 : 1, size);
  }
}
