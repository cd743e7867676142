/** Records of changes that somebody made (G6): their names and bytes in the container `audit`. */
import type { EventId } from "./event-id.ts";

export type AuditAction = "redrive" | "discard" | "pause" | "resume" | "wake" | "unlock" | "cleanup" | "replay" | "backfill";

/** What was acted on; what does not apply is left out. */
export interface AuditTarget {
  readonly subscription?: string;
  readonly orderId?: string;
  readonly eventId?: EventId;
  readonly sequence?: number;
  /** Name of the run, of a replay. */
  readonly run?: string;
}

export interface AuditRecord {
  readonly id: EventId;
  /** ISO 8601. */
  readonly at: string;
  /** Who made the change: an operator, or a worker that a handler told to. */
  readonly actor: string;
  readonly reason: string;
  readonly action: AuditAction;
  readonly target: AuditTarget;
  /** `intended`, or what became of it. */
  readonly outcome: string;
  /** On the record of an outcome: id of the intention. */
  readonly intention?: EventId;
}

/** Create-only: `{yyyy-mm-dd}/{ULID}.json`. */
export function encodeAuditRecord(record: AuditRecord): { readonly name: string; readonly bytes: Uint8Array } {
  return { name: `${record.at.slice(0, "yyyy-mm-dd".length)}/${record.id}.json`, bytes: new TextEncoder().encode(JSON.stringify(record)) };
}
