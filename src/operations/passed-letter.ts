/** A dead letter that its stream has passed: what discarding it and redriving it have in common (F4). */
import { printable } from "../core/errors.ts";
import { eventBlobName } from "../core/names.ts";
import { isSameDecision, type Decision } from "../core/pending-event.ts";
import type { BlobContent } from "../core/ports.ts";
import { audited } from "./audit-log.ts";
import { claimArchived } from "./claim.ts";
import { assertOperator, nowIso, type OperationsContext, type Operator } from "./context.ts";
import type { ListedDeadLetter } from "./dead-letters.ts";
import type { DecisionAction, DecisionResult, DecisionTarget } from "./decide.ts";

/** One operator's decision about one such letter. */
export class PassedLetter {
  readonly target: DecisionTarget;
  /** Of its blobs in `events`, `archive` and `dead` alike. */
  readonly name: string;
  readonly sequence: number;
  /** As this call would have it. */
  readonly decision: Decision;
  readonly #context: OperationsContext;

  /** Throws `invalid-option` for an operator without name or reason. */
  constructor(context: OperationsContext, letter: ListedDeadLetter, action: DecisionAction, operator: Operator) {
    assertOperator(operator);
    const { subscription, orderId, order, id, sequence } = letter;
    this.target = { subscription, orderId, id };
    this.name = eventBlobName(subscription, order, id);
    this.sequence = sequence;
    this.#context = context;
    this.decision = { action, ...operator, at: nowIso(context) };
  }

  result(outcome: DecisionResult["outcome"], message: string): DecisionResult {
    return { ...this.target, outcome, message };
  }

  /** Makes a change between its two records in the audit log. */
  audited(change: () => Promise<DecisionResult>): Promise<DecisionResult> {
    const { actor, reason, action } = this.decision;
    const { subscription, orderId, id: eventId } = this.target;
    const target = { subscription, orderId, eventId, sequence: this.sequence };
    return audited(this.#context, { actor, reason, action, target }, change);
  }

  /**
   * Marks the archived event as decided about. Undefined: it is gone; otherwise the decision that is in force, whoever made it.
   *
   * @param options `over`: a claim to this end counts for nothing any more
   */
  claim(archived: BlobContent, options: { readonly over?: DecisionAction } = {}): Promise<Decision | undefined> {
    return claimArchived(this.#context.storage.blobs, this.name, archived, this.decision, options);
  }

  isOwn(claim: Decision): boolean {
    return isSameDecision(claim, this.decision);
  }

  /** What somebody else made of it. */
  claimedBy(claim: Decision): DecisionResult {
    const who = `${printable(claim.actor)} ${claim.action === "redrive" ? "decided to redrive it" : "took it off the list"} at ${printable(claim.at)}`;
    return claim.action === "redrive"
      ? { ...this.result("already-decided", `${who}: nothing was changed`), decision: claim }
      : this.result("finished", who);
  }

  async takeOffTheList(): Promise<void> {
    await this.#context.storage.blobs.delete("dead", [this.name]);
  }
}
