/** Some of the hostile inputs of `npm run proof`; harm prints the command that shows it again. */
import { expect, test } from "vitest";
import { proveHostile } from "./prove.ts";

test("C23, G4, G6: hostile input crashes nothing, drops no event silently, and touches no other order", { timeout: 180_000 }, async () => {
  const { violations, figures } = await proveHostile({ seed: 1, small: true });
  expect(violations.map(({ replay, text }) => `${replay}\n${text}`)).toEqual([]);
  for (const [kind, tried] of figures) expect([kind, tried]).toEqual([kind, expect.toSatisfy((count: number) => count > 0)]);
});
