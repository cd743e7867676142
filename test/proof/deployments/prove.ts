/** A rolling deployment that never ends, and everything that may go wrong meanwhile. */
import type { PartReport, ProveOptions, Violation } from "../report.ts";
import { runDeployments } from "./run.ts";

const FULL = 5_000;
const SMALL = 60;
/** One root may show in many ways; more would not help anybody. */
const MAX_VIOLATIONS = 3;
const PROGRESS_MS = 10_000;

export async function proveDeployments({
  progress,
  seed,
  path,
  budgetMs = Number.POSITIVE_INFINITY,
  small = false,
}: ProveOptions): Promise<PartReport> {
  const until = performance.now() + budgetMs;
  const first = path === undefined ? seed : Number(path);
  const wanted = path !== undefined ? 1 : small ? SMALL : FULL;
  const totals = { runs: 0, starts: 0, deaths: 0, calls: 0 };
  const violations: Violation[] = [];
  let shownAt = performance.now();
  while (totals.runs < wanted && performance.now() < until && violations.length < MAX_VIOLATIONS) {
    const own = first + totals.runs;
    const { broken, starts, deaths, calls } = await runDeployments(own);
    totals.runs += 1;
    totals.starts += starts;
    totals.deaths += deaths;
    totals.calls += calls;
    if (broken.length > 0) {
      const replay = `npm run proof -- --only deployments --seed ${seed} --path ${own}`;
      violations.push({ rule: broken[0]!.split(":")[0]!, text: broken.join("\n"), replay });
    }
    if (performance.now() - shownAt < PROGRESS_MS) continue;
    shownAt = performance.now();
    progress?.(`${totals.runs.toLocaleString("en")} of ${wanted.toLocaleString("en")} histories, ${violations.length} violations`);
  }
  return {
    figures: [
      ["histories of an order", totals.runs],
      ["processes that died", totals.deaths],
      ["handler starts", totals.starts],
      ["storage calls", totals.calls],
    ],
    violations,
    complete: totals.runs >= FULL,
  };
}
