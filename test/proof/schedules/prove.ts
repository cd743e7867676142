/** The real producers, worker hosts, sweeps and operators in any order that calls, answers, timers and accidents can come in. */
import * as fc from "fast-check";
import { describeError } from "../../../src/core/errors.ts";
import type { PartReport, ProveOptions, Violation } from "../report.ts";
import { Violation as Broken } from "./ledger.ts";
import { scenarios, type Scenario } from "./scenario.ts";
import { World } from "./world.ts";

const FULL = 100_000;
const SMALL = 200;
/** Schedules of one seed; the next ones get the next seed. */
const BATCH = 1_000;
/** One root may show in many ways; more would not help anybody. */
const MAX_VIOLATIONS = 3;

interface Counts {
  schedules: number;
  actions: number;
  incidents: number;
  starts: number;
}

export async function proveSchedules({ progress, seed, budgetMs, path, small = false }: ProveOptions): Promise<PartReport> {
  const wanted = path !== undefined ? 1 : small ? SMALL : FULL;
  const until = performance.now() + (budgetMs ?? Number.POSITIVE_INFINITY);
  const counts: Counts = { schedules: 0, actions: 0, incidents: 0, starts: 0 };
  const violations: Violation[] = [];
  const unhandled: unknown[] = [];
  const onUnhandled = (error: unknown): void => void unhandled.push(error);
  process.on("unhandledRejection", onUnhandled);
  try {
    for (let done = 0; done < wanted && performance.now() < until && violations.length < MAX_VIOLATIONS; done += BATCH) {
      const batchSeed = seed + done / BATCH;
      const property = fc.asyncProperty(scenarios, (scenario) => tryOut(scenario, counts, unhandled));
      const numRuns = Math.min(BATCH, wanted - done);
      const found = await fc.check(property, { seed: batchSeed, numRuns, ...(path === undefined ? {} : { path }) });
      if (found.failed) violations.push(await describe(found.counterexample![0], batchSeed, found.counterexamplePath ?? ""));
      progress?.(`${counts.schedules.toLocaleString("en")} schedules, ${violations.length} violations`);
    }
  } finally {
    process.off("unhandledRejection", onUnhandled);
  }
  return {
    figures: [
      ["schedules of the real code", counts.schedules],
      ["calls, answers, timers and handler ends chosen one by one", counts.actions],
      ["accidents and operators' acts", counts.incidents],
      ["handler starts", counts.starts],
    ],
    violations,
    complete: counts.schedules >= FULL,
  };
}

async function tryOut(scenario: Scenario, counts: Counts, unhandled: unknown[]): Promise<void> {
  const world = new World(scenario);
  await world.run();
  counts.schedules += 1;
  counts.actions += world.scheduler.actions;
  counts.incidents += scenario.incidents.length;
  counts.starts += world.ledger.handlerStarts;
  const [error] = unhandled.splice(0);
  if (error !== undefined) throw new Broken("crash", `a promise was rejected and nobody looked: ${describeError(error)}`);
}

/** Runs it once more, for its trace. */
async function describe(scenario: Scenario, seed: number, path: string): Promise<Violation> {
  const world = new World(scenario);
  const error = await world.run().then(
    () => new Error("it did not happen again: the run depends on something beside the schedule"),
    (thrown: unknown) => thrown as Error,
  );
  return {
    rule: error instanceof Broken ? error.rule : "crash",
    text: [JSON.stringify(scenario), ...world.scheduler.trace, `=> ${error instanceof Broken ? error.message : String(error.stack)}`].join(
      "\n",
    ),
    replay: `npm run proof -- --only schedules --seed ${seed} --path ${path}`,
  };
}
