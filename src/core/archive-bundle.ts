/**
 * Events of one stream that were archived by one write: a blob named by the first and the last of them. Its body is the bytes of each event as
 * they are, with a line feed after each; its metadata is an index, so that a listing tells every member and no body has to be read for it.
 * Members are cut out by the lengths in the index, never by looking for line feeds.
 *
 * W13. Only what was plainly handled is archived so: `handled` is what a member's outcome is, and nobody has decided about it.
 */
import { OutboxError } from "./errors.ts";
import { isEventId, type EventId } from "./event-id.ts";
import { bundleName, parseBundleName } from "./names.ts";
import type { Metadata } from "./ports.ts";

export const BUNDLE_CONTENT_TYPE = "application/x-ndjson";

/** One event that goes into a bundle. */
export interface BundleMember extends MemberRecord {
  readonly bytes: Uint8Array;
}

/** What the index tells of a member. */
export interface IndexedMember extends MemberRecord {
  /** Where its bytes begin in the body. */
  readonly start: number;
  readonly length: number;
}

interface MemberRecord {
  readonly id: EventId;
  readonly sequence: number;
  readonly previous: number;
  readonly attempts: number;
  /** Whole milliseconds since 1970. */
  readonly finishedAtMs: number;
}

export interface BundleIndex {
  /** Oldest first. */
  readonly members: readonly IndexedMember[];
  /** How big the body is, if it is whole. */
  readonly bodyBytes: number;
}

const MAX_MEMBERS = 100;
/** Of the body. A bigger event is archived alone. */
const MAX_BODY_BYTES = 1024 * 1024;
/** A blob's metadata has room for 8 KiB. */
const MAX_INDEX_LENGTH = 7 * 1024;
/** The last time that a date can tell. */
const MAX_TIME_MS = 8_640_000_000_000_000;
const VERSION = "1";
const LINE_FEED = 0x0a;
/** Id, sequence, previous, attempts, finish time (base 36), length. Numbers have no more digits than other metadata of ours. */
const RECORD = /^([^,;]+),([1-9][0-9]{0,14}),(0|[1-9][0-9]{0,14}),(0|[1-9][0-9]{0,14}),(0|[1-9a-z][0-9a-z]{0,10}),([1-9][0-9]{0,6})$/;

/** Collects members for as long as they fit into one bundle. */
export class BundleDraft {
  readonly #members: BundleMember[] = [];
  #bodyBytes = 0;
  #indexLength = 0;

  get members(): readonly BundleMember[] {
    return this.#members;
  }

  /** False if it does not fit, or does not come after those that are there. */
  add(member: BundleMember): boolean {
    const record = encodeRecord(member);
    const last = this.#members.at(-1);
    const bodyBytes = this.#bodyBytes + member.bytes.length + 1;
    const indexLength = this.#indexLength + record.length + 1;
    const fits = this.#members.length < MAX_MEMBERS && bodyBytes <= MAX_BODY_BYTES && indexLength <= MAX_INDEX_LENGTH;
    if (!fits || (last !== undefined && member.id <= last.id) || decodeRecord(record) === undefined) return false;
    this.#members.push(member);
    this.#bodyBytes = bodyBytes;
    this.#indexLength = indexLength;
    return true;
  }
}

/**
 * The blob of these members, at least two.
 *
 * @param prefix of their stream
 * @throws `bug` for members that no {@link BundleDraft} would have taken
 */
export function encodeBundle(
  prefix: string,
  members: readonly BundleMember[],
): { readonly name: string; readonly bytes: Uint8Array; readonly metadata: Metadata } {
  const index = members.map(encodeRecord).join(";");
  const [first, last] = [members[0], members.at(-1)];
  if (first === undefined || last === undefined) throw new OutboxError("bug", "no bundle is empty");
  const name = bundleName({ prefix, first: first.id, last: last.id });
  const bytes = new Uint8Array(members.reduce((sum, member) => sum + member.bytes.length + 1, 0));
  let start = 0;
  for (const member of members) {
    bytes.set(member.bytes, start);
    start += member.bytes.length + 1;
    bytes[start - 1] = LINE_FEED;
  }
  const metadata = { bundle: VERSION, index };
  if (decodeBundleIndex(name, metadata)?.bodyBytes !== bytes.length) throw new OutboxError("bug", `no bundle has the name ${name}`);
  return { name, bytes, metadata };
}

/** Undefined unless name and index agree in everything, which is so for no blob but those that {@link encodeBundle} made. */
export function decodeBundleIndex(name: string, metadata: Metadata): BundleIndex | undefined {
  const parsed = parseBundleName(name);
  const { bundle, index = "" } = metadata;
  if (parsed === undefined || bundle !== VERSION || index.length > MAX_INDEX_LENGTH) return undefined;
  const members: IndexedMember[] = [];
  let start = 0;
  for (const record of index.split(";")) {
    const member = decodeRecord(record);
    const last = members.at(-1);
    if (member === undefined || (last !== undefined && member.id <= last.id)) return undefined;
    members.push({ ...member, start });
    start += member.length + 1;
  }
  const hasEnds = members[0]?.id === parsed.first && members.at(-1)?.id === parsed.last;
  return hasEnds && members.length <= MAX_MEMBERS && start <= MAX_BODY_BYTES ? { members, bodyBytes: start } : undefined;
}

/** The bytes of one member; undefined if the body is not as big as the index says, or its line ends elsewhere. */
export function memberBytes(body: Uint8Array, { bodyBytes }: BundleIndex, { start, length }: IndexedMember): Uint8Array | undefined {
  const end = start + length;
  const isLine = (start === 0 || body[start - 1] === LINE_FEED) && body[end] === LINE_FEED;
  // A copy: a view would keep the whole body.
  return isLine && body.length === bodyBytes ? body.slice(start, end) : undefined;
}

/** Metadata of an archived event, as it is on one that has a blob of its own. What became of a member of a bundle is always `handled`. */
export function archivedMetadata(record: Omit<MemberRecord, "id">, outcome: string): Record<string, string> {
  return {
    sequence: String(record.sequence),
    previous: String(record.previous),
    attempts: String(record.attempts),
    outcome,
    finishedat: new Date(record.finishedAtMs).toISOString(),
  };
}

function encodeRecord({ id, sequence, previous, attempts, finishedAtMs, bytes }: BundleMember): string {
  return [id, sequence, previous, attempts, finishedAtMs.toString(36), bytes.length].join(",");
}

function decodeRecord(record: string): Omit<IndexedMember, "start"> | undefined {
  const [, id = "", sequence, previous, attempts, time = "", length] = RECORD.exec(record) ?? [];
  const member = {
    id: id as EventId,
    sequence: Number(sequence),
    previous: Number(previous),
    attempts: Number(attempts),
    finishedAtMs: Number.parseInt(time, 36),
    length: Number(length),
  };
  return isEventId(id) && member.previous < member.sequence && member.finishedAtMs <= MAX_TIME_MS ? member : undefined;
}
