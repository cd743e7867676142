/** What the table service takes (https://learn.microsoft.com/rest/api/storageservices/understanding-the-table-service-data-model). */

/** A string property holds at most 32,768 UTF-16 units; we stay below, reports from the field put the real bound a little lower. */
export const MAX_PROPERTY_UNITS = 32_000;
/** An entity holds at most 1 MiB, names and keys included; strings count two bytes a unit. */
export const MAX_ENTITY_BYTES = 1_000_000;
/** A transaction holds at most 4 MiB of request body. */
export const MAX_TRANSACTION_BYTES = 4_000_000;
/** A transaction holds at most 100 operations. */
export const MAX_TRANSACTION_OPERATIONS = 100;
/** Event texts above this many UTF-16 units go to a blob: ten chunks leave room for a full transaction of ordinary events. */
export const MAX_INLINE_EVENT_UNITS: number = 10 * MAX_PROPERTY_UNITS;
/** One upload request holds at most this much; bigger payloads belong into a blob of the application's own. */
export const MAX_EVENT_BYTES: number = 100 * 1024 * 1024;

/** `text` in pieces of at most `size` units that never fall inside a surrogate pair. */
export function chunkText(text: string, size: number): string[] {
  const chunks: string[] = [];
  let start = 0;
  while (start < text.length) {
    let end = Math.min(start + size, text.length);
    const last = text.charCodeAt(end - 1);
    if (end < text.length && last >= 0xd800 && last <= 0xdbff) end -= 1;
    chunks.push(text.slice(start, end));
    start = end;
  }
  return chunks;
}
