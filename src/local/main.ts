/** `npm start`: the pipeline on this machine, audited. */
import { CommanderError } from "commander";
import { watchStopSignals } from "../system/stop-signals.ts";
import { counted } from "../core/counted.ts";
import { describeError } from "../core/errors.ts";
import { generateHistories } from "./histories.ts";
import { readInput } from "./input.ts";
import { parseOptions, type LocalOptions } from "./options.ts";
import type { Plan } from "./plan.ts";
import { ProgressDisplay } from "./progress-display.ts";
import { isVerified, jsonReport, textReport } from "./report.ts";
import { run } from "./run.ts";
import { RunFolder } from "./run-folder.ts";
import { UsageError } from "./usage-error.ts";

const EXIT_NOT_VERIFIED = 1;
const EXIT_USAGE = 2;
/** As a shell reports a process that a signal ended. */
const EXIT_SIGNAL: Readonly<Record<string, number>> = { SIGINT: 130, SIGTERM: 143 };

async function main(): Promise<number> {
  let options: LocalOptions;
  let input: Plan | undefined;
  let folder: RunFolder;
  try {
    options = parseOptions(process.argv.slice(2));
    input = options.input === undefined ? undefined : await readInput(options.input);
    folder = await RunFolder.open(options.keep);
  } catch (error) {
    if (error instanceof CommanderError) return error.exitCode === 0 ? 0 : EXIT_USAGE;
    if (!(error instanceof UsageError)) throw error;
    process.stderr.write(`error: ${error.message}\n`);
    return EXIT_USAGE;
  }
  const plan = input ?? generateHistories({ orders: options.orders, seed: options.seed, run: folder.run });
  return runAndReport(options, plan, folder);
}

async function runAndReport(options: LocalOptions, plan: Plan, folder: RunFolder): Promise<number> {
  const { producers, workers, kill, seed, json } = options;
  const signals = watchStopSignals();
  let verified = false;
  let interrupted = false;
  try {
    const display = new ProgressDisplay(process.stderr);
    display.line(expectation(plan));
    const result = await run({ plan, folder, producers, workers, kill, seed, display, stop: signals.stop });
    verified = isVerified(result);
    (json ? process.stderr : process.stdout).write(`${textReport(result, { kill })}\n`);
    if (json) process.stdout.write(`${JSON.stringify(jsonReport(result, { kill }))}\n`);
    return verified ? 0 : EXIT_NOT_VERIFIED;
  } catch (error) {
    interrupted = signals.stop.aborted;
    process.stderr.write(interrupted ? "interrupted\n" : `error: ${describeError(error)}\n`);
    return interrupted ? (EXIT_SIGNAL[String(signals.stop.reason)] ?? EXIT_NOT_VERIFIED) : EXIT_NOT_VERIFIED;
  } finally {
    const evidence = !verified && !interrupted;
    await folder.close({ evidence });
    if (evidence) process.stderr.write(`what the handlers wrote down: ${folder.handledLog}\n`);
    signals[Symbol.dispose]();
  }
}

/** So that nobody takes what belongs to the run for a fault of it. */
function expectation(plan: Plan): string {
  const events = plan.reduce((sum, commit) => sum + commit.events.length, 0);
  return `${counted(events, "event")} to commit and handle, at some 20 to 100 a second. The partner refuses 5 % of its deliveries on purpose; they are made again.`;
}

process.exitCode = await main();
