import { describe, expect, test } from "vitest";
import { optionsOf } from "./options.ts";

describe("npm run proof: wrong use is refused with the option and what is allowed", () => {
  test.each([
    [["--only", "nonsense"], "--only nonsense: one of model, schedules"],
    [["--seed", "abc"], "--seed abc: a number"],
    [["--seed", " "], "--seed  : a number"],
    [["--minutes=-1"], "--minutes -1: a number"],
    [["--minutes", "0"], "--minutes 0: more than 0"],
    [["--path", "1:2"], "--path needs --only of one part, and --seed"],
    [["--only", "hostile,schedules", "--seed", "1", "--path", "1:2"], "--path needs --only of one part, and --seed"],
    [["--only", "kills", "--seed", "1", "--path", "1:2"], "--path: kills has none"],
    [["--nonsense"], "--nonsense"],
  ])("%j", (args, told) => {
    expect(() => optionsOf(args)).toThrow(told);
  });
});

test("npm run proof: all parts at full size if nothing is said, one of them again by its path", () => {
  expect(optionsOf([])).toMatchObject({ run: { small: false }, json: false, write: false });
  expect(optionsOf([]).parts).toHaveLength(8);
  const { parts, run } = optionsOf(["--only", "schedules", "--seed", "7", "--path", "3:1", "--minutes", "2"]);
  expect(parts.map(({ name }) => name)).toEqual(["schedules"]);
  expect(run).toEqual({ seed: 7, small: false, path: "3:1", budgetMs: 120_000 });
});
