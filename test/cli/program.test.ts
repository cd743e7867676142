/** What the table of commands promises of every command (`--help`, `--json`, bounds in the help). */
import type { Command, Option } from "commander";
import { describe, expect, test } from "vitest";
import { createProgram } from "../../src/cli/program.ts";
import { CLEANUP_BOUNDS, createCleaner } from "../../src/operations/cleanup.ts";
import { createReconciler, RECONCILE_BOUNDS } from "../../src/operations/reconcile.ts";
import { resolveHostOptions, type WorkerHostOptions } from "../../src/worker/host-options.ts";
import { createMemoryStorage } from "../support/memory-storage.ts";

function leaves(command: Command): readonly Command[] {
  return command.commands.length === 0 ? [command] : command.commands.flatMap(leaves);
}

const commands = leaves(createProgram("0.0.0"));
const options = commands.flatMap((command) => command.options.map((option) => [`${command.name()} ${option.flags}`, option] as const));
/** What the help calls a number or a span of time. */
const NUMERIC = /<(?:count|days|orders|pages|port|seconds|sequence|span)>$/;
const numeric = options.filter(([flags]) => NUMERIC.test(flags));
const BOUNDS = /: (?<min>\d+)(?<unit>[smhd]?) to (?<max>\d+)(?<maxUnit>[smhd]?) \(default: .+\)$/;

function accepts({ parseArg }: Option, text: string): boolean {
  try {
    parseArg!(text, undefined);
    return true;
  } catch {
    return false;
  }
}

describe("numeric options", () => {
  test("are found by the name of their argument, and are all that is parsed", () => {
    expect(numeric.length).toBeGreaterThan(15);
    expect(options.filter(([, { parseArg }]) => parseArg !== undefined)).toEqual(numeric);
  });

  test.each(numeric)("%s: the help names the range that is accepted, and the default", (_flags, option) => {
    const { min, unit, max, maxUnit } = BOUNDS.exec(option.description)!.groups!;
    for (const allowed of [`${min}${unit}`, `${max}${maxUnit}`]) expect([allowed, accepts(option, allowed)]).toEqual([allowed, true]);
    const below = Number(min) - 1;
    for (const refused of [`${below}${unit}`, `${Number(max) + 1}${maxUnit}`, "1e3", "1.5", "", "x"]) {
      expect([refused, accepts(option, refused)]).toEqual([refused, false]);
    }
  });

  test("the ranges are those of what they set", () => {
    const storage = createMemoryStorage();
    const { maxDeletes: _deletes, ...days } = CLEANUP_BOUNDS;
    for (const [name, { min, max }] of Object.entries(days)) {
      for (const value of [min, max]) createCleaner({ storage, [name]: value });
      for (const value of [min - 1, max + 1]) expect(() => createCleaner({ storage, [name]: value })).toThrow(name);
    }
    const { min, max } = RECONCILE_BOUNDS.safetyDelayMs;
    for (const safetyDelayMs of [min, max]) createReconciler({ storage, safetyDelayMs });
    for (const safetyDelayMs of [min - 1, max + 1]) expect(() => createReconciler({ storage, safetyDelayMs })).toThrow("safetyDelayMs");

    const [, concurrency] = numeric.find(([flags]) => flags.includes("--concurrency"))!;
    const host = (given: object): number => resolveHostOptions(given as WorkerHostOptions).concurrency;
    expect(concurrency.description).toContain(`1 to 256 (default: ${host({})})`);
    expect([host({ concurrency: 1 }), host({ concurrency: 256 })]).toEqual([1, 256]);
    for (const value of [0, 257]) expect(() => host({ concurrency: value })).toThrow("concurrency");
  });
});

test.each(commands.map((command) => [command.name(), command] as const))("%s describes itself and has --json", (_name, command) => {
  expect(command.description()).not.toBe("");
  expect(command.options.map(({ long }) => long)).toEqual(expect.arrayContaining(["--json", "--verbose", "--prefix", "--account"]));
  for (const option of command.options) expect(option.description).not.toBe("");
});
