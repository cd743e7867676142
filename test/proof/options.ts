/** The command line of the proof. */
import { Command, InvalidArgumentError } from "commander";
import { PARTS, type Part } from "./parts.ts";
import type { ProveOptions } from "./report.ts";

const MAX_SEED = 1_000_000;
const NAMES = PARTS.map(({ name }) => name);

export interface Options {
  readonly parts: readonly Part[];
  readonly run: ProveOptions;
  readonly json: boolean;
  /** Over a section of full size too. */
  readonly write: boolean;
}

interface Given {
  readonly only?: readonly string[];
  readonly seed?: number;
  readonly minutes?: number;
  readonly path?: string;
  readonly short?: boolean;
  readonly json?: boolean;
  readonly write?: boolean;
}

/**
 * @param output what is said of wrong use, and the help. Default: the terminal
 * @throws CommanderError for wrong use, and when the help was asked for: its exit code is 0 then
 */
export function optionsOf(args: readonly string[], output: { readonly writeErr?: (text: string) => void } = {}): Options {
  const program = new Command("proof")
    .description("Tries everything that could break a guarantee, for minutes to hours, and writes test/PROOF.md.")
    .option("--only <names>", `these parts alone, with commas or several times: ${NAMES.join(", ")}`, collectNames)
    .option("--seed <number>", "as in an earlier run; default: the time", wholeNumber)
    .option("--minutes <number>", "of each part: a load lasts so long, the others end by then with what they have", positive)
    .option("--path <path>", "one violation again, as its replay command says; needs --only of one part, and --seed")
    .option("--short", "seconds each; writes nothing")
    .option("--json", "one JSON document on stdout")
    .option("--write", "write a section also if the one that is there is of full size")
    .addHelpText("after", "\nExit status: 0 nothing is broken, 1 a guarantee is broken, 2 wrong use, 130 and 143 ended by a signal.")
    .configureOutput(output)
    .exitOverride()
    .parse(args, { from: "user" });
  const { only, seed, minutes, path, short = false, json = false, write = false } = program.opts<Given>();
  const parts = PARTS.filter(({ name }) => only?.includes(name) ?? true);
  if (path !== undefined && (parts.length !== 1 || seed === undefined)) program.error("--path needs --only of one part, and --seed");
  const deaf = parts.find(({ takesPath }) => path !== undefined && takesPath !== true);
  if (deaf !== undefined) program.error(`--path: ${deaf.name} has none; its violations tell the command that shows them again`);
  return {
    parts,
    run: {
      seed: seed ?? Date.now() % MAX_SEED,
      small: short,
      ...(path === undefined ? {} : { path }),
      ...(minutes === undefined ? {} : { budgetMs: minutes * 60_000 }),
    },
    json,
    write,
  };
}

function collectNames(text: string, before: readonly string[] = []): readonly string[] {
  const names = text.split(",");
  if (names.some((name) => !NAMES.includes(name))) throw new InvalidArgumentError(`The parts are: ${NAMES.join(", ")}.`);
  return [...before, ...names];
}

function wholeNumber(text: string): number {
  if (!/^\d{1,9}$/.test(text)) throw new InvalidArgumentError("A whole number up to 999999999 is needed.");
  return Number(text);
}

function positive(text: string): number {
  const value = Number(text);
  if (!(value > 0 && value < 100_000)) throw new InvalidArgumentError("A number of minutes above 0 is needed.");
  return value;
}
