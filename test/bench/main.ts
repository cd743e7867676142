/**
 * `npm run bench`: measures speed and cost against an emulator. A run of all parts writes the README's section.
 *
 * Exit status: 0 all goals are reached; 1 a part failed; 2 wrong usage; 3 ended by a signal; 4 a goal is missed.
 */
import { readFile, writeFile } from "node:fs/promises";
import { Command, CommanderError, InvalidArgumentError } from "commander";
import { format, resolveConfig } from "prettier";
import { PARTS, type PartName } from "./parts.ts";
import { replaceSection } from "./readme-section.ts";
import { figuresOf, isFailed, renderReport, type Report } from "./report.ts";
import { isReached, type FailedPart, type FinishedPart } from "./result.ts";
import { runPart } from "./run-part.ts";
import { readVersions } from "./versions.ts";

const EXIT = { reached: 0, failed: 1, usage: 2, aborted: 3, missed: 4 } as const;
const README = new URL("../../README.md", import.meta.url);

interface Options {
  readonly only?: readonly PartName[];
  readonly json?: boolean;
  readonly list?: boolean;
}

const ALL = Object.keys(PARTS) as PartName[];

const program = new Command("bench")
  .description("Measures speed and cost of the package against an emulator, beside raw storage calls and a naive design.")
  .option("--only <name>", "run this part alone; may be given several times. The README stays as it is", collectPart)
  .option("--json", "print the results as one JSON object")
  .option("--list", "name the parts and end")
  .addHelpText("after", "\nExit status: 0 all goals reached, 1 a part failed, 2 wrong usage, 3 ended by a signal, 4 a goal is missed.")
  .exitOverride()
  .action(async (options: Options) => {
    process.exitCode = options.list === true ? list() : await bench(options);
  });

function collectPart(name: string, before: readonly PartName[] = []): readonly PartName[] {
  if (!Object.hasOwn(PARTS, name)) throw new InvalidArgumentError(`The parts are: ${ALL.join(", ")}.`);
  return [...before, name as PartName];
}

function list(): number {
  for (const name of ALL) print(`${name.padEnd(Math.max(...ALL.map(({ length }) => length)))}  ${PARTS[name].about}`);
  return EXIT.reached;
}

async function bench({ only, json = false }: Options): Promise<number> {
  const stop = new AbortController();
  const onSignal = (): void => stop.abort();
  process.once("SIGINT", onSignal).once("SIGTERM", onSignal);
  const startedAt = new Date().toISOString();
  const started = performance.now();
  const elapsed = (): number => (performance.now() - started) / 1_000;
  const parts: (FinishedPart | FailedPart)[] = [];
  for (const name of ALL.filter((each) => only === undefined || only.includes(each))) {
    if (stop.signal.aborted) break;
    const tell = (text: string): void => void process.stderr.write(`${elapsed().toFixed(0).padStart(4)} s  ${name}: ${text}\n`);
    tell(PARTS[name].about);
    const part = await runPart(name, tell, stop.signal);
    if (isFailed(part) && !stop.signal.aborted) tell(part.error);
    parts.push(part);
  }
  if (stop.signal.aborted) return EXIT.aborted;
  const report: Report = { startedAt, seconds: elapsed(), versions: readVersions(), parts };
  print(json ? JSON.stringify(report) : renderReport(report, true));
  const failed = parts.some(isFailed);
  if (only === undefined && !failed) await writeReadme(renderReport(report, false));
  if (failed) return EXIT.failed;
  return figuresOf(report).every(isReached) ? EXIT.reached : EXIT.missed;
}

async function writeReadme(section: string): Promise<void> {
  const text = replaceSection(await readFile(README, "utf8"), section);
  await writeFile(README, await format(text, { ...(await resolveConfig(README)), parser: "markdown" }));
}

function print(text: string): void {
  process.stdout.write(`${text}\n`);
}

// Whoever reads has enough.
process.stdout.on("error", (error: NodeJS.ErrnoException) => process.exit(error.code === "EPIPE" ? process.exitCode : EXIT.failed));
try {
  await program.parseAsync();
} catch (error) {
  if (!(error instanceof CommanderError)) throw error;
  process.exitCode = error.exitCode === 0 ? EXIT.reached : EXIT.usage;
}
