/** What one call of `commit` works with. */
import type { Clock } from "../core/clock.ts";
import type { CommitReference } from "../core/commit-tokens.ts";
import type { Logger } from "../core/logger.ts";
import type { Storage } from "../core/ports.ts";
import type { AnyWorkflow } from "../core/workflow.ts";
import type { TraceContext } from "../system/tracing.ts";

/** The same for all calls of an outbox. */
export interface CommitContext<W extends AnyWorkflow> {
  readonly workflow: W;
  readonly storage: Storage;
  readonly clock: Clock;
  readonly random: () => number;
  readonly logger: Logger;
  readonly maxConflicts: number;
}

export interface ResolvedCommitOptions {
  readonly token: string;
  /** The attempts that this call repeats, because their outcome was unknown. Each of them may still land. */
  readonly repeats: readonly CommitReference[];
  readonly idempotencyRow: string | undefined;
  readonly expectedSequence: number | undefined;
  readonly trace: TraceContext | undefined;
  readonly signal: AbortSignal | undefined;
}

/** How the caller's signal reaches a storage call. */
export function callOptions({ signal }: Pick<ResolvedCommitOptions, "signal">): { readonly signal?: AbortSignal } {
  return signal === undefined ? {} : { signal };
}
