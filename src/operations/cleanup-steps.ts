/** What a cleanup removes, kind by kind. Ages come from the storage service. */
import { describeError, isOutboxError } from "../core/errors.ts";
import { isEventId } from "../core/event-id.ts";
import type { Logger } from "../core/logger.ts";
import { eventBlobName, payloadBlobName, prefixOf, type Container } from "../core/names.ts";
import { decodeOrderKey, type OrderKey } from "../core/order-id.ts";
import type { CallOptions, IdempotencyScan, ListedBlob, Storage } from "../core/ports.ts";
import { parseEventBlobName } from "./blob-name.ts";
import { keepPlace, scanOn } from "./cursor.ts";
import { redriveOfRow } from "./redrive-record.ts";
import { isReplayMark, MARKS_KEPT_MS } from "./replay-marks.ts";

/** One step of one cleanup. */
export interface CleanupRun {
  readonly storage: Storage;
  readonly logger: Logger;
  readonly dryRun: boolean;
  readonly callOptions: CallOptions;
  /** How many may still be removed. */
  left(): number;
  /** So many were removed, or would be. */
  removed(count: number): void;
}

export interface Removal {
  readonly removed: number;
  readonly foreign: number;
  /** False if something was left for the next run. */
  readonly complete: boolean;
}

/** What to do with a blob. `foreign`: none of ours, left alone. */
type Verdict = "remove" | "keep" | "foreign";

/** As many deletes as one request takes. */
const BATCH = 256;
/** A commit writes its payloads first and never takes so long; what is older and in no outbox was relayed, or its commit failed. */
const PAYLOAD_AGE_MS = 24 * 60 * 60 * 1000;
/** Lifecycle rules of the account go by the last change and know of no dead letters; the template's act after 90 days at least. */
const KEEP_YOUNG_MS = 30 * 24 * 60 * 60 * 1000;
/** How much of the table one run looks at: pages of up to 1,000 idempotency rows. */
const MAX_PAGES = 10;
/** Day and ULID: see audit-log.ts. */
const AUDIT_NAME = /^\d{4}-\d{2}-\d{2}\/[0-9A-HJKMNP-TV-Z]{26}\.json$/;
/** What the worker writes on an archived event that an operator discarded. */
const DISCARDED = "discarded";
const HANDLED = "handled";

export async function cleanArchive(run: CleanupRun, archiveMs: number, discardedMs: number): Promise<Removal> {
  // A dead letter that its stream skipped has its bytes in the archive, under the same name: without them it could not be replayed.
  const dead = await deadLetters(run);
  // What is behind a handled event that is kept is kept with it: an archive write may have been repeated later than those behind it, and a hole
  // would look like a loss.
  let keptStream: string | undefined;
  return removeBlobs(run, "archive", async (blob) => {
    const { name, ageMs, metadata, bundle } = blob;
    if (parseEventBlobName(name) === undefined) return "foreign";
    if (dead.has(name) && ageMs > KEEP_YOUNG_MS) await keepYoung(run, blob);
    const stream = prefixOf(name);
    const retentionMs = metadata["outcome"] === DISCARDED ? discardedMs : archiveMs;
    // A bundle goes as a whole, or stays.
    const isKept = ageMs <= retentionMs || stream === keptStream || (bundle?.members ?? [name]).some((member) => dead.has(member));
    if (isKept && metadata["outcome"] === HANDLED) keptStream = stream;
    return isKept ? "keep" : "remove";
  });
}

async function deadLetters({ storage, callOptions }: CleanupRun): Promise<ReadonlySet<string>> {
  const dead = new Set<string>();
  for await (const { name } of storage.blobs.list("dead", "", callOptions)) dead.add(name);
  return dead;
}

/** Written again as it is. Changed or gone meanwhile: an operator has decided. */
async function keepYoung({ storage, dryRun, callOptions }: CleanupRun, { name, metadata, etag, bundle }: ListedBlob): Promise<void> {
  if (dryRun) return;
  const blob = bundle === undefined ? { metadata, etag } : await storage.blobs.read("archive", bundle.name, callOptions);
  if (blob === undefined) return;
  try {
    await storage.blobs.writeMetadata("archive", bundle?.name ?? name, blob.metadata, blob.etag, callOptions);
  } catch (error) {
    if (!isOutboxError(error, "precondition-failed", "not-found")) throw error;
  }
}

export function cleanAudit(run: CleanupRun, auditMs: number): Promise<Removal> {
  return removeBlobs(run, "audit", async ({ name, ageMs }) => {
    if (!AUDIT_NAME.test(name)) return "foreign";
    return ageMs > auditMs ? "remove" : "keep";
  });
}

/** Payloads that no outbox entity of their order refers to. */
export function cleanPayloads(run: CleanupRun): Promise<Removal> {
  // One order's payloads come one after another.
  let last: { readonly order: OrderKey; readonly kept: ReadonlySet<string> | undefined } | undefined;
  return removeBlobs(run, "payloads", async ({ name, ageMs }) => {
    const order = orderOfPayload(name);
    if (order === undefined) return "foreign";
    if (ageMs <= PAYLOAD_AGE_MS) return "keep";
    if (last?.order !== order) last = { order, kept: await referredPayloads(run, order) };
    return last.kept === undefined || last.kept.has(name) ? "keep" : "remove";
  });
}

