/** The command says so where Node.js is too old for it. */
import { readFileSync } from "node:fs";
import { expect, test } from "vitest";
import { isNodeSupported, MIN_NODE } from "../../src/cli/node-version.ts";

test.each([
  ["20.19.5", false],
  ["22.0.0", false],
  ["22.17.1", false],
  ["22.18.0", true],
  ["22.100.0", true],
  ["23.0.0", true],
  ["24.2.0", true],
])("Node.js %s: %s", (version, supported) => {
  expect(isNodeSupported(version)).toBe(supported);
});

test("package.json asks for the same version", () => {
  const { engines } = JSON.parse(readFileSync(new URL("../../package.json", import.meta.url), "utf8")) as { engines: { node: string } };
  expect(engines.node).toBe(`>=${MIN_NODE}`);
});
