/** The producer processes of a run. An order belongs to one of them, so that its commits keep their order. */
import { createHash } from "node:crypto";
import type { EventReference } from "../core/commit-tokens.ts";
import type { CallLedger } from "./calls.ts";
import { Child } from "./child.ts";
import type { AssignedCommit, FromProducer, ToProducer } from "./messages.ts";
import type { Plan } from "./plan.ts";

export interface ProducerPoolOptions {
  readonly producers: number;
  readonly calls: CallLedger;
  readonly onOutput: (line: string) => void;
  readonly onCommitted: (position: number, events: readonly EventReference[]) => void;
  /** A producer gave up or died: part of the plan is not committed. */
  readonly onFailure: (text: string) => void;
}

export class ProducerPool {
  readonly #children: readonly Child<ToProducer, FromProducer>[];
  #stopping = false;

  constructor({ producers, calls, onOutput, onCommitted, onFailure }: ProducerPoolOptions) {
    this.#children = Array.from({ length: producers }, (_, index) => {
      const name = `producer ${index + 1}`;
      let finished = false;
      const child = new Child<ToProducer, FromProducer>({
        name,
        script: "producer-process.ts",
        onOutput: (line) => onOutput(`[${name}] ${line}`),
        onMessage: (message) => {
          switch (message.kind) {
            case "committed":
              return onCommitted(message.position, message.events);
            case "calls":
              return calls.report(name, message.calls);
            case "failed":
              finished = true;
              return onFailure(`${name}: ${message.text}`);
            case "finished":
              finished = true;
          }
        },
      });
      void child.exited.then((how) => {
        if (!finished && !this.#stopping) onFailure(`${name} ended by itself (${how})`);
      });
      return child;
    });
  }

  start(connectionString: string, plan: Plan): void {
    const assigned = assignCommits(plan, this.#children.length);
    this.#children.forEach((child, index) => child.send({ kind: "start", connectionString, commits: assigned[index] ?? [] }));
  }

  /** Whatever they are doing: a transaction that was sent happens or not, as after a crash. */
  async kill(): Promise<void> {
    this.#stopping = true;
    await Promise.all(this.#children.map((child) => child.kill()));
  }
}

/** The plan, divided by a hash of the OrderId; each part keeps the plan's order. */
export function assignCommits(plan: Plan, producers: number): AssignedCommit[][] {
  const assigned: AssignedCommit[][] = Array.from({ length: producers }, () => []);
  plan.forEach((commit, position) => {
    const hash = createHash("sha256").update(commit.orderId).digest().readUInt32BE();
    assigned[hash % producers]!.push({ ...commit, position });
  });
  return assigned;
}
