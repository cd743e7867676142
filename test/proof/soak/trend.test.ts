import { describe, expect, test } from "vitest";
import { trendOf } from "./trend.ts";

const BOUNDS = { share: 0.1, least: 2 };

describe("a trend", () => {
  test("a leak shows through noise", () => {
    const noisy = Array.from({ length: 100 }, (_each, index) => 100 + index * 0.3 + (index % 7));
    expect(trendOf(noisy, BOUNDS)).toMatchObject({ isFlat: false, growth: expect.closeTo(30, 0) as number });
  });

  test("noise is flat, and so is what shrinks", () => {
    expect(
      trendOf(
        Array.from({ length: 100 }, (_each, index) => 100 + ((index * 37) % 11)),
        BOUNDS,
      ).isFlat,
    ).toBe(true);
    expect(trendOf([100, 90, 80, 70], BOUNDS).isFlat).toBe(true);
  });

  test("a few more of something small are no growth", () => {
    expect(trendOf([1, 1, 2, 2], BOUNDS)).toMatchObject({ isFlat: true, allowed: 2 });
    expect(trendOf([1, 3, 5, 7], BOUNDS).isFlat).toBe(false);
  });
});
