/** Blobs in memory; their age is counted by the given clock's monotonic time, as the service's own. */
import type { Clock } from "../../src/core/clock.ts";
import { OutboxError } from "../../src/core/errors.ts";
import type { Container } from "../../src/core/names.ts";
import type { BlobContent, ListedBlob, Metadata } from "../../src/core/ports.ts";
import { checkedMetadata } from "../../src/storage/blob-metadata.ts";
import { byCodeUnit, copy, type Etags } from "./memory-basics.ts";

interface StoredBlob {
  readonly content: BlobContent;
  readonly changedAt: number;
}

export class MemoryBlobs {
  readonly #clock: Clock;
  readonly #etags: Etags;
  readonly #containers = new Map<Container, Map<string, StoredBlob>>();

  constructor(clock: Clock, etags: Etags) {
    this.#clock = clock;
    this.#etags = etags;
  }

  create(container: Container, name: string, bytes: Uint8Array, metadata: Metadata): string {
    const checked = checkedMetadata(metadata, `blob ${container}/${name}`);
    if (this.read(container, name) !== undefined)
      throw new OutboxError("already-exists", `blob ${container}/${name}`, { details: { status: 409 } });
    return this.put(container, name, bytes, checked);
  }

  read(container: Container, name: string): BlobContent | undefined {
    return this.#containers.get(container)?.get(name)?.content;
  }

  list(container: Container, prefix: string): readonly ListedBlob[] {
    const now = this.#clock.monotonic();
    return this.#sorted(container)
      .filter(([name]) => name.startsWith(prefix))
      .map(([name, { content, changedAt }]) => {
        const { bytes, etag, metadata } = content;
        return { name, ageMs: now - changedAt, sizeBytes: bytes.length, etag, metadata };
      });
  }

  writeMetadata(container: Container, name: string, metadata: Metadata, etag: string): string {
    const checked = checkedMetadata(metadata, `blob ${container}/${name}`);
    const blob = this.read(container, name);
    if (blob === undefined) throw new OutboxError("not-found", `blob ${container}/${name}`, { details: { status: 404 } });
    if (blob.etag !== etag) throw new OutboxError("precondition-failed", `blob ${container}/${name}`, { details: { status: 412 } });
    return this.put(container, name, blob.bytes, checked);
  }

  deleteUnchanged(container: Container, name: string, etag: string): void {
    if (this.read(container, name)?.etag === etag) this.delete(container, [name]);
  }

  delete(container: Container, names: readonly string[]): void {
    for (const name of names) this.#containers.get(container)?.delete(name);
  }

  put(container: Container, name: string, bytes: Uint8Array, metadata: Metadata): string {
    const blobs = this.#containers.get(container) ?? new Map<string, StoredBlob>();
    this.#containers.set(container, blobs);
    const etag = this.#etags.next();
    blobs.set(name, { content: copy({ bytes, metadata, etag }), changedAt: this.#clock.monotonic() });
    return etag;
  }

  entries(container: Container): ReadonlyArray<readonly [string, BlobContent]> {
    return this.#sorted(container).map(([name, { content }]) => [name, content]);
  }

  #sorted(container: Container): ReadonlyArray<readonly [string, StoredBlob]> {
    return [...(this.#containers.get(container) ?? [])].sort(([a], [b]) => byCodeUnit(a, b));
  }
}
