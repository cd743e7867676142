/**
 * The proof by fault enumeration: at every storage call of a fixed scenario every fault, alone; at every two calls of the core path every two
 * faults; and a death of the process at every call. After each the system recovers by itself, and everything is audited.
 */
import { fork } from "node:child_process";
import { availableParallelism } from "node:os";
import { seededRandom, type Random } from "../../../src/local/seeded-random.ts";
import { OwnChild } from "../../support/own-child.ts";
import type { PartReport, ProveOptions } from "../report.ts";
import { runOne } from "./run-one.ts";
import type { ScenarioName } from "./scenario.ts";
import { DEATHS, FAULTS, type FaultName } from "./strikes.ts";
import { addTallies, NO_RUNS, runUnit, strikesAt, type Tally, type Unit } from "./unit.ts";
import type { FromUnitProcess } from "./unit-process.ts";
import { memoryWorlds, type WorldName } from "./world.ts";

export interface FaultsOptions extends Partial<ProveOptions> {
  /** Only the parts whose name contains this. Default: all. */
  readonly only?: string;
  /** Processes at once. Default: one a core. */
  readonly lanes?: number;
}

interface Part {
  readonly name: string;
  readonly world: WorldName;
  readonly scenario: ScenarioName;
  readonly seconds: readonly FaultName[];
  /** First strikes that are outages. */
  readonly bursts: boolean;
}

/** The list of faults that was asked for, and deaths; the others differ from them only in what the service did. */
const PAIRED: readonly FaultName[] = ["refused", "lost", "hang", "503", "500", "429", "reset", ...DEATHS];

const PARTS: readonly Part[] = [
  { name: "every fault at every call, ports", world: "memory", scenario: "full", seconds: [], bursts: true },
  { name: "every two faults on the core path, ports", world: "memory", scenario: "core", seconds: [...FAULTS, ...DEATHS], bursts: false },
  { name: "every fault at every call, Azurite", world: "azurite", scenario: "full", seconds: [], bursts: true },
  { name: "every two faults on the core path, Azurite", world: "azurite", scenario: "core", seconds: PAIRED, bursts: false },
];
const SMALL_PARTS: readonly Part[] = [{ name: "one fault in some, ports", world: "memory", scenario: "full", seconds: [], bursts: true }];
/** One in so many. */
const SMALL_SHARE = 29;
const PROGRESS_MS = 10_000;
const MAX_START_MS = 60_000;

/** The seed shuffles the runs, so that those of a short time are a fair part of all; each of them leaves nothing to chance. */
export async function proveFaults({
  progress,
  seed = 1,
  budgetMs = Number.POSITIVE_INFINITY,
  small = false,
  only = "",
  lanes = availableParallelism(),
}: FaultsOptions = {}): Promise<PartReport> {
  const endsAt = performance.now() + budgetMs;
  const figures: (readonly [string, string])[] = [];
  let total = NO_RUNS;
  let complete = !small;
  const parts = (small ? SMALL_PARTS : PARTS).filter(({ name }) => name.includes(only));
  for (const [index, part] of parts.entries()) {
    const startedAt = performance.now();
    const until = startedAt + (endsAt - startedAt) / (parts.length - index);
    const calls = await countCalls(part);
    const all = shuffled(unitsOf(part, calls), seededRandom(seed));
    const units = small ? all.slice(0, all.length / SMALL_SHARE) : all;
    let tally = NO_RUNS;
    let done = 0;
    let shownAt = startedAt;
    const onDone = (one: Tally): void => {
      tally = addTallies(tally, one);
      done += 1;
      for (const { replay, text } of one.violations) progress?.(`VIOLATED: ${replay}\n  ${text.replaceAll("\n", "\n  ")}`);
      if (performance.now() - shownAt < PROGRESS_MS) return;
      shownAt = performance.now();
      progress?.(`${part.name}: ${done} of ${units.length} first faults, ${tally.runs} runs, ${tally.violations.length} violations`);
    };
    if (small) await runHere(units, onDone);
    else await runInLanes(units, until, lanes, onDone);
    if (done < units.length) complete = false;
    total = addTallies(total, tally);
    const line = describeTally(calls, `${done} of ${all.length}`, tally, performance.now() - startedAt);
    figures.push([part.name, line]);
    progress?.(`${part.name}: ${line}`);
  }
  return { figures: [["runs", total.runs], ...figures], violations: total.violations, complete };
}

