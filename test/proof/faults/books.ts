/** What really happened in a run, written down outside of the pipeline. */
export interface CommitPlan {
  /** Stands in the order's state once the commit has happened. */
  readonly name: string;
  readonly producer: "p1" | "p2";
  readonly orderId: string;
  /** Numbers of its events. */
  readonly events: readonly number[];
  /** The caller gives an idempotency key, so that it can repeat the commit even after it died. */
  readonly keyed: boolean;
}

export interface HandlerCall {
  readonly subscription: string;
  readonly orderId: string;
  readonly n: number;
  readonly id: string;
  readonly sequence: number;
  readonly text: string;
  readonly worker: string;
  readonly startedAt: number;
  endedAt?: number;
  /** `died` with its process; undefined while it runs. */
  outcome?: "done" | "failed" | "died";
}

export class Books {
  readonly calls: HandlerCall[] = [];
  /** Commits that were answered: they have happened. */
  readonly answered: Set<string> = new Set();
  /** Commits whose outcome nobody knows: the producer died, or its last answer was that. */
  readonly unknown: Set<string> = new Set();
  /** Things that no fault explains. */
  readonly surprises: string[] = [];
}
