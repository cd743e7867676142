import { describe, expect, test } from "vitest";
import { hasFullSection, renderSection, withSections } from "./proof-file.ts";
import type { PartReport } from "./report.ts";

const FACTS = { name: "schedules", about: "Orders of calls.", seed: 7, date: "2026-01-02", elapsedMs: 90_000, versions: "Node 24" };
const REPORT: PartReport = {
  figures: [
    ["schedules", 100_000],
    ["a|b", "x"],
  ],
  violations: [],
  complete: true,
};

describe("PROOF.md", () => {
  test("a section tells result, seed, date and figures", () => {
    expect(renderSection(FACTS, REPORT)).toBe(
      [
        "## schedules",
        "",
        "Orders of calls.",
        "",
        "**0 violations** (seed 7, 2026-01-02, 1.5 min, Node 24)",
        "",
        "| tried | how much |",
        "| --- | --- |",
        "| schedules | 100,000 |",
        "| a\\|b | x |",
        "",
      ].join("\n"),
    );
  });

  test("violations are told with the command that shows them again; a short run says so", () => {
    const text = renderSection(FACTS, {
      ...REPORT,
      violations: [{ rule: "G2", text: "## out of order", replay: "npm run x" }],
      complete: false,
    });
    expect(text).toContain("**1 VIOLATIONS**, not at full size");
    expect(text).toContain("G2, again by `npm run x`:");
  });

  test("a section of full size counts for its versions alone", () => {
    const file = (report: PartReport): string =>
      withSections(undefined, new Map([["schedules", renderSection(FACTS, report)]]), ["model", "schedules"]);
    expect(hasFullSection(file(REPORT), "schedules", "Node 24")).toBe(true);
    expect(hasFullSection(file(REPORT), "schedules", "Node 25")).toBe(false);
    expect(hasFullSection(file(REPORT), "model", "Node 24")).toBe(false);
    expect(hasFullSection(file({ ...REPORT, complete: false }), "schedules", "Node 24")).toBe(false);
    expect(hasFullSection(undefined, "schedules", "Node 24")).toBe(false);
  });

  test("parts that did not run keep what they had, and the order is always the same", () => {
    const old = withSections(
      undefined,
      new Map([
        ["b", "## b\n\nold b\n"],
        ["c", "## c\n\nold c\n"],
      ]),
      ["a", "b", "c"],
    );
    const next = withSections(old, new Map([["c", "## c\n\nnew c\n"]]), ["a", "b", "c"]);
    expect(next).toMatch(/## a\n\nNot run yet\.\n\n## b\n\nold b\n\n## c\n\nnew c\n$/);
    expect(withSections(next, new Map(), ["a", "b", "c"])).toBe(next);
  });
});
