/** Reading the audit log: who changed what, when and why (G6). */
import type { AuditRecord } from "../core/audit-record.ts";
import { isEventId, type EventId } from "../core/event-id.ts";
import { eventTimeMs } from "../core/event-time.ts";
import { wholeNumber, type NumberBounds } from "../core/options.ts";
import { clockOf, type OperationsContext } from "./context.ts";
import { inLanes } from "./lanes.ts";

export interface AuditFilter {
  /** Only records of at most this age, by the clock of the operator who made them. Default: all that retention has left. */
  readonly sinceMs?: number | undefined;
  /** Only what was done to this order. */
  readonly orderId?: string | undefined;
  /** At most so many records, the newest. Default 100; 1 to 10,000. */
  readonly limit?: number | undefined;
}

export interface AuditListing {
  /** The newest first. Of a change that has come to its end the record of its outcome alone; `intended`: its process died, or it runs. */
  readonly records: readonly AuditRecord[];
  /** Names below `audit/` that are none of ours, or hold something else. */
  readonly foreign: readonly string[];
  /** False if the limit left older ones out. */
  readonly complete: boolean;
}

export const AUDIT_LIMIT: NumberBounds = { default: 100, min: 1, max: 10_000 };

const NAME = /^\d{4}-\d{2}-\d{2}\/([^/]+)\.json$/;
const LANES = 16;

/** Costs one listing of `audit/`, and one read for every record that is looked at. Throws `invalid-option` for a bad limit. */
export async function listAudit(context: OperationsContext, filter: AuditFilter = {}): Promise<AuditListing> {
  const { sinceMs = Number.POSITIVE_INFINITY, orderId } = filter;
  const limit = wholeNumber("limit", filter.limit, AUDIT_LIMIT);
  const fromMs = clockOf(context).now() - sinceMs;
  const foreign: string[] = [];
  const names: { readonly name: string; readonly id: EventId }[] = [];
  for await (const { name } of context.storage.blobs.list("audit", "")) {
    const id = NAME.exec(name)?.[1] ?? "";
    if (!isEventId(id)) foreign.push(name);
    else if (eventTimeMs(id) >= fromMs) names.push({ name, id });
  }
  names.sort((a, b) => (a.id < b.id ? 1 : -1));
  const records: AuditRecord[] = [];
  // An outcome is newer than its intention.
  const concluded = new Set<EventId>();
  for (let from = 0; from < names.length; from += LANES) {
    const read = await inLanes(names.slice(from, from + LANES), LANES, async ({ name }) => ({
      name,
      record: await readRecord(context, name),
    }));
    for (const { name, record } of read) {
      if (record === "gone") continue;
      if (record === undefined) {
        foreign.push(name);
        continue;
      }
      if (record.intention !== undefined) concluded.add(record.intention);
      if (concluded.has(record.id) || (orderId !== undefined && record.target.orderId !== orderId)) continue;
      if (records.length === limit) return { records, foreign, complete: false };
      records.push(record);
    }
  }
  return { records, foreign, complete: true };
}

/** `gone`: removed by retention meanwhile. Undefined for what is none of ours. */
async function readRecord({ storage }: OperationsContext, name: string): Promise<AuditRecord | "gone" | undefined> {
  const blob = await storage.blobs.read("audit", name);
  if (blob === undefined) return "gone";
  try {
    const value = JSON.parse(new TextDecoder().decode(blob.bytes)) as Partial<AuditRecord> | null;
    const texts = [value?.at, value?.action, value?.actor, value?.reason, value?.outcome];
    const isOurs = texts.every((text) => typeof text === "string") && typeof value?.target === "object" && value.target !== null;
    return isOurs ? (value as AuditRecord) : undefined;
  } catch {
    return undefined;
  }
}
