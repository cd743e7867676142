/** Live progress: one line that is refreshed on a terminal, a plain line every two seconds elsewhere. */
import type { Counts } from "./ledger.ts";

export interface Progress extends Counts {
  /** Deliveries that the partner has refused. */
  readonly refused: number;
}

export interface ProgressStream {
  readonly isTTY?: boolean;
  write(text: string): unknown;
}

const TERMINAL_INTERVAL_MS = 200;
const PLAIN_INTERVAL_MS = 2_000;
const RATE_WINDOW_MS = 3_000;
/** Carriage return, then: erase to the end of the line. */
const CLEAR_LINE = "\r\u001B[K";

export class ProgressDisplay {
  readonly #stream: ProgressStream;
  readonly #terminal: boolean;
  #counts: () => Progress = () => ({ planned: 0, committed: 0, handled: 0, refused: 0 });
  #phase = "starting";
  #timer: NodeJS.Timeout | undefined;
  /** Handled events over the last seconds, oldest first. */
  readonly #samples: { readonly at: number; readonly handled: number }[] = [];

  constructor(stream: ProgressStream) {
    this.#stream = stream;
    this.#terminal = stream.isTTY === true;
  }

  /** Since this process started, loading its code included. */
  get elapsedSeconds(): number {
    return performance.now() / 1_000;
  }

  start(counts: () => Progress): void {
    this.#counts = counts;
    this.#timer = setInterval(() => this.#show(), this.#terminal ? TERMINAL_INTERVAL_MS : PLAIN_INTERVAL_MS);
  }

  phase(phase: string): void {
    this.#phase = phase;
    this.#show();
  }

  /** A line that stays. */
  line(text: string): void {
    this.#stream.write(`${this.#terminal ? CLEAR_LINE : ""}${text}\n`);
  }

  stop(): void {
    clearInterval(this.#timer);
    if (this.#terminal) this.#stream.write(CLEAR_LINE);
  }

  #show(): void {
    const { planned, committed, handled, refused } = this.#counts();
    const parts = [
      `${this.elapsedSeconds.toFixed(1)} s`,
      this.#phase,
      `committed ${committed}/${planned}`,
      `handled ${handled}`,
      `backlog ${committed - handled}`,
      `refused ${refused}`,
      `${this.#rate(handled).toFixed(0)} events/s`,
    ];
    this.#stream.write(this.#terminal ? `${CLEAR_LINE}${parts.join(" · ")}` : `${parts.join(" · ")}\n`);
  }

  #rate(handled: number): number {
    const now = performance.now();
    this.#samples.push({ at: now, handled });
    while (this.#samples.length > 2 && now - this.#samples[0]!.at > RATE_WINDOW_MS) this.#samples.shift();
    const oldest = this.#samples[0]!;
    return now > oldest.at ? ((handled - oldest.handled) * 1_000) / (now - oldest.at) : 0;
  }
}
