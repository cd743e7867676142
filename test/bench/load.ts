/** How busy the machine is with something else: times taken then are not worth much. */
import { cpus } from "node:os";

interface Reading {
  readonly atMs: number;
  readonly machineMs: number;
  readonly ownMs: number;
}

export class LoadMeter {
  readonly #own: () => Promise<number>;
  #start: Reading | undefined;

  /** @param own processor time that the bench's processes have used so far, in milliseconds */
  constructor(own: () => Promise<number>) {
    this.#own = own;
  }

  async start(): Promise<void> {
    this.#start = await this.#read();
  }

  /** Processors kept busy by others since the start, on average. */
  async busyWithOthers(): Promise<number> {
    const { atMs, machineMs, ownMs } = this.#start!;
    const now = await this.#read();
    return Math.max(0, (now.machineMs - machineMs - (now.ownMs - ownMs)) / (now.atMs - atMs));
  }

  async #read(): Promise<Reading> {
    const machineMs = cpus().reduce((sum, { times: { user, nice, sys, irq } }) => sum + user + nice + sys + irq, 0);
    return { atMs: performance.now(), machineMs, ownMs: await this.#own() };
  }
}
