/** Starts and ends an Azurite in a process of its own. */
import { fork, type ChildProcess } from "node:child_process";
import { once } from "node:events";
import { fileURLToPath } from "node:url";

const SCRIPT = fileURLToPath(new URL("fixtures/azurite-process.ts", import.meta.url));

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

export class Emulator implements AsyncDisposable {
  readonly connectionString: string;
  readonly #process: ChildProcess;

  private constructor(child: ChildProcess, connectionString: string) {
    this.#process = child;
    this.connectionString = connectionString;
  }

  /** An empty account. Throws if Azurite does not come up. */
  static async start(): Promise<Emulator> {
    const child = fork(SCRIPT, { execArgv: ["--max-old-space-size=8192"], stdio: ["ignore", "ignore", "inherit", "ipc"] });
    const ended = once(child, "exit").then(() => {
      throw new Error("Azurite ended before it was up");
    });
    const [{ connectionString }] = (await Promise.race([once(child, "message"), ended])) as [{ readonly connectionString: string }];
    ended.catch(() => {});
    return new Emulator(child, connectionString);
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

  async [Symbol.asyncDispose](): Promise<void> {
    if (this.#process.exitCode !== null || this.#process.signalCode !== null) return;
    const exited = once(this.#process, "exit");
    this.#process.kill("SIGKILL");
    await exited;
  }

  async #ask(question: ToEmulator): Promise<number> {
    const answered = once(this.#process, "message");
    this.#process.send(question);
    const [{ value }] = (await answered) as [FromEmulator];
    return value;
  }
}
