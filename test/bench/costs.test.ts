import { expect, test } from "vitest";
import { dollarsOf, dollarsPerMillion, serviceBusCheaperFrom, serviceBusMonth } from "./costs.ts";

test("§8: an event alone, by the classes of its 16 calls", () => {
  const byPriceClass = { table: 5, queue: 4, "blob write": 2, "blob other": 4, "blob free": 1 } as const;
  // 2 × $5.50 + 4 × $0.44 + 4 × $0.40 + 5 × $0.036
  expect(dollarsPerMillion({ byPriceClass }, 1)).toBeCloseTo(14.54, 9);
  expect(dollarsPerMillion({ byPriceClass }, 10)).toBeCloseTo(1.454, 9);
});

test("a list costs what a write costs, a delete nothing", () => {
  expect(dollarsOf({ byPriceClass: { "blob list": 10_000 } })).toBe(dollarsOf({ byPriceClass: { "blob write": 10_000 } }));
  expect(dollarsOf({ byPriceClass: { "blob free": 10_000 } })).toBe(0);
});

test.each([
  [0, 9.81],
  [13_000_000, 9.81],
  [14_000_000, 10.61],
  [100_000_000, 79.41],
  [102_000_000, 80.41],
])("Service Bus Standard: %d operations a month are $%d", (operations, cost) => {
  expect(serviceBusMonth(operations)).toBeCloseTo(cost, 9);
});

test("Service Bus is cheaper from where the calls have eaten its base charge", () => {
  // $9.81 = $0.81 + $10 × 0.9.
  expect(serviceBusCheaperFrom({ idle: 0.81, perMillion: 10 }, 4)! / 1_000_000).toBeCloseTo(0.9, 5);
  // In the cheap step: $79.41 + (3 × 42.0143 - 100) × $0.50 = $2.20 × 42.0143.
  expect(serviceBusCheaperFrom({ idle: 0, perMillion: 2.2 }, 3)! / 1_000_000).toBeCloseTo(42.0143, 4);
  expect(serviceBusCheaperFrom({ idle: 0, perMillion: 1 }, 3)).toBeUndefined();
});
