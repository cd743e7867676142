/** What a fleet and its processes tell each other over IPC. */
import type { EventReference } from "../../../src/core/commit-tokens.ts";
import type { PlannedCommit } from "../../../src/local/plan.ts";

export interface StartWorker {
  readonly kind: "start";
  readonly name: string;
  readonly connectionString: string;
  /** Where the handlers send what they get. */
  readonly receiver: string;
  readonly leaseMs: number;
  readonly concurrency: number;
}

export interface StartProducer {
  readonly kind: "start";
  readonly connectionString: string;
}

export interface CommitThis {
  readonly kind: "commit";
  /** Names the commit for good, whichever process makes it. */
  readonly position: number;
  readonly commit: PlannedCommit;
}

export interface Committed {
  readonly kind: "committed";
  readonly position: number;
  readonly events: readonly EventReference[];
}

/** A commit failed in a way that no caller can be expected to repeat by itself. */
export interface Failed {
  readonly kind: "failed";
  readonly text: string;
}

export interface Started {
  readonly kind: "started";
}

export interface Stop {
  readonly kind: "stop";
}

export type ToWorker = StartWorker | Stop;
export type FromWorker = Started;
export type ToProducer = StartProducer | CommitThis | Stop;
export type FromProducer = Started | Committed | Failed;
