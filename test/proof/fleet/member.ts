/** A place in a fleet: the process that is there now, and its successors after kills. */
import { Child } from "../../../src/local/child.ts";
import { endedWithRun } from "../../support/own-child.ts";
import type { Started } from "./messages.ts";

const MAX_START_MS = 60_000;

export interface MemberOptions<Outgoing, Incoming> {
  /** `worker 1`; its processes are `worker 1.1`, `worker 1.2` … */
  readonly place: string;
  /** File name in this folder. */
  readonly script: string;
  readonly start: (name: string) => Outgoing;
  readonly onMessage: (message: Exclude<Incoming, Started>) => void;
  /** A new process is ready. */
  readonly onStarted: () => void;
  readonly onOutput: (line: string) => void;
  /** It ended and nobody had killed or stopped it, or does not start. */
  readonly onCrash: (text: string) => void;
}

export class Member<Outgoing extends object, Incoming extends { readonly kind: string }> implements AsyncDisposable {
  readonly #options: MemberOptions<Outgoing, Incoming>;
  #generation = 0;
  #child: Child<Outgoing, Incoming>;
  #started = false;
  /** Nobody may touch it: it is being killed or stopped, or is frozen. */
  #busy = false;
  #ended = false;
  readonly #registered: AsyncDisposable;

  constructor(options: MemberOptions<Outgoing, Incoming>) {
    this.#options = options;
    this.#child = this.#spawn();
    this.#registered = endedWithRun(async () => {
      this.#ended = true;
      await this.#child.kill();
    });
  }

  /** Of the process that is there now. */
  get name(): string {
    return this.#child.name;
  }

  /** It runs, and may be killed or frozen. */
  get ready(): boolean {
    return this.#started && !this.#busy && !this.#ended;
  }

  send(message: Outgoing): void {
    this.#child.send(message);
  }

  /** SIGKILL, then a successor. Resolves when the process is gone. */
  async kill(): Promise<void> {
    this.#busy = true;
    await this.#child.kill();
    this.#busy = false;
    if (!this.#ended) this.#child = this.#spawn();
  }

  /** SIGSTOP; the function that is returned thaws it. */
  freeze(): () => void {
    const child = this.#child;
    this.#busy = true;
    child.signal("SIGSTOP");
    return () => {
      child.signal("SIGCONT");
      this.#busy = false;
    };
  }

  async end(stop: Outgoing, graceMs: number): Promise<void> {
    this.#ended = true;
    this.#child.send(stop);
    await this.#child.end(graceMs);
  }

  /** Kills the process that is there, and there is no successor. */
  async [Symbol.asyncDispose](): Promise<void> {
    await this.#registered[Symbol.asyncDispose]();
  }

  #spawn(): Child<Outgoing, Incoming> {
    const { place, script, start, onMessage, onStarted, onOutput, onCrash } = this.#options;
    this.#generation += 1;
    this.#started = false;
    const name = `${place}.${this.#generation}`;
    const child = new Child<Outgoing, Incoming>({
      name,
      script: `../../test/proof/fleet/${script}`,
      onOutput: (line) => onOutput(`[${name}] ${line}`),
      onMessage: (message) => {
        if (message.kind !== "started") return onMessage(message as Exclude<Incoming, Started>);
        clearTimeout(late);
        this.#started = true;
        onStarted();
      },
    });
    const late = setTimeout(() => onCrash(`${name} did not start within ${MAX_START_MS / 1_000} s`), MAX_START_MS);
    child.send(start(name));
    void child.exited.then((how) => {
      clearTimeout(late);
      if (this.#child === child && !this.#busy && !this.#ended) onCrash(`${name} ended by itself (${how})`);
    });
    return child;
  }
}
