/**
 * `npm run proof`: tries everything that could break a guarantee, for minutes to hours, and writes test/PROOF.md. `-- --help` tells its options.
 *
 * Each part that has run writes its section, also alone by `--only`; `--short` and `--path` write nothing. A sound run of less than the full size
 * leaves a section of full size alone that tells of the same versions, unless `--write` is given.
 */
import { execFileSync } from "node:child_process";
import { existsSync, readFileSync, writeFileSync } from "node:fs";
import { createRequire } from "node:module";
import { fileURLToPath } from "node:url";
import { CommanderError } from "commander";
import { stoppedStatus } from "../support/own-child.ts";
import { optionsOf, type Options } from "./options.ts";
import { PARTS, type Part } from "./parts.ts";
import { hasFullSection, renderSection, withSections } from "./proof-file.ts";
import type { PartReport, ProveOptions } from "./report.ts";

const FILE = fileURLToPath(new URL("../PROOF.md", import.meta.url));

interface Ended extends PartReport {
  readonly name: string;
  readonly elapsedMs: number;
}

async function runPart({ name, about, prove }: Part, run: ProveOptions): Promise<Ended> {
  const startedAt = performance.now();
  const say = (line: string): void => {
    const seconds = Math.round((performance.now() - startedAt) / 1_000);
    process.stderr.write(`${name} ${String(Math.floor(seconds / 60)).padStart(2, "0")}:${String(seconds % 60).padStart(2, "0")} ${line}\n`);
  };
  say(about);
  let report: PartReport;
  try {
    report = await prove({ ...run, progress: say });
  } catch (error) {
    const text = String((error as Error)?.stack ?? error);
    report = {
      figures: [],
      violations: [{ rule: "crash", text, replay: `npm run proof -- --only ${name} --seed ${run.seed}` }],
      complete: false,
    };
  }
  return { name, ...report, elapsedMs: Math.round(performance.now() - startedAt) };
}

/** Of what was tried, and of what it ran on. */
function versions(): string {
  const require = createRequire(import.meta.url);
  const versionOf = (path: string): string => (require(path) as { version: string }).version;
  const sdks = ["data-tables", "storage-blob", "storage-queue"].map((name) => `@azure/${name} ${sdkVersion(name)}`);
  return [
    `ordered-outbox ${versionOf("../../package.json")}${commit()}`,
    `Node ${process.versions.node}`,
    `Azurite ${versionOf("azurite/package.json")}`,
    ...sdks,
  ].join(", ");
}

/** Their package.json is not among what they export. */
function sdkVersion(name: string): string {
  const file = new URL(`../../node_modules/@azure/${name}/package.json`, import.meta.url);
  return (JSON.parse(readFileSync(file, "utf8")) as { version: string }).version;
}

function commit(): string {
  try {
    const git = (...args: readonly string[]): string =>
      execFileSync("git", [...args], { encoding: "utf8", stdio: ["ignore", "pipe", "ignore"] }).trim();
    return ` at ${git("rev-parse", "--short", "HEAD")}${git("status", "--porcelain", "--", "src") === "" ? "" : " and changes"}`;
  } catch {
    // Not a clone.
    return "";
  }
}

function tell({ name, figures, violations, complete, elapsedMs }: Ended): void {
  const result = violations.length === 0 ? "0 violations" : `${violations.length} VIOLATIONS`;
  process.stdout.write(`\n${name}: ${result}${complete ? "" : ", not at full size"} (${(elapsedMs / 1_000).toFixed(0)} s)\n`);
  for (const [what, value] of figures)
    process.stdout.write(`  ${what}: ${typeof value === "number" ? value.toLocaleString("en") : value}\n`);
  for (const { rule, text, replay } of violations) process.stdout.write(`\n${rule} is broken:\n${text}\nShow it again: ${replay}\n`);
}

function write(ended: Ended, { run, write: always }: Options, facts: string): void {
  const part = PARTS.find(({ name }) => name === ended.name)!;
  const date = new Date().toISOString().slice(0, 10);
  const section = renderSection({ ...part, seed: run.seed, date, elapsedMs: ended.elapsedMs, versions: facts }, ended);
  const present = existsSync(FILE) ? readFileSync(FILE, "utf8") : undefined;
  if (!always && !ended.complete && ended.violations.length === 0 && hasFullSection(present, ended.name, facts)) {
    process.stderr.write(`${ended.name}: PROOF.md keeps its section of full size; --write would replace it
`);
    return;
  }
  writeFileSync(
    FILE,
    withSections(
      present,
      new Map([[ended.name, section]]),
      PARTS.map(({ name }) => name),
    ),
  );
}

let options: Options;
try {
  options = optionsOf(process.argv.slice(2));
} catch (error) {
  if (!(error instanceof CommanderError)) throw error;
  process.exit(error.exitCode === 0 ? 0 : 2);
}
const { parts, run, json } = options;
process.stderr.write(`seed ${run.seed}\n`);
const facts = versions();
const results: Ended[] = [];
for (const part of parts) {
  const ended = await runPart(part, run);
  // What a part tells whose processes were taken from it is worth nothing.
  const status = stoppedStatus();
  if (status !== undefined) process.exit(status);
  results.push(ended);
  if (!json) tell(ended);
  // After each part: a run that is stopped keeps what it has.
  if (run.small !== true && run.path === undefined) write(ended, options, facts);
}
const isSound = results.every(({ violations }) => violations.length === 0);
if (json) process.stdout.write(`${JSON.stringify({ seed: run.seed, sound: isSound, versions: facts, parts: results }, undefined, 2)}\n`);
else process.stdout.write(`\n${isSound ? "Nothing is broken" : "BROKEN"} (seed ${run.seed})\n`);
// Parts that take time over leave handles of their own.
process.exit(isSound ? 0 : 1);
