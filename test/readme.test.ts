/** The README's tables say what the code says. */
import { readFileSync } from "node:fs";
import type { Command } from "commander";
import { describe, expect, test } from "vitest";
import { EXIT } from "../src/cli/exit.ts";
import { createProgram } from "../src/cli/program.ts";
import { resolveRetryPolicy, type RetryOptions } from "../src/core/retry.ts";
import { METRICS } from "../src/system/metrics.ts";

const README = readFileSync(new URL("../README.md", import.meta.url), "utf8");

/** The body of the first table whose heading row begins with these cells. */
function tableOf(...headings: readonly string[]): readonly (readonly string[])[] {
  const lines = README.split("\n").map(cellsOf);
  const start = lines.findIndex((cells) => cells !== undefined && headings.every((heading, column) => cells[column] === heading));
  if (start < 0) throw new Error(`the README has no table with the columns ${headings.join(", ")}`);
  const end = lines.findIndex((cells, index) => index > start && cells === undefined);
  return lines.slice(start + 2, end).map((cells) => cells ?? []);
}

function cellsOf(line: string): readonly string[] | undefined {
  return /^\|.*\|$/.test(line) ? line.slice(1, -1).split(/(?<!\\)\|/).map((cell) => cell.trim()) : undefined; // prettier-ignore
}

function code(text: string): string {
  return `\`${text}\``;
}

/** Options that many commands have: the README describes them once. */
const COMMON = ["--connection-string-env", "--account", "--prefix", "--json", "--verbose", "--actor", "--reason", "--dry-run"];

/** Commands that do something, each with its path. */
function leaves(
  command: Command,
  path: readonly string[] = [],
): readonly { readonly path: readonly string[]; readonly command: Command }[] {
  return command.commands.flatMap((child) => {
    const own = [...path, child.name()];
    return child.commands.length > 0 ? leaves(child, own) : [{ path: own, command: child }];
  });
}

function longFlags(command: Command): readonly string[] {
  return command.options.map(({ long }) => long ?? "");
}

describe("README", () => {
  test("every command, as the command line describes itself", () => {
    const rows = leaves(createProgram("0.0.0")).map(({ path, command }) => {
      const args = command.registeredArguments.map((argument) => (argument.required ? `<${argument.name()}>` : `[${argument.name()}]`));
      const own = longFlags(command).filter((flag) => !COMMON.includes(flag));
      return [code([...path, ...args].join(" ")), command.description(), own.map(code).join(" ")];
    });
    expect(tableOf("command", "what it does")).toEqual(rows);
  });

  test("who asks for a reason, and who has a dry run", () => {
    const having = (flag: string): readonly string[] =>
      leaves(createProgram("0.0.0")).flatMap(({ path, command }) => (longFlags(command).includes(flag) ? path.join(" ") : []));
    const changing = ["dead redrive", "dead discard", "replay", "backfill", "pause", "resume", "wake", "unlock"];
    const recorded = [...changing, "cleanup"];
    expect(having("--reason")).toEqual(recorded);
    expect(having("--actor")).toEqual(recorded);
    expect(having("--dry-run")).toEqual([...changing, "sweep", "reconcile", "cleanup"]);
  });

  test("every exit status", () => {
    expect(tableOf("exit status").map(([status]) => Number(status))).toEqual(Object.values(EXIT));
  });

  test("every metric, with its alarm", () => {
    const rows = Object.entries(METRICS).map(([name, { kind, unit, meaning, attributes, alarm }]) => [
      code(name),
      kind,
      code(unit),
      meaning,
      attributes.map(code).join(" "),
      alarm,
    ]);
    expect(tableOf("metric", "kind")).toEqual(rows);
  });

  test("every retry setting, its default and its bounds", () => {
    const rows = tableOf("setting", "default").map(([name = "", fallback = "", min = "", max = ""]) => ({
      name: name.replaceAll("`", "") as Exclude<keyof RetryOptions, "onDead">,
      fallback: numberOf(fallback),
      min: numberOf(min),
      max: numberOf(max),
    }));
    const { onDead, ...defaults } = resolveRetryPolicy("test");
    expect(onDead).toBe("block");
    expect(Object.fromEntries(rows.map(({ name, fallback }) => [name, fallback]))).toEqual(defaults);
    for (const { name, min, max } of rows) {
      for (const allowed of [min, max]) expect(resolveRetryPolicy("test", { [name]: allowed })[name]).toBe(allowed);
      for (const refused of [min - 1, max + 1]) expect(() => resolveRetryPolicy("test", { [name]: refused })).toThrow(name);
    }
  });
});

function numberOf(cell: string): number {
  return Number(cell.replaceAll(",", ""));
}
