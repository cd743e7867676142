import { encodeAuditRecord, type AuditRecord } from "../core/audit-record.ts";
import { isOutboxError } from "../core/errors.ts";
import { nextEventId, type EventId } from "../core/event-id.ts";
import type { Blobs } from "../core/ports.ts";

/**
 * Writes one audit record (G6), create-only.
 *
 * @param at wall clock in ms since 1970
 * @param after id of a record that this one is to stand behind
 * @returns its id
 */
export async function appendAuditRecord(
  { blobs, at, random }: { readonly blobs: Blobs; readonly at: number; readonly random: () => number },
  entry: Omit<AuditRecord, "id" | "at">,
  after: EventId | undefined,
): Promise<EventId> {
  const id = nextEventId(after, at, random);
  const { name, bytes } = encodeAuditRecord({ id, at: new Date(at).toISOString(), ...entry });
  try {
    await blobs.create("audit", name, bytes, {});
  } catch (error) {
    if (!isOutboxError(error, "already-exists")) throw error;
    // W11: a lost answer that the client repeated, or another's record under our name: only the bytes tell.
    const existing = await blobs.read("audit", name);
    if (existing === undefined || Buffer.compare(existing.bytes, bytes) !== 0) throw error;
  }
  return id;
}
