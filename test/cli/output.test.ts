/** What commands print: aligned, and nothing in it that drives a terminal or forges a line. */
import { execFileSync } from "node:child_process";
import { describe, expect, test } from "vitest";
import { commandLine, duration, escaped, facts, jsonDocument, table } from "../../src/cli/output.ts";

const HOSTILE = 'o-1\n2  admin\u001b[2J\u009b31m\u202e<script>alert("x")</script>\u2028\r';
/** What terminals and line-based readers act upon. */
const ACTIVE = /[\u0000-\u0009\u000b-\u001f\u007f-\u009f\u2028-\u202e]/;

describe("tables", () => {
  test("are aligned, numbers to the right, with - for nothing", () => {
    expect(
      table(
        ["ORDER", "BACKLOG", "NOTE"],
        [
          ["o-1", 5, undefined],
          ["order-é📦", 120, "x"],
        ],
      ),
    ).toBe(["ORDER     BACKLOG  NOTE", "o-1             5  -", "order-é📦      120  x"].join("\n"));
    expect(table(["A", "B"], [])).toBe("A  B");
  });

  test("a hostile text stays in its cell", () => {
    const text = table(["ORDER", "ERROR"], [[HOSTILE, HOSTILE.repeat(50)]]);
    expect(text.split("\n")).toHaveLength(2);
    expect(text).not.toMatch(ACTIVE);
    expect(text.split("\n")[1]!.length).toBeLessThan(250);
  });

  test("two ids that differ never look alike, and what is escaped already is not escaped twice", () => {
    const ids = ["o\n1", String.raw`o\u000a1`, String.raw`o\u005cu000a1`];
    expect(
      table(["ORDER"], [["o\n1"], [String.raw`o\u000a1`], ["x"]])
        .split("\n")
        .slice(1),
    ).toEqual([String.raw`o\u000a1`, String.raw`o\u005cu000a1`, "x"]);
    expect(new Set(ids.map((orderId) => facts({ orderId }))).size).toBe(ids.length);
    expect(table(["A"], [[escaped(String.raw`a\u000ab`)], [escaped("\u001b[2J")], [escaped(undefined)]])).toBe(
      ["A", String.raw`a\u000ab`, String.raw`\u001b[2J`, "-"].join("\n"),
    );
    expect(facts({ A: escaped("x".repeat(300), 200) })).toBe(`A: ${"x".repeat(200)}…`);
  });

  test("so does one among facts", () => {
    const text = facts({ Order: HOSTILE, Lease: undefined });
    expect(text.split("\n")).toHaveLength(2);
    expect(text).not.toMatch(ACTIVE);
    expect(facts({ A: 1, Long: undefined })).toBe("A:    1\nLong: -");
  });
});

test("a JSON document holds every value as it is, and nothing that a terminal acts upon", () => {
  const text = jsonDocument({ orderId: HOSTILE });
  expect(JSON.parse(text)).toEqual({ orderId: HOSTILE });
  expect(text).not.toMatch(ACTIVE);
});

test.each([
  [0, "0s"],
  [59.9, "59s"],
  [302, "5m 2s"],
  [3_600, "1h"],
  [273_600, "3d 4h"],
  [-5, "0s"],
])("a span of %d s is %s", (seconds, text) => {
  expect(duration(seconds)).toBe(text);
});

const SHELL_TEXTS = ["o-1", "it's", "$(id) `id` \\", "-rf", "", "é📦", "o-1\n\u001b[2J\u009b\"\\'$x", "a b", "🎉\n1f\u202e7é"];

test.each(SHELL_TEXTS.flatMap((text) => ["C.UTF-8", "C"].map((locale) => [text, locale] as const)))(
  "the shell reads %j back, in the locale %s",
  (orderId, locale) => {
    const line = commandLine(["wake", "--", orderId]);
    expect(line.split("\n")).toHaveLength(1);
    expect(line).not.toMatch(ACTIVE);
    const echo = 'ordered-outbox() { printf "%s\\0" "$@"; }\n';
    const read = execFileSync("bash", ["-c", `${echo}${line}`], { encoding: "utf8", env: { ...process.env, LC_ALL: locale } });
    expect(read.split("\0")).toEqual(["wake", "--", orderId, ""]);
  },
);