/** Undefined if that can't be told: an entity that can't be read may refer to any of them. */
async function referredPayloads({ storage, logger, callOptions }: CleanupRun, order: OrderKey): Promise<ReadonlySet<string> | undefined> {
  try {
    const { outbox, unreadable } = await storage.orders.readOutbox(order, callOptions);
    return unreadable.length > 0 ? undefined : new Set(outbox.flatMap(({ payloadBlob }) => payloadBlob ?? []));
  } catch (error) {
    if (!isOutboxError(error, "corrupt")) throw error;
    logger.warn("payloads of an order that can't be read are kept", { order, error: describeError(error) });
    return undefined;
  }
}

function orderOfPayload(name: string): OrderKey | undefined {
  const [order = "", file = ""] = name.split("/", 2);
  const id = file.replace(/\.json$/, "");
  const isOurs = decodeOrderKey(order) !== undefined && isEventId(id) && name === payloadBlobName(order as OrderKey, id);
  return isOurs ? (order as OrderKey) : undefined;
}

/**
 * Bundles of what is removed, stream by stream. One is listed with each of its members, and is removed once. One whose members all have blobs
 * of their own is not listed before these are gone. Bundles of one stream may overlap, those of different ones don't.
 */
class MetBundles {
  #stream = "";
  readonly #listed = new Set<string>();
  readonly #hidden = new Set<string>();
  #hidesAny = false;

  /** False for a further event of a bundle. */
  isFirst({ name, bundle, alsoIn }: ListedBlob): boolean {
    const stream = prefixOf(name);
    if (stream !== this.#stream) this.#endStream();
    this.#stream = stream;
    if (alsoIn !== undefined) this.#hidden.add(alsoIn);
    if (bundle === undefined) return true;
    const isFirst = !this.#listed.has(bundle.name);
    this.#listed.add(bundle.name);
    return isFirst;
  }

  /** Is there one that only the next listing will tell? */
  hidesAny(): boolean {
    this.#endStream();
    return this.#hidesAny;
  }

  #endStream(): void {
    this.#hidesAny ||= this.#hidden.difference(this.#listed).size > 0;
    this.#hidden.clear();
    this.#listed.clear();
  }
}

async function removeBlobs(run: CleanupRun, container: Container, judge: (blob: ListedBlob) => Promise<Verdict>): Promise<Removal> {
  const { blobs } = run.storage;
  let [removed, foreign, complete] = [0, 0, true];
  let batch: string[] = [];
  const bundles = new MetBundles();
  const flush = async (): Promise<void> => {
    if (batch.length === 0) return;
    if (!run.dryRun) await blobs.delete(container, batch, run.callOptions);
    removed += batch.length;
    run.removed(batch.length);
    batch = [];
  };
  for await (const blob of blobs.list(container, "", run.callOptions)) {
    const verdict = await judge(blob);
    if (verdict === "foreign") foreign += 1;
    if (verdict !== "remove" || !bundles.isFirst(blob)) continue;
    if (run.left() - batch.length <= 0) {
      complete = false;
      break;
    }
    batch.push(blob.bundle?.name ?? blob.name);
    if (batch.length === BATCH) await flush();
  }
  await flush();
  return { removed, foreign, complete: complete && !bundles.hidesAny() };
}

/** Goes through the table a part a run, because the service reads every row on the way. */
export async function cleanIdempotency(run: CleanupRun, retentionMs: number): Promise<Removal> {
  const { storage, callOptions, dryRun } = run;
  const scan = (from: string | undefined): Promise<IdempotencyScan> => storage.orders.scanIdempotency(from, MAX_PAGES, callOptions);
  const { entities, next } = await scanOn(storage.orders, "cleanup", scan, callOptions);
  // An interrupted replay goes on by its marks, and may do so for longer than other commands are repeated.
  const kept = (rowKey: string): number => (isReplayMark(rowKey) ? Math.max(retentionMs, MARKS_KEPT_MS) : retentionMs);
  const aged = entities.filter(({ rowKey, ageMs }) => ageMs > kept(rowKey));
  const old = await withoutLetters(run, aged);
  const taken = old.slice(0, run.left());
  for (const [order, rows] of Map.groupBy(taken, (row) => row.order)) {
    const rowKeys = rows.map(({ rowKey }) => rowKey);
    if (!dryRun) await storage.orders.deleteIdempotency(order, rowKeys, callOptions);
    run.removed(rows.length);
  }
  const allTaken = taken.length === old.length;
  // What is left over is found again from the same place.
  if (!dryRun && allTaken) await keepPlace(storage.orders, "cleanup", next, callOptions);
  return { removed: taken.length, foreign: 0, complete: allTaken && next === undefined };
}

/** A redrive may be repeated for as long as its letter is there, and only its row tells that its event is committed already. */
async function withoutLetters(run: CleanupRun, rows: IdempotencyScan["entities"]): Promise<IdempotencyScan["entities"]> {
  const letterOf = ({ order, rowKey }: IdempotencyScan["entities"][number]): string | undefined => {
    const redrive = redriveOfRow(rowKey);
    return redrive && eventBlobName(redrive.subscription, order, redrive.id);
  };
  if (rows.every((row) => letterOf(row) === undefined)) return rows;
  const dead = await deadLetters(run);
  return rows.filter((row) => !dead.has(letterOf(row) ?? ""));
}
