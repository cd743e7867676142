/** An Azurite in a process of its own. */
import { fork } from "node:child_process";
import { once } from "node:events";
import { fileURLToPath } from "node:url";
import type { Azurite } from "../support/azurite.ts";
import { OwnChild } from "../support/own-child.ts";

const SCRIPT = fileURLToPath(new URL("emulator-process.ts", import.meta.url));
const MAX_START_MS = 60_000;

interface Range {
  readonly from: number;
  readonly count: number;
}

export type ToEmulator =
  | { readonly kind: "cpu" }
  | ({ readonly kind: "seed-orders"; readonly table: string; readonly order: string } & Range)
  | ({ readonly kind: "seed-blobs"; readonly container: string; readonly prefix: string } & Range);

export interface FromEmulator {
  readonly value: number;
}

export class Emulator implements Azurite, AsyncDisposable {
  readonly connectionString: string;
  readonly #child: OwnChild;

  private constructor(child: OwnChild, connectionString: string) {
    this.#child = child;
    this.connectionString = connectionString;
  }

  /** An empty account. Throws if Azurite does not come up. */
  static async start(): Promise<Emulator> {
    const child = new OwnChild(fork(SCRIPT, { execArgv: ["--max-old-space-size=8192"], stdio: ["ignore", "ignore", "inherit", "ipc"] }));
    try {
      const { connectionString } = (await child.firstMessage("Azurite", MAX_START_MS)) as { readonly connectionString: string };
      return new Emulator(child, connectionString);
    } catch (error) {
      await child[Symbol.asyncDispose]();
      throw error;
    }
  }

  /** Processor time that Azurite has used so far, in milliseconds. */
  async cpuMs(): Promise<number> {
    return this.#ask({ kind: "cpu" });
  }

  /** Copies the order entity of `order`. Returns how many rows the table has then. */
  async seedOrders(table: string, order: string, from: number, count: number): Promise<number> {
    return this.#ask({ kind: "seed-orders", table, order, from, count });
  }

  /** Copies a blob below `prefix`. Returns how many blobs the account has then. */
  async seedBlobs(container: string, prefix: string, from: number, count: number): Promise<number> {
    return this.#ask({ kind: "seed-blobs", container, prefix, from, count });
  }

  /** In memory: nothing is lost with the process that is worth a good-bye. */
  async stop(): Promise<void> {
    await this.#child[Symbol.asyncDispose]();
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.stop();
  }

  async #ask(question: ToEmulator): Promise<number> {
    const { process } = this.#child;
    const answered = once(process, "message");
    process.send(question);
    const [{ value }] = (await answered) as [FromEmulator];
    return value;
  }
}
