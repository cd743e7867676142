/** A long mixed load: nothing that a process holds may grow, and an event costs at the end what it cost at the start. */
import { fork } from "node:child_process";
import { once } from "node:events";
import { fileURLToPath } from "node:url";
import { Emulator } from "../../emulator/emulator.ts";
import { OwnChild } from "../../support/own-child.ts";
import type { PartReport, ProveOptions, Violation } from "../report.ts";
import type { Sample, SoakMessage, Totals } from "./messages.ts";
import { trendOf, type Bounds } from "./trend.ts";

const FULL_MS = 3_600_000;
const SMALL_MS = 30_000;
/** From the end of the load until all is handled and told, at most. */
const MAX_END_MS = 300_000;
/** Pools fill, code is compiled: this share of the samples is not judged. */
const WARM_UP = 0.25;
/** What the runtime keeps of memory that it has used once grows for longer than what it uses. */
const RESIDENT_WARM_UP_MINUTES = 5;
const MIN_SAMPLES = 4;
const MEBIBYTE = 1024 * 1024;

const PROCESS = fileURLToPath(new URL("soak-process.ts", import.meta.url));

const WATCHED: readonly (readonly [
  name: string,
  unit: string,
  value: (sample: Sample) => number,
  bounds: Bounds,
  warmUpMinutes?: number,
])[] = [
  ["heap after collection", "MiB", ({ heapBytes }) => heapBytes / MEBIBYTE, { share: 0.1, least: 4 }],
  ["resident memory", "MiB", ({ rssBytes }) => rssBytes / MEBIBYTE, { share: 0.15, least: 32 }, RESIDENT_WARM_UP_MINUTES],
  ["active handles", "", ({ handles }) => handles, { share: 0.25, least: 16 }],
  ["sockets", "", ({ sockets }) => sockets, { share: 0.25, least: 16 }],
  ["timers", "", ({ timers }) => timers, { share: 0.25, least: 16 }],
];
/** Calls an event: so much more may the last third cost than the first. */
const COST_TOLERANCE = 0.1;
/** Polls and sweeps go on whether much is committed or little: in a third with fewer events than this, chance alone is more than the tolerance. */
const MIN_COST_EVENTS = 300;

export async function proveSoak({
  progress,
  seed,
  small = false,
  budgetMs = small ? SMALL_MS : FULL_MS,
}: ProveOptions): Promise<PartReport> {
  const minutes = budgetMs / 60_000;
  await using azurite = await Emulator.start();
  await using child = new OwnChild(
    fork(PROCESS, ["--minutes", String(minutes), "--seed", String(seed)], {
      execArgv: ["--expose-gc"],
      env: { ...process.env, ORDERED_OUTBOX_CONNECTION_STRING: azurite.connectionString },
    }),
  );
  using _late = setTimeout(() => void child.kill(), budgetMs + MAX_END_MS);
  return judge({ ...(await follow(child, progress)), seed, minutes, complete: budgetMs >= FULL_MS });
}

async function follow(
  { process, exited }: OwnChild,
  progress: ProveOptions["progress"],
): Promise<{ samples: readonly Sample[]; totals: Totals | undefined; end: string }> {
  const told = once(process, "disconnect");
  const samples: Sample[] = [];
  let totals: Totals | undefined;
  process.on("message", (message: SoakMessage) => {
    if ("totals" in message) {
      ({ totals } = message);
      return;
    }
    const { sample } = message;
    samples.push(sample);
    const shown = WATCHED.map(([name, unit, value]) => `${name} ${value(sample).toFixed(0)}${unit === "" ? "" : ` ${unit}`}`).join(", ");
    progress?.(`sample ${samples.length}: ${shown}, ${sample.calls} calls for ${sample.events} events`);
  });
  const end = await exited;
  // The last message may arrive after that.
  await told;
  return { samples, totals, end };
}

function judge(run: {
  readonly samples: readonly Sample[];
  readonly totals: Totals | undefined;
  readonly end: string;
  readonly seed: number;
  readonly minutes: number;
  readonly complete: boolean;
}): PartReport {
  const { samples, totals, end, seed, minutes, complete } = run;
  const replay = `npm run proof -- --only soak --seed ${seed} --minutes ${minutes}`;
  const figures: [string, number | string][] = [["minutes of mixed load", Number(minutes.toFixed(1))]];
  const violations: Violation[] = [];
  const violated = (rule: string, text: string): void => void violations.push({ rule, text, replay });
  const judged = samples.slice(Math.floor(samples.length * WARM_UP));
  if (totals === undefined || judged.length < MIN_SAMPLES) {
    violated("crash", `the loaded process ended (${end}) after ${samples.length} samples`);
    return { figures, violations, complete: false };
  }
  figures.push(
    ["events committed", totals.committed],
    ["events handled, of two subscriptions", totals.handled],
    ["operators' acts", totals.operatorActs],
    ["handled twice", totals.duplicates],
  );
  for (const [name, unit, value, bounds, warmUpMinutes = 0] of WATCHED) {
    const settled = judged.slice(Math.max(0, Math.ceil((warmUpMinutes / minutes) * samples.length) - (samples.length - judged.length)));
    if (settled.length < MIN_SAMPLES) {
      figures.push([name, `not judged: it takes ${warmUpMinutes} minutes until it can be`]);
      continue;
    }
    const { first, last, highest, growth, allowed, isFlat } = trendOf(settled.map(value), bounds);
    const number = (of: number): string => `${of.toFixed(1)}${unit === "" ? "" : ` ${unit}`}`;
    figures.push([
      name,
      `${number(first)} at first, ${number(last)} at last, ${number(highest)} at most; trend ${number(growth)}, ${number(allowed)} is flat`,
    ]);
    if (!isFlat) violated("growth", `${name} grows by ${number(growth)}, ${number(allowed)} is allowed`);
  }
  const third = Math.floor(judged.length / 3);
  const eventsIn = (part: readonly Sample[]): number => part.reduce((sum, { events }) => sum + events, 0);
  const cost = (part: readonly Sample[]): number => part.reduce((sum, { calls }) => sum + calls, 0) / eventsIn(part);
  const [before, after] = [cost(judged.slice(0, third)), cost(judged.slice(-third))];
  const fewest = Math.min(eventsIn(judged.slice(0, third)), eventsIn(judged.slice(-third)));
  const isJudged = fewest >= MIN_COST_EVENTS;
  const verdict = isJudged ? `${COST_TOLERANCE * 100} % more is unchanged` : `not judged: ${fewest} events in a third are too few`;
  figures.push(["storage calls an event", `${before.toFixed(1)} in the first third, ${after.toFixed(1)} in the last; ${verdict}`]);
  if (isJudged && after > before * (1 + COST_TOLERANCE))
    violated("growth", `an event costs ${after.toFixed(1)} calls at the end, and ${before.toFixed(1)} at the start`);
  if (totals.missing > 0) violated("G3", `${totals.missing} events were not handled`);
  if (totals.outOfOrder > 0) violated("G2", `${totals.outOfOrder} events were handled out of order`);
  for (const problem of totals.problems) violated("crash", problem);
  return { figures, violations, complete };
}
