/**
 * Makes bundles (core/archive-bundle.ts) look like the single blobs that they stand for: whoever lists or reads the archive meets events, each
 * once, and need not know how they were written. Everything else passes through.
 *
 * An event may be in two places: its holder died, the next one archived it alone, and the write of the dead one came late; or the other way
 * round. The bytes are the same. Then the single blob is the one that counts, in listings as in reads (W13).
 */
import { archivedMetadata, decodeBundleIndex, memberBytes } from "../core/archive-bundle.ts";
import { isOutboxError, OutboxError } from "../core/errors.ts";
import type { EventId } from "../core/event-id.ts";
import { eventIdOfBlob, eventNameBelow, mayHaveBundles, parseBundleName, prefixOf, type BundleName } from "../core/names.ts";
import type { BlobContent, Blobs, CallOptions, ListedBlob, ListOptions } from "../core/ports.ts";
import { BundleBodies } from "./bundle-bodies.ts";

/** How many bundles are remembered, so that events that are read one after another don't cost a listing each. */
const MAX_REMEMBERED = 256;
/** Of how many events a listing is remembered to have told that they are in a bundle, and for how long. */
const MAX_TOLD = 5_000;
const TOLD_MS = 10_000;
/** How many events a listing holds back: those of a hundred bundles that overlap. Dead holders leave a few of them at most. */
const MAX_HELD = 10_000;

/**
 * @param blobs as they are in the account
 * @param now milliseconds that only grow
 */
export function withBundles(blobs: Blobs, now: () => number = () => performance.now()): Blobs {
  const archive = new ArchiveReader(blobs, now);
  return {
    create: (container, name, ...args) => {
      if (container === "archive") archive.forget([name]);
      return blobs.create(container, name, ...args);
    },
    deleteUnchanged: (container, name, ...args) => {
      if (container === "archive") archive.forget([name]);
      return blobs.deleteUnchanged(container, name, ...args);
    },
    delete: (container, names, options) => {
      if (container === "archive") archive.forget(names);
      return blobs.delete(container, names, options);
    },
    list: (container, prefix, options) =>
      container === "archive" ? archive.list(prefix, options) : blobs.list(container, prefix, options),

    async read(container, name, options) {
      if (container !== "archive") return blobs.read(container, name, options);
      return (await archive.readTold(name, options)) ?? (await blobs.read(container, name, options)) ?? archive.readMember(name, options);
    },

    async writeMetadata(container, name, metadata, etag, options) {
      try {
        return await blobs.writeMetadata(container, name, metadata, etag, options);
      } catch (error) {
        if (container !== "archive" || !isOutboxError(error, "not-found", "precondition-failed")) throw error;
        if ((await blobs.read(container, name, options)) !== undefined) throw error;
        if ((await archive.readMember(name, options)) === undefined) throw error;
        // Only what was dead-lettered is ever marked, and that is in no bundle.
        throw new OutboxError("bug", `archive/${name} is in a bundle, which has no metadata for it alone`, { cause: error });
      }
    },
  };
}

class ArchiveReader {
  readonly #blobs: Blobs;
  readonly #now: () => number;
  readonly #bodies: BundleBodies;
  /** Bundles that were there a while ago, the latest last. One that is gone does no harm. */
  readonly #remembered = new Map<string, BundleName>();
  /** Events of which a listing has just told that they have no blob of their own, and which bundle they are in; the latest last. */
  readonly #told = new Map<string, { readonly bundle: string; readonly sinceMs: number }>();

  constructor(blobs: Blobs, now: () => number) {
    this.#blobs = blobs;
    this.#now = now;
    this.#bodies = new BundleBodies(blobs, now);
  }

  /** By whoever changes them. */
  forget(names: readonly string[]): void {
    for (const name of names) {
      this.#told.delete(name);
      this.#bodies.forget(name);
    }
  }

  /** A bundle comes before its members by its name, `-` before `.`: so they can still be put in their places, and few are held at a time. */
  async *list(prefix: string, options: ListOptions | undefined): AsyncGenerator<ListedBlob> {
    let held: ListedBlob[] = [];
    let heldPrefix = "";
    for await (const blob of this.#blobs.list("archive", prefix, options)) {
      // Beyond their stream nothing can come that is before them.
      const isBeyond = !blob.name.startsWith(heldPrefix);
      const count = isBeyond ? held.length : held.findIndex(({ name }) => name >= blob.name);
      yield* this.#tell(held.splice(0, count < 0 ? held.length : count));
      const members = held.length < MAX_HELD ? this.#membersOf(blob) : undefined;
      if (members !== undefined) {
        heldPrefix = members.prefix;
        held = merged(
          held,
          members.blobs.filter(({ name }) => name.startsWith(prefix)),
        );
      } else {
        const twin = held[0]?.name === blob.name ? held.shift() : undefined;
        yield twin?.bundle === undefined ? blob : { ...blob, alsoIn: twin.bundle.name };
      }
    }
    yield* this.#tell(held);
  }

