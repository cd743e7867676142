/** What takes too long for every test run: the tests of `test/vitest.proof.config.ts`, a file each for something big. */
import { spawn } from "node:child_process";
import { once } from "node:events";
import { globSync } from "node:fs";
import { mkdtempDisposable, readFile } from "node:fs/promises";
import { createRequire } from "node:module";
import { tmpdir } from "node:os";
import { dirname, join, relative } from "node:path";
import { createInterface } from "node:readline";
import { fileURLToPath } from "node:url";
import { counted } from "../../src/core/counted.ts";
import { OwnChild } from "../support/own-child.ts";
import type { PartReport, ProveOptions, Violation } from "./report.ts";

const ROOT = fileURLToPath(new URL("../..", import.meta.url));
const CONFIG = "test/vitest.proof.config.ts";
const VITEST = join(dirname(createRequire(import.meta.url).resolve("vitest/package.json")), "vitest.mjs");
const MAX_TEXT_LENGTH = 2_000;
/** A timer holds no more. */
const MAX_TIMER_MS = 2 ** 31 - 1;

/** What vitest writes of a run, as far as it is read here. */
interface Results {
  readonly testResults: readonly {
    /** Path of the file. */
    readonly name: string;
    readonly startTime: number;
    readonly endTime: number;
    readonly message: string;
    readonly status: string;
    readonly assertionResults: readonly {
      readonly fullName: string;
      readonly status: string;
      readonly failureMessages?: readonly string[];
    }[];
  }[];
}

type FileResults = Results["testResults"][number];

export async function proveFullSize({
  progress = () => undefined,
  seed,
  budgetMs = Number.POSITIVE_INFINITY,
  path,
  small = false,
}: ProveOptions): Promise<PartReport> {
  if (small) return { figures: [["tests", 0]], violations: [], complete: false };
  const until = performance.now() + budgetMs;
  const files = path === undefined ? globSync("test/**/*.proof.ts", { cwd: ROOT }).toSorted() : [path];
  const results: FileResults[] = [];
  const unfinished: string[] = [];
  for (const file of files) {
    const left = until - performance.now();
    const found = left > 0 ? await runFile(file, left, progress) : undefined;
    if (found === undefined) unfinished.push(file);
    else results.push(...found);
  }
  const tests = results.flatMap(({ assertionResults }) => assertionResults);
  const passed = tests.filter(({ status }) => status === "passed").length;
  return {
    figures: [
      ["tests at full size", tests.length],
      ["of them passed", passed],
      ...results.map(figureOf),
      ...unfinished.map((file) => [file, "not over in the time given"] as const),
    ],
    violations: results.flatMap((result) => violationsOf(result, seed)),
    complete: path === undefined && tests.length > 0 && passed === tests.length && unfinished.length === 0,
  };
}

/** Undefined if it takes longer than this. */
async function runFile(file: string, maxMs: number, progress: (line: string) => void): Promise<readonly FileResults[] | undefined> {
  await using folder = await mkdtempDisposable(join(tmpdir(), "ordered-outbox-proof-"));
  const output = join(folder.path, "results.json");
  const args = [VITEST, "run", "--config", CONFIG, "--reporter=verbose", "--reporter=json", `--outputFile.json=${output}`, file];
  const env = { ...process.env, NO_COLOR: "1" };
  const started = spawn(process.execPath, args, { cwd: ROOT, env, stdio: ["ignore", "pipe", "pipe"], detached: true });
  await using child = new OwnChild(started, { isGroup: true });
  for (const stream of [started.stdout, started.stderr])
    createInterface(stream).on("line", (line) => void (line.trim() === "" || progress(line.trim())));
  const late = new AbortController();
  using _late = maxMs < MAX_TIMER_MS ? setTimeout(() => late.abort(), maxMs) : undefined;
  const isLate = once(late.signal, "abort").then(() => true);
  if (await Promise.race([child.exited.then(() => false), isLate])) return undefined;
  return (JSON.parse(await readFile(output, "utf8")) as Results).testResults;
}

function figureOf({ name, startTime, endTime, assertionResults }: FileResults): readonly [string, string] {
  return [relative(ROOT, name), `${counted(assertionResults.length, "test")} in ${((endTime - startTime) / 1_000).toFixed(0)} s`];
}

function violationsOf({ name, message, status, assertionResults }: FileResults, seed: number): readonly Violation[] {
  const replay = `npm run proof -- --only full-size --seed ${seed} --path ${relative(ROOT, name)}`;
  const failed = assertionResults.filter((test) => test.status === "failed");
  // A file that could not even be run has no tests.
  if (failed.length === 0) return status === "failed" ? [{ rule: "full-size", text: message.slice(0, MAX_TEXT_LENGTH), replay }] : [];
  return failed.map(({ fullName, failureMessages = [] }) => ({
    rule: "full-size",
    text: `${fullName}\n${failureMessages.join("\n").slice(0, MAX_TEXT_LENGTH)}`,
    replay,
  }));
}
