/**
 * What a run of a replay has committed already: one idempotency row a batch, in the same transaction as the events (C2). So whoever repeats
 * the run, after a kill, a lost answer or beside another operator, reads them before it commits, and the order's etag holds in between.
 */
import { OutboxError, printable } from "../core/errors.ts";
import { isEventId, type EventId } from "../core/event-id.ts";
import { operationRow, operationRowParts, type RowRange } from "../core/names.ts";
import type { OrderKey } from "../core/order-id.ts";
import type { OrdersTable } from "../core/ports.ts";

/** Cleanup keeps marks at least so long, however short it is told to keep the results of other commands. */
export const MARKS_KEPT_MS: number = 30 * 24 * 60 * 60 * 1000;

export interface RunName {
  readonly subscription: string;
  readonly run: string;
}

export interface Marks {
  /** Original events that the run has committed again, with the token of the call that did. */
  readonly tokens: ReadonlyMap<EventId, string>;
  /** The newest of them: nothing before it can be replayed in order any more. */
  readonly last: EventId | undefined;
}

const OPERATION = "replay";

export function isReplayMark(rowKey: string): boolean {
  return operationRowParts(rowKey)?.[0] === OPERATION;
}

/** @param first original event of the batch */
export function markRow({ subscription, run }: RunName, first: EventId): string {
  return operationRow(OPERATION, subscription, run, first);
}

export function markText(originals: readonly EventId[], token: string): string {
  return JSON.stringify({ token, originals });
}

/** @throws `corrupt` for a row that {@link markText} did not write */
export async function readMarks(orders: OrdersTable, order: OrderKey, name: RunName): Promise<Marks> {
  const rows = await orders.listEntities(order, markRange(name));
  const tokens = new Map<EventId, string>();
  for (const { rowKey, properties } of rows) {
    const { token, originals } = parseMark(rowKey, properties["result"]);
    for (const id of originals) tokens.set(id, token);
  }
  const last = [...tokens.keys()].reduce<EventId | undefined>((most, id) => (most === undefined || id > most ? id : most), undefined);
  return { tokens, last };
}

function parseMark(rowKey: string, text: unknown): { readonly token: string; readonly originals: readonly EventId[] } {
  try {
    const { token, originals } = JSON.parse(String(text)) as { token: unknown; originals: unknown };
    if (typeof token === "string" && Array.isArray(originals) && originals.every((id) => typeof id === "string" && isEventId(id))) {
      return { token, originals };
    }
    throw new Error("not a token and ids");
  } catch (cause) {
    throw new OutboxError("corrupt", `row ${printable(rowKey)} is no mark of a replay: it was written or changed by something else`, {
      cause,
    });
  }
}

/** What follows the prefix is a ULID: digits and capitals. */
function markRange({ subscription, run }: RunName): RowRange {
  const from = operationRow(OPERATION, subscription, run, "");
  return { from, to: `${from}~` };
}
