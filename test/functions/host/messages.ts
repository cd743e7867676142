/** What a test says to a host process, and what it answers: one answer each, in order. */
import type { ListenerCounts } from "./queue-listener.ts";
import type { RegisteredFunction } from "./worker.ts";

export interface Ending {
  /** Wall clock, as in the log. */
  readonly beganAt: number;
  readonly ms: number;
}

export type ToHost =
  | { readonly kind: "listen"; readonly connectionString: string }
  /** Invokes a timer function. */
  | { readonly kind: "tick"; readonly name: string }
  /** Invokes a queue function with a text, past the queue. */
  | { readonly kind: "invoke"; readonly name: string; readonly text: string; readonly traceParent?: string }
  | { readonly kind: "counts" }
  | { readonly kind: "terminate" };

export type FromHost =
  | { readonly kind: "loaded"; readonly functions: readonly RegisteredFunction[]; readonly loadMs: number; readonly port: number }
  | { readonly kind: "done" }
  | { readonly kind: "failed"; readonly text: string }
  | { readonly kind: "counts"; readonly counts: Readonly<Record<string, ListenerCounts>> }
  | { readonly kind: "terminated"; readonly ending: Ending };