function describeTally(
  calls: number,
  firsts: string,
  { runs, deaths, hits, duplicates, handlerCalls, maxRecoveryMs, violations }: Tally,
  elapsedMs: number,
): string {
  const count = (value: number): string => value.toLocaleString("en");
  return (
    `${calls} calls, ${firsts} first faults, ${count(runs)} runs (${count(deaths)} with a death), ${count(hits)} calls struck, ` +
    `${count(handlerCalls)} handler calls, ${count(duplicates)} explained duplicates, longest recovery ${(maxRecoveryMs / 1000).toFixed(0)} s, ` +
    `${violations.length} violations (${(elapsedMs / 1000).toFixed(0)} s)`
  );
}

function shuffled<T>(items: readonly T[], random: Random): readonly T[] {
  return items
    .map((item) => ({ item, at: random() }))
    .sort((left, right) => left.at - right.at)
    .map(({ item }) => item);
}

/** The calls of a run without faults, as both worlds number them; it has to be sound itself. */
async function countCalls({ world, scenario }: Part): Promise<number> {
  if (world === "azurite") return (await inChild({ world, scenario, first: { call: 0, fault: "refused" }, seconds: [] })).calls;
  const worlds = memoryWorlds();
  const { calls, violations } = await runOne(worlds, scenario, []);
  if (violations.length > 0) throw new Error(`the run without faults is not sound: ${violations.join("; ")}`);
  return calls;
}

function unitsOf({ world, scenario, seconds, bursts }: Part, calls: number): readonly Unit[] {
  return Array.from({ length: calls }, (_, index) => strikesAt(index + 1))
    .flat()
    .filter(({ fault, burst }) => (bursts || burst !== true) && (seconds.length === 0 || seconds.includes(fault)))
    .map((first) => ({ world, scenario, first, seconds }));
}

async function runHere(units: readonly Unit[], onDone: (tally: Tally) => void): Promise<void> {
  const worlds = memoryWorlds();
  for (const unit of units) onDone(await runUnit(worlds, unit));
}

async function runInLanes(units: readonly Unit[], until: number, lanes: number, onDone: (tally: Tally) => void): Promise<void> {
  const left = units.values();
  await Promise.all(
    Array.from({ length: lanes }, async () => {
      await using child = await UnitChild.start();
      for (const unit of left) {
        if (performance.now() > until) return;
        onDone(await child.run(unit));
      }
    }),
  );
}

async function inChild(unit: Unit): Promise<Tally> {
  await using child = await UnitChild.start();
  const tally = await child.run(unit);
  if (tally.violations.length > 0) throw new Error(`the run without faults is not sound: ${tally.violations[0]!.text}`);
  return tally;
}

class UnitChild implements AsyncDisposable {
  readonly #child: OwnChild;

  private constructor(child: OwnChild) {
    this.#child = child;
  }

  static async start(): Promise<UnitChild> {
    const child = new OwnChild(fork(new URL("unit-process.ts", import.meta.url), { execArgv: [] }));
    try {
      await child.firstMessage("the process of the runs", MAX_START_MS);
      return new UnitChild(child);
    } catch (error) {
      await child[Symbol.asyncDispose]();
      throw error;
    }
  }

  async run(unit: Unit): Promise<Tally> {
    const { process, exited } = this.#child;
    const { promise, resolve, reject } = Promise.withResolvers<Tally>();
    const onMessage = (message: FromUnitProcess): void => void (message.kind === "done" && resolve(message.tally));
    process.on("message", onMessage);
    void exited.then((how) => reject(new Error(`the process of the runs ended (${how})`)));
    process.send(unit);
    try {
      return await promise;
    } finally {
      process.off("message", onMessage);
    }
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#child[Symbol.asyncDispose]();
  }
}
