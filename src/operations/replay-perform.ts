/** The frame of a run: its name, its record, its audit. */
import type { AuditTarget } from "../core/audit-record.ts";
import { counted } from "../core/counted.ts";
import type { OrderId } from "../core/order-id.ts";
import { audited } from "./audit-log.ts";
import { assertOperator, type OperationsContext, type Operator } from "./context.ts";
import type { RunName } from "./replay-marks.ts";
import { assertRunName, beginRun, findRun, finishRun } from "./replay-run.ts";
import { ReplayTotals, type ReplayResult } from "./replay-totals.ts";

export interface RunWork {
  readonly action: "replay" | "backfill";
  readonly name: RunName;
  readonly orderId?: OrderId;
  /** What the run is about, for people and to tell runs apart. */
  readonly parameters: string;
  readonly dryRun: boolean;
  /** Asked before a run begins that is not there yet; throws to refuse it. */
  readonly assertKnown?: () => Promise<void>;
  /** The last sequence that a run that begins now looks at. */
  readonly upTo: () => Promise<number>;
  readonly perform: (run: {
    readonly upTo: number;
    /** Of the run's record; undefined for the dry run of one that has none yet. */
    readonly startedAt: string | undefined;
    readonly dryRun: boolean;
    readonly totals: ReplayTotals;
  }) => Promise<void>;
}

export async function performRun(context: OperationsContext, operator: Operator, work: RunWork): Promise<ReplayResult> {
  assertOperator(operator);
  const { action, name, orderId, parameters, dryRun, perform } = work;
  assertRunName(name.run);
  const found = await findRun(context, name, parameters);
  const totals = new ReplayTotals();
  if (found?.finishedAt !== undefined) {
    return { ...totals.result(name.run, { dryRun, stopped: false }), outcome: "done-before", finishedAt: found.finishedAt };
  }
  if (found === undefined) await work.assertKnown?.();
  const upTo = found?.upTo ?? (await work.upTo());
  const isStopped = (): boolean => context.signal?.aborted === true;
  if (dryRun) {
    await perform({ upTo, startedAt: found?.startedAt, dryRun, totals });
    return totals.result(name.run, { dryRun, stopped: isStopped() });
  }
  const target: AuditTarget = { subscription: name.subscription, ...(orderId === undefined ? {} : { orderId }), run: name.run };
  const { result } = await audited(context, { ...operator, action, target }, async () => {
    const run = found ?? (await beginRun(context, name, { parameters, upTo, operator }));
    await perform({ upTo: run.upTo, startedAt: run.startedAt, dryRun, totals });
    const own = totals.result(name.run, { dryRun, stopped: isStopped() });
    if (own.outcome === "done") await finishRun(context, run);
    const events = `${counted(own.events, "event")} of ${counted(own.ordersWithEvents, "order")}`;
    return { outcome: `${own.outcome}: ${events}, ${counted(own.failed, "order")} failed`, result: own };
  });
  return result;
}
