/** Hostile input of every kind, with the smallest one that does harm. */
import * as fc from "fast-check";
import { describeError } from "../../../src/core/errors.ts";
import type { PartReport, ProveOptions, Violation } from "../report.ts";
import { proveProcesses } from "./processes.ts";
import { KINDS, type Kind } from "./kinds.ts";

const SMALL_SHARE = 1 / 500;
/** Real processes take a second each. */
const PROCESSES = 300;
const SMALL_PROCESSES = 3;
/** Runs of one seed; the next ones get the next seed. */
const BATCH = 250;

export async function proveHostile({ progress, seed, budgetMs, path, small = false }: ProveOptions): Promise<PartReport> {
  const endsAt = performance.now() + (budgetMs ?? Number.POSITIVE_INFINITY);
  const [onlyKind, onlyPath] = path?.split("/") ?? [];
  const figures: [string, number][] = [];
  const violations: Violation[] = [];
  let complete = !small;
  for (const [index, kind] of KINDS.entries()) {
    // A fair part of the time for each that is to come.
    const until = performance.now() + (endsAt - performance.now()) / (KINDS.length + 1 - index);
    if (onlyKind !== undefined && kind.name.replaceAll(" ", "-") !== onlyKind) continue;
    const wanted = onlyPath !== undefined ? 1 : small ? kind.share * SMALL_SHARE : kind.share;
    const { tried, violation } = await proveKind(kind, {
      wanted,
      seed,
      until,
      path: onlyPath,
      ...(progress === undefined ? {} : { progress }),
    });
    figures.push([kind.name, tried]);
    complete &&= tried >= kind.share;
    if (violation !== undefined) violations.push(violation);
  }
  if (onlyKind === undefined || onlyKind === "processes") {
    const count = small ? SMALL_PROCESSES : PROCESSES;
    const { tried, found } = await proveProcesses({ seed, count, until: endsAt, ...(progress === undefined ? {} : { progress }) });
    figures.push(["command lines as processes", tried]);
    complete &&= tried >= count;
    violations.push(...found);
  }
  return { figures, violations, complete };
}

async function proveKind(
  kind: Kind,
  {
    wanted,
    seed,
    until,
    path,
    progress,
  }: { wanted: number; seed: number; until: number; path: string | undefined; progress?: (line: string) => void },
): Promise<{ tried: number; violation?: Violation }> {
  let tried = 0;
  const unhandled: unknown[] = [];
  const onUnhandled = (error: unknown): void => void unhandled.push(error);
  process.on("unhandledRejection", onUnhandled);
  try {
    for (let batch = 0; tried < wanted && performance.now() < until; batch++) {
      const inputs = fc.array(kind.inputs, { minLength: 1, maxLength: kind.together, size: "max" });
      const property = fc.asyncProperty(inputs, async (given) => {
        await kind.tryOut(given);
        tried += given.length;
        const [error] = unhandled.splice(0);
        if (error !== undefined) throw new Error(`a promise was rejected and nobody looked: ${describeError(error)}`);
      });
      const numRuns = path === undefined ? Math.min(BATCH, Math.ceil((wanted - tried) / ((kind.together + 1) / 2))) : 1;
      const found = await fc.check(property, { seed: seed + batch, numRuns, ...(path === undefined ? {} : { path }) });
      progress?.(`${kind.name}: ${tried.toLocaleString("en")}${found.failed ? ", HARM" : ""}`);
      if (found.failed) {
        const error = found.errorInstance as Error;
        const text = `${kind.name}: ${fc.stringify(found.counterexample?.[0])}\n=> ${error.name === "Error" ? error.message : String(error.stack)}`;
        const replay = `npm run proof -- --only hostile --seed ${seed + batch} --path ${kind.name.replaceAll(" ", "-")}/${found.counterexamplePath}`;
        return { tried, violation: { rule: "hostile", text, replay } };
      }
    }
    return { tried };
  } finally {
    process.off("unhandledRejection", onUnhandled);
  }
}
