/** One run of a scenario under some strikes: play, let it recover, audit. */
import { describeError } from "../../../src/core/errors.ts";
import { auditScene } from "./audit.ts";
import { Scene, type ScenarioName } from "./scenario.ts";
import type { Hit, Strike } from "./strikes.ts";
import type { Worlds } from "./world.ts";

export interface RunOutcome {
  readonly strikes: readonly Strike[];
  readonly violations: readonly string[];
  readonly duplicates: number;
  readonly handlerCalls: number;
  /** Calls until the scenario was over, recovery not counted. */
  readonly calls: number;
  /** Calls until nothing was left to do. */
  readonly callsUntilQuiet: number;
  /** Lapsed time from the last fault until the last event was started that waited for no human: G5. */
  readonly recoveryMs: number;
  readonly hits: readonly Hit[];
  readonly trail: readonly string[];
}

const MAX_RECOVERY_MINUTES = 30;
/** G5 as published: a lease, a sweep, and the time for which the service may hold an expired lease. */
const BOUND_MS = 30_000 + 60_000 + 60_000;

export async function runOne(worlds: Worlds, name: ScenarioName, strikes: readonly Strike[]): Promise<RunOutcome> {
  const world = await worlds.make(strikes);
  const scene = new Scene(world, name);
  const violations: string[] = [];
  let calls = 0;
  let callsUntilQuiet = 0;
  let duplicates = 0;
  try {
    await scene.play();
    calls = world.strikes.calls;
    callsUntilQuiet = calls;
    for (let minutes = 0; !(await scene.isQuiet()); minutes++) {
      if (minutes === MAX_RECOVERY_MINUTES) {
        violations.push(`not recovered after ${MAX_RECOVERY_MINUTES} minutes`);
        break;
      }
      await scene.recoverOneMinute();
      callsUntilQuiet = world.strikes.calls;
    }
    // What lands late lands now, and what it leaves behind is cleared.
    if (world.strikes.hits.some(({ fault }) => fault === "late")) await world.pass(60_000);
    for (let minutes = 0; minutes < 5; minutes++) {
      if (minutes > 0 && (await scene.isQuiet())) break;
      await scene.recoverOneMinute();
    }
    await scene.stop();
    const audited = await auditScene(scene);
    violations.push(...audited.violations);
    ({ duplicates } = audited);
  } catch (error) {
    violations.push(`the run broke: ${error instanceof Error && error.stack !== undefined ? error.stack : describeError(error)}`);
  }
  const { hits, trail } = world.strikes;
  const recoveryMs = recoveryOf(scene);
  if (recoveryMs > BOUND_MS) violations.push(`an event was started ${recoveryMs / 1000} s after the last fault: late`);
  return { strikes, violations, duplicates, handlerCalls: scene.books.calls.length, calls, callsUntilQuiet, recoveryMs, hits, trail };
}

/** What comes behind the dead letter waits for an operator, and is left out. */
function recoveryOf({ books, world }: Scene): number {
  const lastHit = world.strikes.hits.at(-1)?.at;
  if (lastHit === undefined) return 0;
  const starts = books.calls
    .filter(({ subscription, orderId, startedAt }) => startedAt > lastHit && !(subscription === "billing" && orderId === "C"))
    .map(({ startedAt }) => startedAt - lastHit);
  return Math.max(0, ...starts);
}
