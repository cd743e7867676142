/** The parent's end: one child process that runs a script of this folder. */
import { fork, type ChildProcess } from "node:child_process";
import { createInterface } from "node:readline";
import type { Readable } from "node:stream";

export interface ChildOptions<Incoming> {
  /** For messages about it. */
  readonly name: string;
  /** File name in this folder. */
  readonly script: string;
  readonly onMessage: (message: Incoming) => void;
  /** A line that the child printed. */
  readonly onOutput: (line: string) => void;
}

export class Child<Outgoing extends object, Incoming> {
  readonly name: string;
  /** Resolves when the process is gone, with how it ended. */
  readonly exited: Promise<string>;
  readonly #process: ChildProcess;

  constructor({ name, script, onMessage, onOutput }: ChildOptions<Incoming>) {
    this.name = name;
    this.#process = fork(new URL(script, import.meta.url), {
      // Flags like --inspect are for the parent.
      execArgv: [],
      stdio: ["ignore", "pipe", "pipe", "ipc"],
    });
    this.exited = new Promise((resolve) => {
      this.#process.once("error", (error) => resolve(error.message));
      this.#process.once("close", (code, signal) => resolve(signal ?? `exit code ${code}`));
    });
    this.#process.on("message", (message) => onMessage(message as Incoming));
    for (const output of [this.#process.stdout, this.#process.stderr]) forEachLine(output, onOutput);
  }

  get running(): boolean {
    return this.#process.exitCode === null && this.#process.signalCode === null;
  }

  /** A message to a child that is gone is dropped: its exit is dealt with elsewhere. */
  send(message: Outgoing): void {
    if (this.#process.connected) this.#process.send(message, () => {});
  }

  /** Of a child that is gone: nothing happens. */
  signal(signal: NodeJS.Signals): void {
    this.#process.kill(signal);
  }

  /** SIGKILL: no good-bye. Reaches a child that is frozen too. */
  async kill(): Promise<void> {
    this.#process.kill("SIGKILL");
    await this.exited;
  }

  /** Waits for the child to end by itself, and kills it after `graceMs`. */
  async end(graceMs: number): Promise<void> {
    const timer = setTimeout(() => this.#process.kill("SIGKILL"), graceMs);
    await this.exited;
    clearTimeout(timer);
  }
}

function forEachLine(output: Readable | null, onLine: (line: string) => void): void {
  if (output !== null) createInterface({ input: output }).on("line", onLine);
}
