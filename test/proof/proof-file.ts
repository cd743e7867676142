/** PROOF.md: one section a part, as it was when that part ran last. */
import type { PartReport } from "./report.ts";

export interface SectionFacts {
  readonly name: string;
  readonly about: string;
  readonly seed: number;
  /** ISO 8601, the day. */
  readonly date: string;
  readonly elapsedMs: number;
  /** What was tried, and on what. */
  readonly versions: string;
}

const HEAD = `# What was tried

Written by \`npm run proof\`. Each part is as it was when it ran last, with its date. \`npm run proof -- --only NAME --seed SEED\` runs one again.
`;

/** Longer ones are in what the run printed. */
const MAX_VIOLATION_LENGTH = 1_500;
const NOT_FULL = "**, not at full size";

export function renderSection(
  { name, about, seed, date, elapsedMs, versions }: SectionFacts,
  { figures, violations, complete }: PartReport,
): string {
  const result = `**${violations.length === 0 ? "0 violations" : `${violations.length} VIOLATIONS`}${complete ? "**" : NOT_FULL}`;
  const rows = figures.map(
    ([what, value]) => `| ${cell(what)} | ${cell(typeof value === "number" ? value.toLocaleString("en") : value)} |`,
  );
  return [
    `## ${name}`,
    "",
    about,
    "",
    `${result} (seed ${seed}, ${date}, ${(elapsedMs / 60_000).toFixed(1)} min, ${versions})`,
    "",
    "| tried | how much |",
    "| --- | --- |",
    ...rows,
    ...violations.flatMap(({ rule, text, replay }) => ["", `${rule}, again by \`${replay}\`:`, "", ...fenced(text)]),
    "",
  ].join("\n");
}

/** Whether the file tells of a part at full size, tried on the same versions. */
export function hasFullSection(present: string | undefined, name: string, versions: string): boolean {
  const section = sectionsOf(present).get(name);
  return section !== undefined && section.includes(`, ${versions})`) && !section.includes(NOT_FULL);
}

/** @param present what the file holds; undefined if there is none */
export function withSections(present: string | undefined, sections: ReadonlyMap<string, string>, order: readonly string[]): string {
  const kept = sectionsOf(present);
  const all = order.map((name) => sections.get(name) ?? kept.get(name) ?? `## ${name}\n\nNot run yet.\n`);
  return [HEAD, ...all.map((section) => `${section.trimEnd()}\n`)].join("\n");
}

function sectionsOf(present: string | undefined): ReadonlyMap<string, string> {
  return new Map(
    (present ?? "").split(/^(?=## )/m).flatMap((section) => {
      const name = /^## (\S+)/.exec(section)?.[1];
      return name === undefined ? [] : [[name, section] as const];
    }),
  );
}

function cell(text: string): string {
  return text.replaceAll("|", "\\|").replaceAll("\n", " ");
}

function fenced(text: string): readonly string[] {
  const cut = text.length > MAX_VIOLATION_LENGTH ? `…${text.slice(-MAX_VIOLATION_LENGTH)}` : text;
  return ["````text", cut, "````"];
}
