/** What the proof has started and has to end: no process of it outlives the run, whatever ends that. */
import { once } from "node:events";
import type { ChildProcess } from "node:child_process";

const ends = new Set<() => Promise<void>>();
const STATUSES = { SIGINT: 130, SIGTERM: 143 } as const;
type Stop = keyof typeof STATUSES;
/** For the part to put away what it holds beside processes, such as temporary files. */
const MAX_LAST_MS = 3_000;

let stopped: Stop | undefined;

/** The exit status of a run that was told to stop, by its signal; undefined: it may go on. */
export function stoppedStatus(): number | undefined {
  return stopped === undefined ? undefined : STATUSES[stopped];
}

/**
 * Ends something at the end of its block, or earlier on SIGINT and SIGTERM: then the whole process ends a moment later. While nothing is to be
 * ended, signals do what they always do: at once, even amid a long calculation.
 *
 * @param end may be called twice
 */
export function endedWithRun(end: () => Promise<void>): AsyncDisposable {
  if (ends.size === 0) for (const signal of signals()) process.on(signal, onSignal);
  ends.add(end);
  return {
    async [Symbol.asyncDispose]() {
      try {
        await end();
      } finally {
        ends.delete(end);
        if (ends.size === 0) for (const signal of signals()) process.off(signal, onSignal);
      }
    },
  };
}

function onSignal(signal: NodeJS.Signals): void {
  if (stopped !== undefined) return;
  stopped = signal as Stop;
  void Promise.allSettled([...ends].map((end) => end())).then(() => setTimeout(() => process.exit(stoppedStatus()), MAX_LAST_MS));
}

function signals(): readonly Stop[] {
  return Object.keys(STATUSES) as Stop[];
}

/** A child process that is killed at the end of its block, if it has not ended by itself. */
export class OwnChild implements AsyncDisposable {
  readonly process: ChildProcess;
  /** How it ended: `exit code 1`, `SIGKILL`. */
  readonly exited: Promise<string>;
  readonly #registered: AsyncDisposable;
  readonly #isGroup: boolean;

  /** @param isGroup it was started with `detached`: whatever it has started itself is killed with it */
  constructor(process: ChildProcess, { isGroup = false }: { readonly isGroup?: boolean } = {}) {
    this.process = process;
    this.#isGroup = isGroup;
    this.exited = new Promise((resolve) => {
      process.once("error", ({ message }) => resolve(message));
      process.once("exit", (code, signal) => resolve(signal ?? `exit code ${code}`));
    });
    this.#registered = endedWithRun(() => this.kill());
  }

  /** What it tells first. Rejects if it ends before that, or tells nothing for so long. */
  async firstMessage(what: string, maxMs: number): Promise<unknown> {
    const over = new AbortController();
    const late = setTimeout(() => over.abort(), maxMs);
    const told = once(this.process, "message", { signal: over.signal }).catch(() => {
      throw new Error(`${what} did not start within ${maxMs / 1_000} s`);
    });
    const ended = this.exited.then((how) => {
      throw new Error(`${what} ended before it was up (${how})`);
    });
    try {
      const [message] = (await Promise.race([told, ended])) as unknown[];
      return message;
    } finally {
      clearTimeout(late);
      over.abort();
      told.catch(() => undefined);
      ended.catch(() => undefined);
    }
  }

  /** SIGKILL reaches a process that is frozen too. */
  async kill(): Promise<void> {
    const { pid } = this.process;
    if (pid === undefined) return;
    if (!this.#isGroup) this.process.kill("SIGKILL");
    else if (this.process.exitCode === null && this.process.signalCode === null) process.kill(-pid, "SIGKILL");
    await this.exited;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#registered[Symbol.asyncDispose]();
  }
}
