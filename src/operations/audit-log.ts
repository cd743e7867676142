/**
 * What operators did (G6): create-only blobs `audit/{yyyy-mm-dd}/{ULID}.json`.
 *
 * Every change leaves two records: one *before* it takes effect, with the outcome `intended`, and one after it with what became of it, which
 * names the first one. An operator's process that dies in between leaves the intention behind, never a change without a record. A change
 * whose intention can't be recorded is not made.
 */
import type { AuditAction, AuditRecord, AuditTarget } from "../core/audit-record.ts";
import { describeError } from "../core/errors.ts";
import type { EventId } from "../core/event-id.ts";
import { silentLogger } from "../core/logger.ts";
import { appendAuditRecord } from "../system/append-audit-record.ts";
import { assertOperator, clockOf, type OperationsContext, type Operator } from "./context.ts";

/**
 * Makes a change between its two records.
 *
 * @param change resolves to its outcome, which is what the audit log says about it
 * @throws `invalid-option` for an operator without name or reason; what the first record or the change throws. The outcome of a change that
 *   threw is recorded too. A second record that can't be written is logged: the intention is there.
 */
export async function audited<Result extends { readonly outcome: string }>(
  context: OperationsContext,
  entry: Operator & { readonly action: AuditAction; readonly target: AuditTarget },
  change: () => Promise<Result>,
): Promise<Result> {
  assertOperator(entry);
  const { actor, reason, action, target } = entry;
  const base = { actor, reason, action, target };
  const intention = await append(context, { ...base, outcome: "intended" }, undefined);
  const conclude = async (outcome: string): Promise<void> => {
    try {
      await append(context, { ...base, outcome, intention }, intention);
    } catch (error) {
      const { logger = silentLogger } = context;
      logger.error("the outcome of a change could not be recorded; its intention is in the audit log", {
        action,
        outcome,
        intention,
        error: describeError(error),
      });
    }
  };
  let result: Result;
  try {
    result = await change();
  } catch (error) {
    await conclude(`failed: ${describeError(error)}`);
    throw error;
  }
  await conclude(result.outcome);
  return result;
}

function append(context: OperationsContext, entry: Omit<AuditRecord, "id" | "at">, after: EventId | undefined): Promise<EventId> {
  const { storage, random = Math.random } = context;
  return appendAuditRecord({ blobs: storage.blobs, at: clockOf(context).now(), random }, entry, after);
}
