/** The worker processes of a run. */
import type { CallLedger } from "./calls.ts";
import { Child } from "./child.ts";
import type { FromWorker, StartWorker, ToWorker } from "./messages.ts";

/** More than a worker takes to stop its host. */
const STOP_GRACE_MS = 20_000;

export interface WorkerPoolOptions {
  readonly workers: number;
  readonly calls: CallLedger;
  readonly onOutput: (line: string) => void;
  /** A worker ended that nobody had killed or stopped. */
  readonly onCrash: (text: string) => void;
}

interface Worker {
  readonly child: Child<ToWorker, FromWorker>;
  /** Resolves when it handles events, or is gone. */
  readonly started: Promise<void>;
}

export class WorkerPool {
  /** Names of the processes that were killed on purpose. */
  readonly killed: Set<string> = new Set();
  readonly #options: WorkerPoolOptions;
  readonly #workers: Worker[];
  /** How many processes each place has had. */
  readonly #generations: number[];
  #settings: Omit<StartWorker, "kind" | "name"> | undefined;
  #stopping = false;

  /** Spawns the processes; they load their code while the storage account comes up. */
  constructor(options: WorkerPoolOptions) {
    this.#options = options;
    this.#generations = Array.from({ length: options.workers }, () => 0);
    this.#workers = this.#generations.map((_, place) => this.#spawn(place));
  }

  get size(): number {
    return this.#workers.length;
  }

  async start(settings: Omit<StartWorker, "kind" | "name">): Promise<void> {
    this.#settings = settings;
    for (const worker of this.#workers) this.#begin(worker);
    await Promise.all(this.#workers.map(({ started }) => started));
  }

  /** SIGKILLs the worker at `place` and starts another there; resolves when that one handles events. */
  async killAndRestart(place: number): Promise<void> {
    const { child } = this.#workers[place]!;
    this.killed.add(child.name);
    await child.kill();
    if (this.#stopping) return;
    const replacement = this.#spawn(place);
    this.#workers[place] = replacement;
    this.#begin(replacement);
    await replacement.started;
  }

  /** Lets running handlers end. Those that take too long are killed. */
  async stop(): Promise<void> {
    this.#stopping = true;
    await Promise.all(
      this.#workers.map(({ child }) => {
        child.send({ kind: "stop" });
        return child.end(STOP_GRACE_MS);
      }),
    );
  }

  #begin({ child }: Worker): void {
    if (this.#settings !== undefined) child.send({ kind: "start", name: child.name, ...this.#settings });
  }

  #spawn(place: number): Worker {
    const generation = (this.#generations[place] ?? 0) + 1;
    this.#generations[place] = generation;
    const name = `worker ${place + 1}.${generation}`;
    const { calls, onOutput, onCrash } = this.#options;
    const started = Promise.withResolvers<void>();
    const child = new Child<ToWorker, FromWorker>({
      name,
      script: "worker-process.ts",
      onOutput: (line) => onOutput(`[${name}] ${line}`),
      onMessage: (message) => {
        if (message.kind === "started") started.resolve();
        else calls.report(name, message.calls);
      },
    });
    void child.exited.then((how) => {
      started.resolve();
      if (!this.#stopping && !this.killed.has(name)) onCrash(`${name} ended by itself (${how})`);
    });
    return { child, started: started.promise };
  }
}