  *#tell(members: readonly ListedBlob[]): Generator<ListedBlob> {
    for (const member of members) {
      this.#told.delete(member.name);
      this.#told.set(member.name, { bundle: member.bundle!.name, sinceMs: this.#now() });
      if (this.#told.size > MAX_TOLD) this.#told.delete(this.#told.keys().next().value!);
      yield member;
    }
  }

  /** Undefined for a blob that stands for itself: an event's own one, or a foreign one. */
  #membersOf(blob: ListedBlob): { readonly prefix: string; readonly blobs: readonly ListedBlob[] } | undefined {
    const parsed = parseBundleName(blob.name);
    const index = parsed && decodeBundleIndex(blob.name, blob.metadata);
    if (parsed === undefined || index === undefined) return undefined;
    this.#remember(blob.name, parsed);
    const { prefix } = parsed;
    const { members } = index;
    const names = members.map(({ id }) => eventNameBelow(prefix, id));
    const bundle = { name: blob.name, members: names, torn: blob.sizeBytes !== index.bodyBytes };
    return {
      prefix,
      blobs: members.map((member, at) => ({
        name: names[at]!,
        ageMs: blob.ageMs,
        sizeBytes: member.length,
        etag: blob.etag,
        metadata: archivedMetadata(member, "handled"),
        bundle,
      })),
    };
  }

  /** Undefined as well if nothing was told of it, or not lately: a blob of its own, which counts, may have come since. */
  async readTold(name: string, options: CallOptions | undefined): Promise<BlobContent | undefined> {
    const told = this.#told.get(name);
    if (told === undefined || this.#now() - told.sinceMs >= TOLD_MS) return undefined;
    const id = eventIdOfBlob(name, prefixOf(name));
    return id && this.#cut(told.bundle, id, options);
  }

  async readMember(name: string, options: CallOptions | undefined): Promise<BlobContent | undefined> {
    const prefix = prefixOf(name);
    const id = eventIdOfBlob(name, prefix);
    if (id === undefined || !mayHaveBundles(prefix)) return undefined;
    const tried = new Set<string>();
    const from = async (bundle: string, parsed: BundleName): Promise<BlobContent | undefined> => {
      if (tried.has(bundle) || parsed.prefix !== prefix || id < parsed.first || id > parsed.last) return undefined;
      tried.add(bundle);
      return this.#cut(bundle, id, options);
    };
    for (const [bundle, parsed] of Array.from(this.#remembered)) {
      const found = await from(bundle, parsed);
      if (found !== undefined) return found;
    }
    for await (const blob of this.#blobs.list("archive", prefix, options)) {
      const parsed = parseBundleName(blob.name);
      const found = parsed && (await from(blob.name, parsed));
      if (found !== undefined) {
        this.#remember(blob.name, parsed!);
        return found;
      }
    }
    return undefined;
  }

  async #cut(bundle: string, id: EventId, options: CallOptions | undefined): Promise<BlobContent | undefined> {
    const blob = await this.#bodies.read(bundle, options);
    if (blob === undefined) {
      this.#remembered.delete(bundle);
      return undefined;
    }
    const index = decodeBundleIndex(bundle, blob.metadata);
    const member = index?.members.find((each) => each.id === id);
    const bytes = member && memberBytes(blob.bytes, index!, member);
    return bytes && { bytes, etag: blob.etag, metadata: archivedMetadata(member, "handled") };
  }

  #remember(name: string, parsed: BundleName): void {
    this.#remembered.delete(name);
    this.#remembered.set(name, parsed);
    if (this.#remembered.size > MAX_REMEMBERED) this.#remembered.delete(this.#remembered.keys().next().value!);
  }
}

/** Of two lists in the order of names; what both have is taken from the first. */
function merged(first: readonly ListedBlob[], second: readonly ListedBlob[]): ListedBlob[] {
  const all: ListedBlob[] = [];
  let at = 0;
  for (const blob of second) {
    while (at < first.length && first[at]!.name < blob.name) all.push(first[at++]!);
    if (first[at]?.name !== blob.name) all.push(blob);
  }
  return [...all, ...first.slice(at)];
}
