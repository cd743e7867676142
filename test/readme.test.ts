/** The README's tables say what the code says. */
import { readdirSync, readFileSync } from "node:fs";
import type { Command } from "commander";
import { describe, expect, test } from "vitest";
import { EXIT } from "../src/cli/exit.ts";
import { createProgram } from "../src/cli/program.ts";
import { ROUNDS_AT_ONCE } from "../src/functions/app/wake-up-round.ts";
import { MAX_EVENT_BYTES, MAX_INLINE_EVENT_UNITS } from "../src/core/limits.ts";
import { resolveRetryPolicy, type RetryOptions } from "../src/core/retry.ts";
import { METRICS } from "../src/system/metrics.ts";
import { ROOMS } from "./support/rooms.ts";

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

  test("every room, once", () => {
    const paragraph = /^Rooms \(`src\/`\): (.+?)\n\n/ms.exec(README)?.[1] ?? "";
    const named = paragraph.split("·").map((part) => /^\s*`([^`]+)`/.exec(part)?.[1] ?? part);
    expect(named.toSorted()).toEqual(
      Object.keys(ROOMS)
        .filter((room) => room !== ".")
        .toSorted(),
    );
  });

  test("how much memory rounds need, from the bounds of the code", () => {
    const why = tableOf("host.json", "value").find(([name]) => name === "`newBatchThreshold`")?.[2] ?? "";
    const mebibytes = (units: number): number => units / 2 ** 20;
    const [rounds, events] = [24, 100];
    expect(ROUNDS_AT_ONCE).toBe(rounds);
    expect(why).toContain(`${rounds} rounds`);
    expect(why).toContain(`up to ${MAX_INLINE_EVENT_UNITS.toLocaleString("en")} UTF-16 units`);
    expect(why).toContain(`each up to ${mebibytes(MAX_EVENT_BYTES)} MiB`);
    const one = mebibytes(events * MAX_INLINE_EVENT_UNITS);
    expect(why).toContain(`${Math.round(one)} to ${Math.round(2 * one)} MiB`);
    const tens = (value: number): string => (Math.round(value / 10) * 10).toLocaleString("en");
    expect(why).toContain(`${tens(rounds * one)} to ${tens(2 * rounds * one)} MiB`);
  });

  test("outputs of the template by their names, which Azure Resource Manager leaves as they are", () => {
    const template = readFileSync(new URL("../bicep/main.bicep", import.meta.url), "utf8");
    const outputs = [...template.matchAll(/^output (\w+) /gm)].map((match) => match[1]!);
    // It changes the case of others, and a query for them finds nothing.
    for (const name of outputs) expect(name).toMatch(/^[a-z]+(?:[A-Z][a-z]+)*$/);
    const named = [...README.matchAll(/\$\(output (\w+)\)|output `(\w+)`/g)].map((match) => match[1] ?? match[2]!);
    expect(new Set(named)).toEqual(new Set(["functionAppName", "workerPrincipalId", "storageAccountName", "networkId"]));
    expect(outputs).toEqual(expect.arrayContaining(named));
  });

  test("every rule, and each is cited in the code where it is kept", () => {
    const source = new URL("../src/", import.meta.url);
    const files = readdirSync(source, { recursive: true, encoding: "utf8" }).filter((path) => path.endsWith(".ts"));
    const text = files.map((path) => readFileSync(new URL(path, source), "utf8")).join("\n");
    // Two digits after a C are a case; G1 to G6 are the guarantees, in a table of their own.
    const cited = new Set([...text.matchAll(/\b(?:C[1-9]|[WFH][1-9][0-9]?)\b/g)].map(([rule]) => rule));
    const rules = tableOf("rule").map(([rule = ""]) => rule);
    expect([...cited].filter((rule) => !rules.includes(rule))).toEqual([]);
    expect(rules.filter((rule) => !cited.has(rule))).toEqual([]);
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
