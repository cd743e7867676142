/** The command line of the proof. */
import { parseArgs } from "node:util";
import { PARTS, type Part } from "./parts.ts";
import type { ProveOptions } from "./report.ts";

const MAX_SEED = 1_000_000;

export interface Options {
  readonly parts: readonly Part[];
  readonly run: ProveOptions;
  readonly json: boolean;
  /** Over a section of full size too. */
  readonly write: boolean;
}

/** @throws Error which names the option, the value and what is allowed */
export function optionsOf(args: readonly string[]): Options {
  const { values } = parseArgs({
    args: [...args],
    options: {
      only: { type: "string" },
      seed: { type: "string" },
      minutes: { type: "string" },
      path: { type: "string" },
      short: { type: "boolean", default: false },
      json: { type: "boolean", default: false },
      write: { type: "boolean", default: false },
    },
  });
  const names = values.only?.split(",");
  for (const name of names ?? []) {
    if (!PARTS.some((part) => part.name === name))
      throw new Error(`--only ${name}: one of ${PARTS.map((part) => part.name).join(", ")} is needed`);
  }
  if (values.path !== undefined && (names?.length !== 1 || values.seed === undefined))
    throw new Error("--path needs --only of one part, and --seed");
  const deaf = PARTS.find(({ name, takesPath }) => values.path !== undefined && names?.includes(name) && takesPath !== true);
  if (deaf !== undefined) throw new Error(`--path: ${deaf.name} has none; its violations tell the command that shows them again`);
  const seed = values.seed === undefined ? Date.now() % MAX_SEED : numberOf("seed", values.seed);
  return {
    parts: PARTS.filter(({ name }) => names?.includes(name) ?? true),
    run: {
      seed,
      small: values.short,
      ...(values.path === undefined ? {} : { path: values.path }),
      ...(values.minutes === undefined ? {} : { budgetMs: msOf(values.minutes) }),
    },
    json: values.json,
    write: values.write,
  };
}

function msOf(minutes: string): number {
  const ms = numberOf("minutes", minutes) * 60_000;
  if (ms === 0) throw new Error(`--minutes ${minutes}: more than 0 is needed`);
  return ms;
}

function numberOf(name: string, text: string): number {
  const value = Number(text);
  if (!(value >= 0) || text.trim() === "") throw new Error(`--${name} ${text}: a number is needed`);
  return value;
}
