/** Redriving an event that its stream has skipped: it is committed again for this one subscription, out of order by nature (F4, F9). */
import { OutboxError, printable } from "../core/errors.ts";
import { decodeEventBytes } from "../core/event.ts";
import { appendRedrive } from "./append-replay.ts";
import type { ChangeOptions, OperationsContext, Operator } from "./context.ts";
import type { ListedDeadLetter } from "./dead-letters.ts";
import type { DecisionResult } from "./decide.ts";
import { PassedLetter } from "./passed-letter.ts";
import { tryWakeUp } from "./wake.ts";

/**
 * Its own place in the stream is gone, so it runs after what was committed since, under a new id that names the old one. Repeated after a
 * crash it is committed once: the dead letter leaves the list only after that.
 *
 * @throws `not-found` if its bytes are no longer in the archive, or the order no longer in the table; `corrupt`, `conflict`
 */
export async function redriveSkipped(
  context: OperationsContext,
  listed: ListedDeadLetter,
  operator: Operator,
  options: ChangeOptions = {},
): Promise<DecisionResult> {
  const letter = new PassedLetter(context, listed, "redrive", operator);
  const { subscription, orderId, id } = letter.target;
  if (options.dryRun === true) return letter.result("would-record", "would be committed again, out of order");
  return letter.audited(async () => {
    const archived = await context.storage.blobs.read("archive", letter.name);
    if (archived === undefined) {
      throw new OutboxError(
        "not-found",
        `the bytes of event ${id} of order ${printable(orderId)} are not in the archive, so it can only be discarded`,
      );
    }
    if (archived.metadata["outcome"] !== "dead-lettered") {
      const outcome = printable(archived.metadata["outcome"] ?? "handled");
      return letter.result("finished", `it was ${outcome} after all: discard takes it off the list`);
    }
    const claim = await letter.claim(archived);
    if (claim?.action === "discard") return letter.claimedBy(claim);
    const record = await appendRedrive(context, decodeEventBytes(archived.bytes), subscription);
    if ("discarded" in record) return letter.claimedBy(record.discarded);
    const message = `out of order: committed again as event ${record.id}, sequence ${record.sequence}, after the events since sequence ${letter.sequence}`;
    // Who died before the wake-up repeats the command: the letter is what they find.
    if (!(await tryWakeUp(context, orderId))) {
      return letter.result("failed", `${message}; the wake-up could not be sent, so the letter stays: repeat the command`);
    }
    await letter.takeOffTheList();
    return letter.result("recorded", message);
  });
}
