/**
 * What lies in the archive, blob by blob, read by the format as the README tells it and by nothing of the code that wrote it: that code is what
 * the audits judge.
 */
import { BlobServiceClient } from "@azure/storage-blob";
import type { Metadata } from "../../src/core/ports.ts";

/** A blob as it is in the account. */
export interface ArchiveBlob {
  readonly name: string;
  readonly bytes: Uint8Array;
  readonly metadata: Metadata;
}

/** One event in one place. */
export interface ArchivedEvent {
  /** That of a blob of its own, whether it has one or not. */
  readonly name: string;
  readonly id: string;
  readonly sequence: number;
  readonly outcome: string;
  readonly text: string;
  /** Where it lies. */
  readonly blob: string;
}

export interface Archive {
  /** By name. An event may lie in several places, with the same bytes; its own blob comes first, as it is the one that counts. */
  readonly events: ReadonlyMap<string, readonly [ArchivedEvent, ...ArchivedEvent[]]>;
  /** How many blobs hold several events. */
  readonly bundles: number;
  /** What no archive of ours has. */
  readonly problems: readonly string[];
}

const MAX_MEMBERS = 100;
const MAX_BODY_BYTES = 1024 * 1024;
const LINE_FEED = 10;
const SINGLE = /^([^/]+\/[^/]+\/)([0-9A-Z]{26})\.json$/;
const BUNDLE = /^([^/]+\/[^/]+\/)([0-9A-Z]{26})-([0-9A-Z]{26})\.ndjson$/;
const RECORD = /^([0-9A-Z]{26}),(\d+),(\d+),(\d+),([0-9a-z]+),(\d+)$/;

export function readArchive(blobs: Iterable<ArchiveBlob>): Archive {
  const events = new Map<string, [ArchivedEvent, ...ArchivedEvent[]]>();
  const problems: string[] = [];
  let bundles = 0;
  for (const blob of blobs) {
    const isBundle = BUNDLE.test(blob.name);
    try {
      for (const event of isBundle ? eventsOfBundle(blob) : [eventOfSingle(blob)]) {
        const copies = events.get(event.name);
        if (copies === undefined) events.set(event.name, [event]);
        else {
          if (copies[0].text !== event.text) problems.push(`${event.name} has other bytes in ${event.blob} than in ${copies[0].blob}`);
          if (isBundle) copies.push(event);
          else copies.unshift(event);
        }
      }
      if (isBundle) bundles += 1;
    } catch (error) {
      problems.push(`archive/${blob.name}: ${(error as Error).message}`);
    }
  }
  return { events, bundles, problems };
}

function eventOfSingle({ name, bytes, metadata }: ArchiveBlob): ArchivedEvent {
  const [, , id] = SINGLE.exec(name) ?? [];
  if (id === undefined) throw new Error("no event has this name");
  return eventOf({ name, id, sequence: Number(metadata["sequence"]), outcome: metadata["outcome"] ?? "none", bytes, blob: name });
}

/** All or nothing: what one index says of its members holds for each of them. */
function eventsOfBundle({ name, bytes, metadata }: ArchiveBlob): readonly ArchivedEvent[] {
  const [, prefix, first, last] = BUNDLE.exec(name)!;
  if (metadata["bundle"] !== "1") throw new Error(`version ${metadata["bundle"]}`);
  const events: ArchivedEvent[] = [];
  let start = 0;
  let before = "";
  for (const record of (metadata["index"] ?? "").split(";")) {
    const [, id, sequence, previous, , , length] = RECORD.exec(record) ?? [];
    if (id === undefined) throw new Error(`the index has ${record}`);
    if (id <= before) throw new Error(`${id} comes after ${before}`);
    if (Number(previous) >= Number(sequence)) throw new Error(`${record} is after itself`);
    const end = start + Number(length);
    if (bytes[end] !== LINE_FEED) throw new Error(`no line ends at ${end}, where ${id} does`);
    const own = { name: `${prefix}${id}.json`, id, sequence: Number(sequence), outcome: "handled", blob: name };
    events.push(eventOf({ ...own, bytes: bytes.subarray(start, end) }));
    start = end + 1;
    before = id;
  }
  if (start !== bytes.length) throw new Error(`${bytes.length} bytes, and the index tells of ${start}`);
  if (events[0]!.id !== first || before !== last) throw new Error(`its members go from ${events[0]!.id} to ${before}`);
  if (events.length < 2 || events.length > MAX_MEMBERS) throw new Error(`${events.length} members`);
  if (bytes.length > MAX_BODY_BYTES) throw new Error(`${bytes.length} bytes`);
  return events;
}

/** What stands beside an event is what the event says of itself. */
function eventOf({ bytes, ...rest }: Omit<ArchivedEvent, "text"> & { readonly bytes: Uint8Array }): ArchivedEvent {
  const text = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }).decode(bytes);
  const { id, sequence } = JSON.parse(text) as { readonly id?: unknown; readonly sequence?: unknown };
  if (id !== rest.id || sequence !== String(rest.sequence))
    throw new Error(`event ${rest.id}, sequence ${rest.sequence}, says that it is ${String(id)}, sequence ${String(sequence)}`);
  return { ...rest, text };
}

/** All blobs of the archive of an account, past the code of ours. */
export async function listArchiveBlobs(connectionString: string, prefix = ""): Promise<readonly ArchiveBlob[]> {
  const name = prefix === "" ? "archive" : `${prefix}-archive`;
  const container = BlobServiceClient.fromConnectionString(connectionString).getContainerClient(name);
  const blobs: ArchiveBlob[] = [];
  for await (const item of container.listBlobsFlat({ includeMetadata: true })) {
    const bytes = await container.getBlobClient(item.name).downloadToBuffer();
    blobs.push({ name: item.name, bytes, metadata: item.metadata ?? {} });
  }
  return blobs;
}
