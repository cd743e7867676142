/**
 * Lets one suspect of a crash run at a time in a process (C06). An event that kills its process takes those running beside it along; started
 * together again and again, they would all look like killers. One after another, only the killer dies with its process.
 */
export class Quarantine {
  #last: Promise<unknown> = Promise.resolve();

  /** Runs `start` when the suspects before it are done. Settles as it does. */
  run<Result>(start: () => Promise<Result>): Promise<Result> {
    const result = this.#last.then(start);
    this.#last = result.catch(() => undefined);
    return result;
  }
}
