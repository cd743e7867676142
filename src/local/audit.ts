/**
 * The audit of one subscription: was every committed event that it wants handled, in commit order (G2), at least once (G3), with the bytes
 * that were committed? It knows two lists and nothing of the pipeline: what was committed, as the input and the producers' answers say, and
 * what the handlers wrote down.
 */
import type { HandledRecord } from "./handled-record.ts";
import type { ShipmentEventType } from "../shipment/workflow.ts";

export interface CommittedEvent {
  readonly orderId: string;
  readonly id: string;
  readonly sequence: number;
  readonly type: ShipmentEventType;
  readonly time: string;
  readonly dataText: string;
  readonly dataDigest: string;
}

export interface AuditInput {
  /** What the subscription wants. Events of one order are in commit order. */
  readonly committed: readonly CommittedEvent[];
  /** What its handler wrote down, in the order in which it ran. */
  readonly handled: readonly HandledRecord[];
  /** Names of the worker processes that were killed: a crash explains a repetition (G3). */
  readonly killedWorkers: ReadonlySet<string>;
  /** Orders that an earlier run on the same data committed to (`--keep`). */
  readonly earlierOrders: ReadonlySet<string>;
}

export interface Finding {
  readonly kind: "missing" | "unexpected" | "outOfOrder";
  readonly text: string;
}

export interface AuditResult {
  readonly orders: number;
  readonly events: number;
  /** Committed events that were handled at least once. */
  readonly handled: number;
  /** Repetitions of the event that an order was at. Never wrong: handlers get every event at least once (G3). */
  readonly duplicates: number;
  /** Those of them that no kill explains: a lease was lost or a storage call had no answer. */
  readonly unexplainedDuplicates: number;
  /** Events handled before their predecessor, and earlier events repeated after a later one: both break G2. */
  readonly outOfOrder: number;
  /** Committed and never handled as committed. */
  readonly missing: number;
  /** Handled without having been committed like this: unknown id, other type, time, sequence or payload. */
  readonly unexpected: number;
  /** Records of events that an earlier run left behind, set aside. */
  readonly earlier: number;
  /** What is wrong, one entry each. */
  readonly findings: readonly Finding[];
  readonly verified: boolean;
}

/** One order during the audit. */
interface Trail {
  readonly events: readonly CommittedEvent[];
  readonly positions: ReadonlyMap<string, number>;
  /** Position of the latest event seen so far; -1 before the first. */
  latest: number;
  /** By position: the worker that recorded the event last. */
  readonly seenBy: Map<number, string>;
}

export function audit({ committed, handled, killedWorkers, earlierOrders }: AuditInput): AuditResult {
  const findings: Finding[] = [];
  const report = (kind: Finding["kind"], event: { readonly orderId: string; readonly id: string }, what: string): void => {
    findings.push({ kind, text: `order ${event.orderId}, event ${event.id}: ${what}` });
  };
  const trails = new Map<string, Trail>();
  for (const [orderId, events] of Map.groupBy(committed, (event) => event.orderId)) {
    trails.set(orderId, { events, positions: new Map(events.map(({ id }, position) => [id, position])), latest: -1, seenBy: new Map() });
  }

  let duplicates = 0;
  let unexplainedDuplicates = 0;
  let earlier = 0;
  for (const record of handled) {
    const trail = trails.get(record.orderId);
    const position = trail?.positions.get(record.id);
    if (trail === undefined || position === undefined) {
      if (!leftBehind(record, trail, earlierOrders)) report("unexpected", record, "the event was handled and never committed");
      else if (trail !== undefined && trail.latest >= 0)
        report("outOfOrder", record, "was left by an earlier run and handled after an event of this run");
      else earlier += 1;
      continue;
    }
    const difference = differs(trail.events[position]!, record);
    if (difference !== undefined) {
      report("unexpected", record, `was handled with another ${difference} than it was committed with`);
      continue;
    }
    const seenBy = trail.seenBy.get(position);
    if (seenBy === undefined) {
      if (position > 0 && !trail.seenBy.has(position - 1)) report("outOfOrder", record, "the event was handled before its predecessor");
    } else if (position < trail.latest) {
      report("outOfOrder", record, "the event was repeated after a later one");
    } else {
      duplicates += 1;
      if (!killedWorkers.has(seenBy)) unexplainedDuplicates += 1;
    }
    trail.seenBy.set(position, record.worker);
    trail.latest = Math.max(trail.latest, position);
  }

  for (const { events, seenBy } of trails.values()) {
    events.forEach((event, position) => {
      if (!seenBy.has(position)) report("missing", event, `${event.type} was committed and never handled`);
    });
  }
  const count = (kind: Finding["kind"]): number => findings.filter((finding) => finding.kind === kind).length;
  const missing = count("missing");
  return {
    orders: trails.size,
    events: committed.length,
    handled: committed.length - missing,
    duplicates,
    unexplainedDuplicates,
    outOfOrder: count("outOfOrder"),
    missing,
    unexpected: count("unexpected"),
    earlier,
    findings,
    verified: findings.length === 0,
  };
}

/** Receivers fence with `sequence` and dedupe by id, so both must follow the commit order even where the handlers did. */
export function checkCommitOrder(committed: readonly CommittedEvent[]): Finding[] {
  const findings: Finding[] = [];
  for (const [orderId, events] of Map.groupBy(committed, (event) => event.orderId)) {
    for (const [position, { id, sequence }] of events.entries()) {
      const before = events[position - 1];
      if (before === undefined || (sequence === before.sequence + 1 && id > before.id)) continue;
      const text = `order ${orderId}, event ${id}: was committed as sequence ${sequence} after sequence ${before.sequence}, event ${before.id}`;
      findings.push({ kind: "outOfOrder", text });
    }
  }
  return findings;
}

/** True for an event from before this run: of an order that an earlier run committed to, older than all this run committed to the order. */
function leftBehind(record: HandledRecord, trail: Trail | undefined, earlierOrders: ReadonlySet<string>): boolean {
  if (!earlierOrders.has(record.orderId)) return false;
  const first = trail?.events[0];
  return first === undefined || record.id < first.id;
}

/** A handler that is told less can write down less. */
function differs(committed: CommittedEvent, record: HandledRecord): string | undefined {
  if (record.sequence !== undefined && committed.sequence !== record.sequence) return "sequence";
  if (record.type !== undefined && committed.type !== record.type) return "type";
  if (record.time !== undefined && committed.time !== record.time) return "time";
  if (record.dataDigest !== undefined && committed.dataDigest !== record.dataDigest) return "payload";
  return undefined;
}
