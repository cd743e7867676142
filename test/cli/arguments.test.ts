/** Texts of the command line as values. */
import { Command } from "commander";
import { expect, test } from "vitest";
import { spanOption } from "../../src/cli/arguments.ts";

function parse(text: string, settings?: { readonly bareSeconds: boolean }): unknown {
  const bounds = { min: 1_000, max: 3_600_000, default: 60_000 };
  const command = new Command().exitOverride().configureOutput({ writeErr: () => {} });
  return command
    .addOption(spanOption("--every <span>", "how often", bounds, settings))
    .parse(["--every", text], { from: "user" })
    .opts()["every"];
}

test.each([
  ["60s", 60_000],
  ["5m", 300_000],
  ["1h", 3_600_000],
])("a span %s", (text, ms) => {
  expect(parse(text)).toBe(ms);
});

test("a bare number is one of seconds only where that is meant: elsewhere it might be days", () => {
  expect(parse("60", { bareSeconds: true })).toBe(60_000);
  expect(parse("5m", { bareSeconds: true })).toBe(300_000);
  expect(() => parse("60")).toThrow("A time span like");
});

test.each(["0", "0s", "2h", "1.5h", "-1", "s", ""])("no span, or out of bounds: '%s'", (text) => {
  expect(() => parse(text, { bareSeconds: true })).toThrow("from 1s to 1h");
});
