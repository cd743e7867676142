/** What the run and its child processes tell each other over IPC. */
import type { EventReference } from "../core/commit-tokens.ts";
import type { CallCounts } from "../storage/call-counter.ts";
import type { PlannedCommit } from "./plan.ts";

/** How often children report their storage calls; what a killed one made since its last report is not counted. */
export const CALL_REPORT_INTERVAL_MS = 500;

export interface Stop {
  readonly kind: "stop";
}

export interface StartAzurite {
  readonly kind: "start";
  /** Folder to persist in; undefined: in memory. */
  readonly folder: string | undefined;
}

export interface AzuriteStarted {
  readonly kind: "started";
  readonly connectionString: string;
}

export interface StartWorker {
  readonly kind: "start";
  readonly name: string;
  readonly connectionString: string;
  readonly handledLog: string;
  readonly partner: PartnerAddress;
  readonly leaseMs: number;
  /** How long a handler goes on after its record. */
  readonly handlerMs: number;
}

/** Where the partner's webhooks go. */
export interface PartnerAddress {
  readonly url: string;
  readonly secret: string;
}

export interface Started {
  readonly kind: "started";
}

/** Cumulative since the child's start. */
export interface CallReport {
  readonly kind: "calls";
  readonly calls: CallCounts;
}

export interface StartProducer {
  readonly kind: "start";
  readonly connectionString: string;
  readonly commits: readonly AssignedCommit[];
}

export interface AssignedCommit extends PlannedCommit {
  /** Its place in the plan. */
  readonly position: number;
}

export interface Committed {
  readonly kind: "committed";
  readonly position: number;
  readonly events: readonly EventReference[];
}

/** The producer gave up on a commit and makes no more. */
export interface CommitFailed {
  readonly kind: "failed";
  readonly text: string;
}

/** Every assigned commit is done. */
export interface ProducerFinished {
  readonly kind: "finished";
}

export type ToAzurite = StartAzurite | Stop;
export type FromAzurite = AzuriteStarted;
export type ToWorker = StartWorker | Stop;
export type FromWorker = Started | CallReport;
export type ToProducer = StartProducer;
export type FromProducer = Committed | CommitFailed | ProducerFinished | CallReport;
