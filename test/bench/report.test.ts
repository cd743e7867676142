import { readFileSync } from "node:fs";
import { format } from "prettier";
import { describe, expect, test } from "vitest";
import { PARTS } from "./parts.ts";
import { END, replaceSection, sectionOf, START } from "./readme-section.ts";
import { GOAL_COLUMNS, renderReport, type Report } from "./report.ts";
import { isReached, median, short, type FinishedPart } from "./result.ts";

const README = readFileSync(new URL("../../README.md", import.meta.url), "utf8");

const PART: FinishedPart = {
  name: "limit",
  title: "Against the limit",
  seconds: 12.3,
  busyWithOthers: 1.24,
  figures: [
    { name: "efficiency", value: 0.8123, unit: "", goal: { atLeast: 0.8 } },
    { name: "commit", value: 4, unit: "round trips", goal: { atMost: 3 } },
    { name: "never measured", value: Number.NaN, unit: "ms", goal: { atMost: 3 } },
  ],
  tables: [
    { title: "First", columns: ["a", "b"], rows: [["1 | 2", "3"]] },
    { title: "Second", columns: ["c"], rows: [["4"]], detail: true },
  ],
  notes: ["mind this"],
};

const REPORT: Report = {
  startedAt: "2026-11-30T20:00:00.000Z",
  seconds: 99.6,
  versions: { node: "24.0.0", packages: { azurite: "3.37.0" }, cores: 2, processor: "a processor" },
  parts: [PART, { name: "naive", title: "Against the naive design", error: "it broke" }],
};

describe("a report", () => {
  const text = renderReport(REPORT, false);

  test("has date, duration and versions, every figure with its goal, tables, notes, failures, and what is not measured", () => {
    expect(text).toContain("2026-11-30, 100 s: Node 24.0.0, azurite 3.37.0; 2 cores (a processor)");
    expect(text).toContain("| efficiency | 0.812 | ≥ 0.8 | yes |");
    expect(text).toContain("| commit | 4 round trips | ≤ 3 | **no** |");
    expect(text).toContain("| never measured | – ms | ≤ 3 | **no** |");
    expect(text).toContain("First:\n\n| a | b |\n| --- | --- |\n| 1 \\| 2 | 3 |");
    expect(text).toContain("- mind this\n- Others kept 1.2 processors busy during these 12 s.");
    expect(text).toContain("### Against the naive design\n\nFailed: it broke");
    expect(text).toContain("### Not measured\n\n- A real Azure account");
  });

  test("details are left out where they are not asked for", () => {
    expect(text).not.toContain("Second");
    expect(renderReport(REPORT, true)).toContain("Second:\n\n| c |");
  });
});

test("numbers have three digits, a missing one is no goal reached", () => {
  expect([0.123_45, 12.345, 123.45, 1_234.5, 0, Number.NaN].map(short)).toEqual(["0.123", "12.3", "123", "1,235", "0", "–"]);
  expect(isReached({ name: "", value: Number.NaN, unit: "", goal: {} })).toBe(false);
  expect([median([3, 1, 2]), median([4, 1, 2, 3])]).toEqual([2, 2.5]);
});

describe("the README's section", () => {
  test("is replaced between its marks, and nothing else is", () => {
    const readme = `before\n\n${START}\nold\n${END}\n\nafter\n`;
    const written = replaceSection(readme, "new");
    expect(written).toBe(`before\n\n${START}\n\nnew\n\n${END}\n\nafter\n`);
    expect(replaceSection(written, "new")).toBe(written);
    expect(() => replaceSection("no marks", "new")).toThrow("the README must have");
  });

  test("is what a run of all parts has written: every part, every goal with its answer, date and versions", async () => {
    const section = sectionOf(README);
    expect(section).toMatch(/^`npm run bench`, \d{4}-\d{2}-\d{2}, \d+ s: Node \d+\.\d+\.\d+, azurite \d/);
    const titles = [...section.matchAll(/^### (.+)$/gm)].map(([, title]) => title);
    expect(titles).toEqual([...Object.values(PARTS).map(({ title }) => title), "Not measured"]);
    const [head, , ...rows] = section.split("\n").filter((line) => line.startsWith("|")).map(cellsOf); // prettier-ignore
    expect(head).toEqual(GOAL_COLUMNS);
    const goals = rows.slice(
      0,
      rows.findIndex((cells) => cells.length !== GOAL_COLUMNS.length || !/^[≤≥] \d/.test(cells[2]!)),
    );
    expect(goals.length).toBeGreaterThanOrEqual(15);
    for (const [, measured, , reached] of goals) {
      expect(measured).toMatch(/^-?[\d,.]+( \S.*)?$/);
      expect(reached).toMatch(/^(yes|\*\*no\*\*)$/);
    }
    expect(await format(README, { parser: "markdown", printWidth: 140 })).toBe(README);
  });
});

function cellsOf(line: string): readonly string[] {
  return line
    .slice(1, -1)
    .split(/(?<!\\)\|/)
    .map((cell) => cell.trim());
}
