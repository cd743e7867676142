/**
 * What became of a skipped event that somebody decided to redrive: one row of its order. The redrive's transaction inserts it, and so does
 * whoever discards the letter after a redrive that came to nothing. So exactly one of them is in force, whenever the other one's request
 * arrives. The row lives at least as long as its letter (see cleanup), for so long may a command be repeated.
 */
import { OutboxError, printable } from "../core/errors.ts";
import { isEventId, type EventId } from "../core/event-id.ts";
import { operationRow, operationRowParts } from "../core/names.ts";
import type { Decision } from "../core/pending-event.ts";

/** The event that the redrive committed, or the decision that came before it. */
export type RedriveRecord = { readonly id: EventId; readonly sequence: number } | { readonly discarded: Decision };

const OPERATION = "redrive";

export function redriveRow(subscription: string, id: EventId): string {
  return operationRow(OPERATION, subscription, id);
}

/** Whose row it is, or undefined for any other row. */
export function redriveOfRow(rowKey: string): { readonly subscription: string; readonly id: EventId } | undefined {
  const [operation, subscription, id] = operationRowParts(rowKey) ?? [];
  return operation === OPERATION && subscription !== undefined && id !== undefined && isEventId(id) ? { subscription, id } : undefined;
}

/** Throws `corrupt` for anything but a {@link RedriveRecord} as JSON. */
export function parseRedriveRecord(text: string): RedriveRecord {
  try {
    const { id, sequence, discarded } = JSON.parse(text) as Record<string, unknown>;
    if (typeof id === "string" && isEventId(id) && Number.isSafeInteger(sequence)) return { id, sequence: sequence as number };
    const { actor, reason, at } = discarded as Record<keyof Decision, unknown>;
    return { discarded: { action: "discard", actor: String(actor), reason: String(reason), at: String(at) } };
  } catch (cause) {
    const what = `the record of a redrive holds ${printable(text, 80)}: it was written or changed by something else`;
    throw new OutboxError("corrupt", what, { cause });
  }
}
