/** Redriving an event that its stream has skipped: it is committed again for this one subscription, out of order by nature (F4, F9). */
import { OutboxError, printable } from "../core/errors.ts";
import { decodeEventBytes } from "../core/event.ts";
import { eventBlobName } from "../core/names.ts";
import { appendReplay } from "./append-replay.ts";
import { audited } from "./audit-log.ts";
import { claimArchived } from "./claim.ts";
import { nowIso, type OperationsContext, type Operator } from "./context.ts";
import type { ListedDeadLetter } from "./dead-letters.ts";
import type { DecisionResult, DecisionTarget } from "./decide.ts";
import { claimedResult } from "./dismiss.ts";
import { tryWakeUp } from "./wake.ts";

/**
 * Its own place in the stream is gone, so it runs after what was committed since, under a new id that names the old one. Repeated after a
 * crash it is committed once: the dead letter leaves the list only after that.
 *
 * @throws `not-found` if its bytes are no longer in the archive, or the order no longer in the table; `corrupt`, `conflict`
 */
export async function redriveSkipped(
  context: OperationsContext,
  letter: ListedDeadLetter,
  operator: Operator,
  options: { readonly dryRun?: boolean } = {},
): Promise<DecisionResult> {
  const { subscription, orderId, order, id, sequence } = letter;
  const target: DecisionTarget = { subscription, orderId, id };
  const { blobs } = context.storage;
  const name = eventBlobName(subscription, order, id);
  if (options.dryRun === true) return { ...target, outcome: "would-record", message: "would be committed again, out of order" };
  return audited(context, { ...operator, action: "redrive", target: { subscription, orderId, eventId: id, sequence } }, async () => {
    const archived = await blobs.read("archive", name);
    if (archived === undefined) {
      throw new OutboxError("not-found", `the bytes of event ${id} of order ${printable(orderId)} are not in the archive`);
    }
    if (archived.metadata["outcome"] !== "dead-lettered") {
      const outcome = printable(archived.metadata["outcome"] ?? "handled");
      return { ...target, outcome: "finished", message: `it was ${outcome} after all: discard takes it off the list` };
    }
    const claim = await claimArchived(blobs, name, archived, { action: "redrive", ...operator, at: nowIso(context.clock) });
    if (claim?.action === "discard") return claimedResult(target, claim);
    const replayed = await appendReplay(context, decodeEventBytes(archived.bytes), subscription, "redrive");
    const message = `out of order: committed again as event ${replayed.id}, sequence ${replayed.sequence}, after the events since sequence ${sequence}`;
    // Who died before the wake-up repeats the command: the letter is what they find.
    if (!(await tryWakeUp(context, orderId))) {
      return {
        ...target,
        outcome: "failed",
        message: `${message}; the wake-up could not be sent, so the letter stays: repeat the command`,
      };
    }
    await blobs.delete("dead", [name]);
    return { ...target, outcome: "recorded", message };
  });
}
