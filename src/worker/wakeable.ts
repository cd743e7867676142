/** Pokes for a running round: "there may be something new". Many pokes count as one, none is lost. */
export class Wakeable {
  #poked = false;
  #pokes = 0;
  #waiting: (() => void) | undefined;

  /** How many there were by now. */
  get pokes(): number {
    return this.#pokes;
  }

  poke(): void {
    this.#pokes += 1;
    this.#poked = true;
    this.#waiting?.();
  }

  /** Was there a poke since the last time somebody asked? */
  takePoke(): boolean {
    const poked = this.#poked;
    this.#poked = false;
    return poked;
  }

  /** Resolves with true at the next poke (or at once, if one is waiting); with false when the signal aborts. */
  next(signal: AbortSignal): Promise<boolean> {
    return new Promise((resolve) => {
      const settle = (poked: boolean): void => {
        signal.removeEventListener("abort", giveUp);
        this.#waiting = undefined;
        resolve(poked);
      };
      const giveUp = (): void => settle(false);
      this.#waiting = () => settle(this.takePoke());
      signal.addEventListener("abort", giveUp, { once: true });
      if (signal.aborted) settle(false);
      else if (this.#poked) settle(this.takePoke());
    });
  }
}
