import { archivedMetadata, decodeBundleIndex, memberBytes } from "../../src/core/archive-bundle.ts";
import { eventNameBelow, parseBundleName } from "../../src/core/names.ts";
import type { BlobContent } from "../../src/core/ports.ts";
import { byCodeUnit } from "./memory-basics.ts";
import type { MemoryStorage } from "./memory-storage.ts";

/** What `blobEntries("archive")` has, with the events of each bundle in its place. A bundle that can't be read stays as it is. */
export function archivedEntries(storage: MemoryStorage): ReadonlyArray<readonly [name: string, blob: BlobContent]> {
  const events = new Map<string, BlobContent>();
  for (const [name, blob] of storage.blobEntries("archive")) {
    const index = decodeBundleIndex(name, blob.metadata);
    if (index === undefined) events.set(name, blob);
    for (const member of index?.members ?? []) {
      const { prefix } = parseBundleName(name)!;
      const bytes = memberBytes(blob.bytes, index!, member)!;
      events.set(eventNameBelow(prefix, member.id), { bytes, etag: blob.etag, metadata: archivedMetadata(member, "handled") });
    }
  }
  return [...events].sort(([a], [b]) => byCodeUnit(a, b));
}

/** Gives each archived event a blob of its own, as if it had been the only one of its round. */
export function unbundle(storage: MemoryStorage): void {
  const events = archivedEntries(storage);
  for (const [name] of storage.blobEntries("archive")) storage.deleteBlob("archive", name);
  for (const [name, { bytes, metadata }] of events) storage.putBlob("archive", name, bytes, metadata);
}
