/** The audit of a whole run: each subscription by itself, and the commits they all come from. */
import { audit, checkCommitOrder, type AuditResult, type CommittedEvent, type Finding } from "./audit.ts";
import type { AuditedSubscription } from "./audited.ts";
import type { HandledRecord } from "./handled-record.ts";

export interface RunAuditInput {
  /** The subscriptions of the run. */
  readonly audited: readonly AuditedSubscription[];
  /** Events of one order are in commit order. */
  readonly committed: readonly CommittedEvent[];
  /** Of all subscriptions, in the order in which the handlers ran. */
  readonly handled: readonly HandledRecord[];
  /** Records that were begun and not completed. */
  readonly tornRecords: number;
  /** Names of the worker processes that were killed. */
  readonly killedWorkers: ReadonlySet<string>;
  /** Orders that an earlier run on the same data committed to (`--keep`). */
  readonly earlierOrders: ReadonlySet<string>;
}

export interface RunAudit {
  readonly orders: number;
  readonly events: number;
  /** Committed events that every subscription that wants them has handled. */
  readonly handled: number;
  readonly subscriptions: Readonly<Record<string, AuditResult>>;
  /** What concerns no single subscription. */
  readonly findings: readonly Finding[];
  readonly verified: boolean;
}

export function auditRun({ audited, committed, handled, tornRecords, killedWorkers, earlierOrders }: RunAuditInput): RunAudit {
  const recordsOf = Map.groupBy(handled, ({ subscription }) => subscription);
  const results = audited.map(({ name, wants }) => {
    const wanted = committed.filter(wants);
    return [name, audit({ committed: wanted, handled: recordsOf.get(name) ?? [], killedWorkers, earlierOrders })] as const;
  });
  const findings = checkCommitOrder(committed);
  for (const name of recordsOf.keys()) {
    if (results.every(([known]) => known !== name)) findings.push({ kind: "unexpected", text: `subscription ${name} is none of this run` });
  }
  for (let torn = killedWorkers.size; torn < tornRecords; torn++) {
    findings.push({ kind: "unexpected", text: "a record was not completed although no worker was killed" });
  }
  const seen = new Set(handled.map(({ subscription, id }) => `${subscription} ${id}`));
  return {
    orders: new Set(committed.map(({ orderId }) => orderId)).size,
    events: committed.length,
    handled: committed.filter((event) => audited.every(({ name, wants }) => !wants(event) || seen.has(`${name} ${event.id}`))).length,
    subscriptions: Object.fromEntries(results),
    findings,
    verified: findings.length === 0 && results.every(([, result]) => result.verified),
  };
}

/** A figure of all subscriptions together. */
export function total(
  { subscriptions, findings }: RunAudit,
  figure: "duplicates" | "unexplainedDuplicates" | "outOfOrder" | "missing" | "unexpected" | "earlier",
): number {
  const own = findings.filter(({ kind }) => kind === figure).length;
  return Object.values(subscriptions).reduce((sum, result) => sum + result[figure], own);
}
