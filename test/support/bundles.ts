import { encodeBundle, type BundleMember } from "../../src/core/archive-bundle.ts";
import type { Blobs, ListedBlob } from "../../src/core/ports.ts";
import { eventId } from "../contract/harness.ts";

/** An event that was archived in a bundle, as {@link eventId} numbers them. */
export function bundleMember(number: number, changes: Partial<BundleMember> = {}): BundleMember {
  const bytes = new TextEncoder().encode(`{"n":${number}}`);
  return { id: eventId(number), sequence: number, previous: number - 1, attempts: 1, finishedAtMs: 1_767_225_600_000, bytes, ...changes };
}

/** Writes a bundle of these events, as the archiver does; returns its name. */
export async function writeBundle(blobs: Blobs, prefix: string, numbers: readonly number[]): Promise<string> {
  const members = numbers.map((number) => bundleMember(number));
  const { name, bytes, metadata } = encodeBundle(prefix, members);
  await blobs.create("archive", name, bytes, metadata);
  return name;
}

export async function listArchive(blobs: Blobs, prefix: string): Promise<readonly ListedBlob[]> {
  return Array.fromAsync(blobs.list("archive", prefix));
}
