/**
 * Retention (F7): removes what is finished and old. Old is what the storage service says: neither our clock nor the time inside a ULID can
 * make it remove anything early.
 *
 * Never removed by age: pending events, outbox entities, orders, dead letters and the archived events that dead letters speak of.
 */
import { silentLogger, type Logger } from "../core/logger.ts";
import { wholeNumber, type NumberBounds } from "../core/options.ts";
import type { CallOptions, Storage } from "../core/ports.ts";
import { cleanArchive, cleanAudit, cleanIdempotency, cleanPayloads, type CleanupRun, type Removal } from "./cleanup-steps.ts";

export interface CleanerOptions {
  readonly storage: Storage;
  /** Archived events are kept this long after they were finished. Default 7; 1 to 3,650 days. */
  readonly archiveDays?: number;
  /** Archived events that an operator discarded. Default 30; 1 to 3,650 days. */
  readonly discardedDays?: number;
  /** Records of what operators did. Default 30; 1 to 3,650 days. */
  readonly auditDays?: number;
  /** How long a repeated command is answered from the result of the first. Default 7; 1 to 3,650 days. */
  readonly idempotencyDays?: number;
  readonly logger?: Logger;
}

export interface CleanupOptions extends CallOptions {
  /** Removes at most so many blobs and rows; the next run goes on. Default 10,000; 1 to 1,000,000. */
  readonly maxDeletes?: number;
  /** Counts what would be removed, and changes nothing. Default false. */
  readonly dryRun?: boolean;
  /** Is told after every batch; must not throw. */
  readonly onProgress?: (progress: CleanupProgress) => void;
}

export type CleanupStep = "idempotency" | "payloads" | "audit" | "archive";

export interface CleanupProgress {
  readonly step: CleanupStep;
  /** In this step so far. */
  readonly removed: number;
}

export interface CleanupResult {
  /** Removed in this run, or to be removed if it was a dry run. */
  readonly removed: Readonly<Record<CleanupStep, number>>;
  /** Names in `archive`, `audit` and `payloads` that are none of ours: left alone. */
  readonly foreign: number;
  /** False if something is left that a further run can look at. */
  readonly complete: boolean;
}

export interface Cleaner {
  /**
   * One bounded run. What it removed stays removed when it fails in between, and the next run goes on; several at once are harmless.
   *
   * Cost: lists of `archive`, `audit`, `payloads` and `dead` (5,000 names each, of `archive` 500), a bounded scan of the table; deletes of blobs are free. The
   * archived event of each skipped dead letter is written again every 30 days, so that no lifecycle rule of the account removes it by age.
   *
   * @throws `invalid-option`; what storage throws; `aborted`
   */
  clean(options?: CleanupOptions): Promise<CleanupResult>;
}

const DAYS = { min: 1, max: 3_650 } as const;

export const CLEANUP_BOUNDS: Readonly<
  Record<"archiveDays" | "discardedDays" | "auditDays" | "idempotencyDays" | "maxDeletes", NumberBounds>
> = {
  archiveDays: { default: 7, ...DAYS },
  discardedDays: { default: 30, ...DAYS },
  auditDays: { default: 30, ...DAYS },
  idempotencyDays: { default: 7, ...DAYS },
  maxDeletes: { default: 10_000, min: 1, max: 1_000_000 },
};

const DAY_MS = 24 * 60 * 60 * 1000;

/** @throws `invalid-option` */
export function createCleaner(options: CleanerOptions): Cleaner {
  const { storage, logger = silentLogger } = options;
  const days = (name: "archiveDays" | "discardedDays" | "auditDays" | "idempotencyDays"): number =>
    wholeNumber(name, options[name], CLEANUP_BOUNDS[name]) * DAY_MS;
  const archiveMs = days("archiveDays");
  const discardedMs = days("discardedDays");
  const auditMs = days("auditDays");
  const idempotencyMs = days("idempotencyDays");

  return {
    async clean({ maxDeletes, dryRun = false, onProgress, ...callOptions } = {}) {
      let left = wholeNumber("maxDeletes", maxDeletes, CLEANUP_BOUNDS.maxDeletes);
      const run = (step: CleanupStep): CleanupRun => {
        let removed = 0;
        return {
          storage,
          logger,
          dryRun,
          callOptions,
          left: () => left,
          removed(count) {
            left -= count;
            removed += count;
            onProgress?.({ step, removed });
          },
        };
      };
      // Small ones first, so that a long archive does not keep them waiting for ever.
      const idempotency = await cleanIdempotency(run("idempotency"), idempotencyMs);
      const payloads = await cleanPayloads(run("payloads"));
      const audit = await cleanAudit(run("audit"), auditMs);
      const archive = await cleanArchive(run("archive"), archiveMs, discardedMs);
      const steps: readonly Removal[] = [idempotency, payloads, audit, archive];
      return {
        removed: { idempotency: idempotency.removed, payloads: payloads.removed, audit: audit.removed, archive: archive.removed },
        foreign: steps.reduce((sum, step) => sum + step.foreign, 0),
        complete: steps.every((step) => step.complete),
      };
    },
  };
}
