/** Taking a dead letter off the list that its stream has passed: skipped, or finished by a worker that died before it tidied up. */
import { isOutboxError } from "../core/errors.ts";
import { encodeOrderId } from "../core/order-id.ts";
import type { ChangeOptions, OperationsContext, Operator } from "./context.ts";
import type { ListedDeadLetter } from "./dead-letters.ts";
import type { DecisionResult } from "./decide.ts";
import { PassedLetter } from "./passed-letter.ts";
import { parseRedriveRecord, redriveRow, type RedriveRecord } from "./redrive-record.ts";

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
      let claim = await letter.claim(archived);
      if (claim?.action === "redrive") {
        if (!(await forestallRedrive(context, letter))) return letter.claimedBy(claim);
        const again = await blobs.read("archive", name);
        claim = again && (await letter.claim(again, { over: "redrive" }));
      }
      if (claim !== undefined && !letter.isOwn(claim) && (await blobs.read("dead", name)) === undefined) return letter.claimedBy(claim);
    }
    await letter.takeOffTheList();
    return letter.result("dismissed", "it is off the list; its event stays as it is in the archive");
  });
}

/**
 * A redrive that was decided may have come to nothing: its process died, or the order takes no more events. Unless it has committed its event,
 * it is kept from doing so (see redrive-record.ts), and no longer stands in the way.
 *
 * @returns false if the event was committed again
 */
async function forestallRedrive({ storage }: OperationsContext, { target, decision }: PassedLetter): Promise<boolean> {
  const order = encodeOrderId(target.orderId);
  const row = redriveRow(target.subscription, target.id);
  try {
    await storage.orders.insertIdempotency(order, row, JSON.stringify({ discarded: decision } satisfies RedriveRecord));
    return true;
  } catch (error) {
    if (!isOutboxError(error, "already-exists")) throw error;
  }
  const stored = await storage.orders.readIdempotency(order, row);
  return stored !== undefined && "discarded" in parseRedriveRecord(stored);
}
