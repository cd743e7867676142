/**
 * The record of a run: a row of the control partition, which no cleanup removes. It makes the same command, repeated, go on or do nothing, and a
 * second replay of the same events something that has to be said (`--run`).
 */
import { CONTROL_PARTITION } from "../core/controls.ts";
import { OutboxError, printable } from "../core/errors.ts";
import { clockOf, nowIso, type OperationsContext, type Operator } from "./context.ts";
import { MARKS_KEPT_MS, type RunName } from "./replay-marks.ts";

const DAY_MS = 24 * 60 * 60 * 1000;
/** After this time its marks may be gone, and what it has replayed can't be told any more. A day for clocks and the cleanup's own pace. */
const RESUMABLE_MS = MARKS_KEPT_MS - DAY_MS;

/** It becomes part of row keys. */
const MAX_RUN_LENGTH = 35;

export interface ReplayRun extends RunName {
  /** What was asked for, as one text: a run means one thing. */
  readonly parameters: string;
  /** Events of later sequences are none of its matter. */
  readonly upTo: number;
  readonly startedAt: string;
  readonly startedBy: string;
  /** ISO 8601; undefined until all of it is done. */
  readonly finishedAt: string | undefined;
}

/** Throws `invalid-option`. */
export function assertRunName(run: string): void {
  if (/^[a-z0-9](?:-?[a-z0-9]+)*$/.test(run) && run.length <= MAX_RUN_LENGTH) return;
  const bounds = `lower-case letters, digits and single dashes, at most ${MAX_RUN_LENGTH} characters`;
  throw new OutboxError("invalid-option", `run is ${JSON.stringify(printable(run, 60))}: ${bounds} are allowed`);
}

/**
 * The run of this name, if there is one that may go on.
 *
 * @throws `invalid-option` if it was begun with other parameters, or too long ago
 */
export async function findRun(context: OperationsContext, name: RunName, parameters: string): Promise<ReplayRun | undefined> {
  const row = await context.storage.orders.readEntity(CONTROL_PARTITION, rowOf(name));
  if (row === undefined) return undefined;
  const text = (property: string): string => String(row.properties[property] ?? "");
  const found: ReplayRun = {
    ...name,
    parameters: text("parameters"),
    upTo: Number(row.properties["upTo"]),
    startedAt: text("startedAt"),
    startedBy: text("startedBy"),
    finishedAt: text("finishedAt") || undefined,
  };
  const begun = `run ${name.run} of ${name.subscription} was begun at ${printable(found.startedAt)} by ${printable(found.startedBy)}`;
  if (found.parameters !== parameters) {
    throw new OutboxError(
      "invalid-option",
      `${begun} with ${printable(found.parameters, 500)}: give this one a name of its own with --run`,
    );
  }
  if (found.finishedAt === undefined && !(clockOf(context).now() - Date.parse(found.startedAt) < RESUMABLE_MS)) {
    const days = RESUMABLE_MS / DAY_MS;
    throw new OutboxError(
      "invalid-option",
      `${begun} and not finished within ${days} days: what it has replayed can't be told any more. Look with --dry-run, then begin another with --run NAME.`,
    );
  }
  return found;
}

/** Two operators who begin the same run at once write the same. */
export async function beginRun(
  context: OperationsContext,
  name: RunName,
  { parameters, upTo, operator }: { readonly parameters: string; readonly upTo: number; readonly operator: Operator },
): Promise<ReplayRun> {
  const run = { ...name, parameters, upTo, startedAt: nowIso(context), startedBy: operator.actor, finishedAt: undefined };
  await putRun(context, run);
  return run;
}

export async function finishRun(context: OperationsContext, run: ReplayRun): Promise<void> {
  await putRun(context, { ...run, finishedAt: nowIso(context) });
}

async function putRun({ storage }: OperationsContext, run: ReplayRun): Promise<void> {
  const { parameters, upTo, startedAt, startedBy, finishedAt = "" } = run;
  await storage.orders.putEntity(CONTROL_PARTITION, rowOf(run), { parameters, upTo, startedAt, startedBy, finishedAt });
}

function rowOf({ subscription, run }: RunName): string {
  return `replay:${subscription}:${run}`;
}
