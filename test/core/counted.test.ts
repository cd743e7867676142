import { expect, test } from "vitest";
import { counted } from "../../src/core/counted.ts";

test("one of a thing, and any other number of them", () => {
  expect([0, 1, 2].map((count) => counted(count, "order"))).toEqual(["0 orders", "1 order", "2 orders"]);
  expect([1, 2].map((count) => counted(count, "entry", "entries"))).toEqual(["1 entry", "2 entries"]);
});
