/** Some of the histories of `npm run proof`; a violation prints the command that shows it again. */
import { expect, test } from "vitest";
import { proveDeployments } from "./prove.ts";

test("G2, G3, G5, G6, F10: two deployments at once, deaths, late writes, operators, replays and sweeps", { timeout: 180_000 }, async () => {
  const { violations, figures } = await proveDeployments({ seed: 60, small: true });
  expect(violations.map(({ replay, text }) => `${replay}\n${text}`)).toEqual([]);
  const told = Object.fromEntries(figures);
  expect(told["histories of an order"]).toBe(60);
  expect(told["processes that died"]).toBeGreaterThan(500);
});
