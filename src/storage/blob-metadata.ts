/** Blob metadata travels in HTTP headers: what would be dropped, trimmed or refused there is refused here, before any request. */
import { OutboxError, printable } from "../core/errors.ts";
import type { Metadata } from "../core/ports.ts";

/** Names and values of a blob's metadata hold at most 8 KiB together. */
const MAX_METADATA_BYTES = 8 * 1024;

/**
 * The metadata as it is sent. Empty values are left out: HEAD and GET requests would drop them, listings would keep them, so that an empty
 * value means the same as none.
 *
 * Throws `bug` for metadata that would not come back as it is, `too-large` for more than {@link MAX_METADATA_BYTES}.
 */
export function checkedMetadata(metadata: Metadata, where: string): Record<string, string> {
  assertMetadata(metadata, where);
  return Object.fromEntries(Object.entries(metadata).filter(([, value]) => value !== ""));
}

function assertMetadata(metadata: Metadata, where: string): void {
  let bytes = 0;
  for (const [name, value] of Object.entries(metadata)) {
    // Names come back in lower case from HEAD requests but as they were written from listings.
    if (!/^[a-z_][a-z0-9_]*$/.test(name))
      throw new OutboxError("bug", `metadata name ${printable(name, 60)} of ${where} is no lower-case identifier`);
    if (!/^[\x20-\x7E]*$/.test(value) || value.trim() !== value) {
      throw new OutboxError("bug", `metadata ${name} of ${where} has characters outside visible ASCII, or spaces at an end`);
    }
    bytes += name.length + value.length;
  }
  if (bytes > MAX_METADATA_BYTES) {
    throw new OutboxError("too-large", `the metadata of ${where} has ${bytes} bytes, at most ${MAX_METADATA_BYTES} are allowed`);
  }
}

/** The SDK's metadata as ours, without empty values that another writer left. */
export function toMetadata(metadata: Readonly<Record<string, string>> | undefined): Metadata {
  return Object.fromEntries(Object.entries(metadata ?? {}).filter(([, value]) => value !== ""));
}

/** Listings give etags without quotes, everything else with them; conditions and comparisons need one form. */
export function toEtag(etag: string | undefined, what: string): string {
  if (etag === undefined) throw new OutboxError("storage", `${what}: the service answered without an etag`);
  return /^(?:W\/)?"/.test(etag) ? etag : `"${etag}"`;
}
