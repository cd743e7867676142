/** Taking a dead letter off the list that its stream has passed: skipped, or finished by a worker that died before it tidied up. */
import type { ChangeOptions, OperationsContext, Operator } from "./context.ts";
import type { ListedDeadLetter } from "./dead-letters.ts";
import type { DecisionResult } from "./decide.ts";
import { PassedLetter } from "./passed-letter.ts";

const LOST = "its event is neither pending nor in the archive, so the letter stays: see `ordered-outbox verify` (gap)";

/** The worker is done with the event, so no lease is needed. A skipped event stays in the archive and is marked there: see claim.ts. */
export async function dismiss(
  context: OperationsContext,
  listed: ListedDeadLetter,
  operator: Operator,
  options: ChangeOptions = {},
): Promise<DecisionResult> {
  const letter = new PassedLetter(context, listed, "discard", operator);
  const { name } = letter;
  const { blobs } = context.storage;
  const lost = async (): Promise<boolean> =>
    (await blobs.read("events", name)) === undefined && (await blobs.read("archive", name)) === undefined;
  if (options.dryRun === true) {
    return (await lost()) ? letter.result("failed", LOST) : letter.result("would-record", "would be taken off the list");
  }
  return letter.audited(async () => {
    const archived = await blobs.read("archive", name);
    // The letter is the only trace that is left: it stays.
    if (archived === undefined && (await lost())) return letter.result("failed", LOST);
    if (archived?.metadata["outcome"] === "dead-lettered") {
      const claim = await letter.claim(archived);
      if (claim?.action === "redrive") return letter.claimedBy(claim);
      if (claim !== undefined && !letter.isOwn(claim) && (await blobs.read("dead", name)) === undefined) return letter.claimedBy(claim);
    }
    await letter.takeOffTheList();
    return letter.result("dismissed", "it is off the list; its event stays as it is in the archive");
  });
}
