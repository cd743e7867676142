import { CommanderError } from "commander";
import { describe, expect, test } from "vitest";
import { optionsOf } from "./options.ts";

function refused(args: readonly string[]): { readonly told: string; readonly exitCode: number } {
  let told = "";
  try {
    optionsOf(args, { writeErr: (text) => (told += text) });
  } catch (error) {
    if (error instanceof CommanderError) return { told, exitCode: error.exitCode };
    throw error;
  }
  throw new Error("it was taken");
}

describe("npm run proof: wrong use is refused with the option, the value and what is allowed", () => {
  test.each([
    [["--only", "nonsense"], /--only <names>' argument 'nonsense' is invalid.*model, schedules/],
    [["--only", ""], /The parts are/],
    [["--seed", "abc"], /argument 'abc' is invalid.*whole number/],
    [["--seed", "1.5"], /argument '1.5' is invalid.*whole number/],
    [["--minutes", "-1"], /argument '-1' is invalid.*above 0/],
    [["--minutes=0"], /argument '0' is invalid.*above 0/],
    [["--path", "1:2"], /--path needs --only of one part, and --seed/],
    [["--only", "hostile,schedules", "--seed", "1", "--path", "1:2"], /--path needs --only of one part, and --seed/],
    [["--only", "kills", "--seed", "1", "--path", "1:2"], /--path: kills has none/],
    [["--nonsense"], /--nonsense/],
  ])("%j", (args, told) => {
    expect(refused(args)).toEqual({ told: expect.stringMatching(told) as string, exitCode: 1 });
  });
});

test("npm run proof: all parts at full size if nothing is said, and one of them again by its path", () => {
  expect(optionsOf([])).toMatchObject({ run: { small: false }, json: false, write: false });
  expect(optionsOf([]).parts).toHaveLength(9);
  expect(optionsOf(["--only", "soak,kills", "--only", "model"]).parts.map(({ name }) => name)).toEqual(["model", "kills", "soak"]);
  const { parts, run } = optionsOf(["--only", "schedules", "--seed", "7", "--path", "3:1", "--minutes", "2"]);
  expect(parts.map(({ name }) => name)).toEqual(["schedules"]);
  expect(run).toEqual({ seed: 7, small: false, path: "3:1", budgetMs: 120_000 });
});
