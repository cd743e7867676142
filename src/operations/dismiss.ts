/** Taking a dead letter off the list that its stream has passed: skipped, or finished by a worker that died before it tidied up. */
import { printable } from "../core/errors.ts";
import { eventBlobName } from "../core/names.ts";
import type { Decision } from "../core/pending-event.ts";
import { audited } from "./audit-log.ts";
import { claimArchived } from "./claim.ts";
import { nowIso, type OperationsContext, type Operator } from "./context.ts";
import type { ListedDeadLetter } from "./dead-letters.ts";
import type { DecisionResult, DecisionTarget } from "./decide.ts";

/** The worker is done with the event, so no lease is needed. A skipped event stays in the archive and is marked there: see claim.ts. */
export async function dismiss(
  context: OperationsContext,
  letter: ListedDeadLetter,
  operator: Operator,
  options: { readonly dryRun?: boolean } = {},
): Promise<DecisionResult> {
  const { subscription, orderId, order, id, sequence } = letter;
  const target: DecisionTarget = { subscription, orderId, id };
  const name = eventBlobName(subscription, order, id);
  const { blobs } = context.storage;
  const lost = async (): Promise<boolean> =>
    (await blobs.read("events", name)) === undefined && (await blobs.read("archive", name)) === undefined;
  if (options.dryRun === true) {
    if (await lost()) return lostEvent(target);
    return { ...target, outcome: "would-record", message: "would be taken off the list" };
  }
  return audited(context, { ...operator, action: "discard", target: { subscription, orderId, eventId: id, sequence } }, async () => {
    const archived = await blobs.read("archive", name);
    // The letter is the only trace that is left: it stays.
    if (archived === undefined && (await lost())) return lostEvent(target);
    if (archived?.metadata["outcome"] === "dead-lettered") {
      const wanted: Decision = { action: "discard", ...operator, at: nowIso(context.clock) };
      const claim = await claimArchived(blobs, name, archived, wanted);
      if (claim?.action === "redrive") return claimedResult(target, claim);
      const isOwn = claim === undefined || (claim.at === wanted.at && claim.actor === wanted.actor);
      if (!isOwn && (await blobs.read("dead", name)) === undefined) return claimedResult(target, claim);
    }
    await blobs.delete("dead", [name]);
    return { ...target, outcome: "dismissed", message: "it is off the list; its event stays as it is in the archive" };
  });
}

/** What somebody else made of an event that its stream has skipped. */
export function claimedResult(target: DecisionTarget, claim: Decision): DecisionResult {
  const who = `${printable(claim.actor)} ${claim.action === "redrive" ? "decided to redrive it" : "took it off the list"} at ${printable(claim.at)}`;
  return claim.action === "redrive"
    ? { ...target, outcome: "already-decided", message: `${who}: nothing was changed`, decision: claim }
    : { ...target, outcome: "finished", message: who };
}

function lostEvent(target: DecisionTarget): DecisionResult {
  const message = "its event is neither pending nor in the archive, so the letter stays: see `ordered-outbox verify` (gap)";
  return { ...target, outcome: "failed", message };
}
