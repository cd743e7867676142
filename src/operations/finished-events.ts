/** What the archive and the index of dead letters hold of one stream. */
import { decodeDeadLetterSummary, type DeadLetterSummary } from "../core/dead-letter.ts";
import type { EventId } from "../core/event-id.ts";
import { decodeMetadataText, decodeWhole } from "../core/metadata-text.ts";
import { eventIdOfBlob, streamPrefix, UNROUTED } from "../core/names.ts";
import type { Decision } from "../core/pending-event.ts";
import type { OrderKey } from "../core/order-id.ts";
import type { OperationsContext } from "./context.ts";

const OUTCOMES = ["handled", "discarded", "dead-lettered", "unwanted"] as const;
export type Outcome = (typeof OUTCOMES)[number];

export interface ArchivedEvent {
  readonly id: EventId;
  readonly sequence: number;
  readonly previous: number;
  /** Sequence of an event before it that the stream did not have when it was discarded. */
  readonly missing?: number;
  readonly attempts: number;
  readonly outcome: Outcome;
  /** ISO 8601. */
  readonly finishedAt: string | undefined;
  /** What an operator made of it; undefined if nobody decided. */
  readonly decided?: Decision["action"];
  readonly decidedBy?: string;
  readonly decisionReason?: string;
}

export interface FinishedEvents {
  readonly subscription: string;
  /** Oldest first. */
  readonly archived: readonly ArchivedEvent[];
  readonly dead: ReadonlyMap<EventId, DeadLetterSummary>;
  /** Names that are none of ours, or without our metadata, with their container. */
  readonly foreign: readonly string[];
  /** Names of bundles in the archive whose events can't be read. */
  readonly torn: readonly string[];
}

export async function listFinished({ storage }: OperationsContext, subscription: string, order: OrderKey): Promise<FinishedEvents> {
  const prefix = streamPrefix(subscription, order);
  const foreign: string[] = [];
  const dead = new Map<EventId, DeadLetterSummary>();
  const index = subscription === UNROUTED ? [] : storage.blobs.list("dead", prefix);
  for await (const { name, metadata } of index) {
    const id = eventIdOfBlob(name, prefix);
    const summary = decodeDeadLetterSummary(metadata);
    if (id === undefined || summary === undefined) foreign.push(`dead/${name}`);
    else dead.set(id, summary);
  }
  const archived: ArchivedEvent[] = [];
  const torn = new Set<string>();
  for await (const { name, metadata, bundle } of storage.blobs.list("archive", prefix)) {
    if (bundle?.torn === true) torn.add(bundle.name);
    const id = eventIdOfBlob(name, prefix);
    const event = id === undefined ? undefined : archivedEvent(id, metadata);
    if (event === undefined) foreign.push(`archive/${name}`);
    else archived.push(event);
  }
  archived.sort((a, b) => (a.id < b.id ? -1 : 1));
  return { subscription, archived, dead, foreign, torn: [...torn] };
}

function archivedEvent(id: EventId, metadata: Readonly<Record<string, string>>): ArchivedEvent | undefined {
  const sequence = decodeWhole(metadata["sequence"]);
  if (sequence === undefined || sequence < 1) return undefined;
  const { outcome, finishedat, decision, decidedby, decisionreason } = metadata;
  const missing = decodeWhole(metadata["missing"]);
  return {
    id,
    sequence,
    previous: decodeWhole(metadata["previous"]) ?? 0,
    attempts: decodeWhole(metadata["attempts"]) ?? 0,
    outcome: OUTCOMES.find((each) => each === outcome) ?? "handled",
    finishedAt: finishedat,
    ...(missing === undefined ? {} : { missing }),
    ...(decidedby === undefined
      ? {}
      : { decided: decision === "redrive" ? ("redrive" as const) : ("discard" as const), decidedBy: decodeMetadataText(decidedby) }),
    ...(decisionreason === undefined ? {} : { decisionReason: decodeMetadataText(decisionreason) }),
  };
}
