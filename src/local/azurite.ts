/** The storage account of a run. */
import { Child } from "./child.ts";
import type { FromAzurite, ToAzurite } from "./messages.ts";

/** Writing a big account to disk takes its time. */
const STOP_GRACE_MS = 20_000;

export class Azurite {
  readonly #child: Child<ToAzurite, FromAzurite>;
  /** Rejects if Azurite ends before it is up. */
  readonly connectionString: Promise<string>;
  #stopping = false;

  /**
   * @param folder where it persists; undefined: in memory
   * @param onCrash it ended after it was up, and nobody had asked it to
   */
  constructor(folder: string | undefined, { onOutput, onCrash }: { onOutput: (line: string) => void; onCrash: (text: string) => void }) {
    const started = Promise.withResolvers<string>();
    this.connectionString = started.promise;
    this.#child = new Child<ToAzurite, FromAzurite>({
      name: "Azurite",
      script: "azurite-process.ts",
      onMessage: ({ connectionString }) => started.resolve(connectionString),
      onOutput: (line) => onOutput(`[Azurite] ${line}`),
    });
    void this.#child.exited.then((how) => {
      const text = `Azurite ended by itself (${how})`;
      started.reject(new Error(text));
      if (!this.#stopping) onCrash(text);
    });
    this.#child.send({ kind: "start", folder });
  }

  /** Ends it; a persistent account is written to its folder first. */
  async stop(): Promise<void> {
    this.#stopping = true;
    this.#child.send({ kind: "stop" });
    await this.#child.end(STOP_GRACE_MS);
  }
}
