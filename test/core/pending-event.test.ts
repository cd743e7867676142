/** What the metadata of a pending event keeps, and when a parked one is due. */
import { describe, expect, test } from "vitest";
import {
  appendFailure,
  decodePendingState,
  encodePendingState,
  freshState,
  isDue,
  type PendingState,
} from "../../src/core/pending-event.ts";

const MINUTE_MS = 60_000;

function stored(state: PendingState): PendingState {
  return decodePendingState(encodePendingState(state))!;
}

describe("isDue (C30)", () => {
  const parked: PendingState = { ...freshState(1, 0), status: "parked", nextAttemptMs: 1_000_000, waitMs: 20_000 };

  test.each([
    ["before its time", 999_999, false],
    ["at its time", 1_000_000, true],
    ["as far ahead as clocks may differ", 1_000_000 - 20_000 - MINUTE_MS, false],
    ["further ahead than it was meant to wait", 1_000_000 - 20_001 - MINUTE_MS, true],
  ])("%s", (_name, nowMs, due) => {
    expect(isDue(stored(parked), nowMs)).toBe(due);
  });

  test("is for parked events only", () => {
    expect(isDue(freshState(1, 0), 0)).toBe(false);
    expect(isDue({ ...parked, status: "blocked" }, 2_000_000)).toBe(false);
  });
});

describe("history", () => {
  const failures = (count: number, error: (index: number) => string): PendingState => {
    let state = freshState(1, 0);
    for (let index = 0; index < count; index++) {
      const failure = { at: new Date(1e12 + index).toISOString(), starts: 1, error: error(index) };
      state = stored({ ...state, history: appendFailure(state.history, failure) });
    }
    return state;
  };

  test.each(["x".repeat(300), "配".repeat(300), "😀".repeat(300), `${"x".repeat(199)}😀`])(
    "counts the same long error up across rounds",
    (error) => {
      expect(failures(30, () => error).history).toMatchObject([{ starts: 30 }]);
    },
  );

  test("keeps the first and the last failure, whatever the texts are", () => {
    const { history } = failures(30, (index) => `${index} ${"配送業者に接続できません".repeat(40)}`);
    expect(history.length).toBeGreaterThan(2);
    expect([history[0]?.error.slice(0, 2), history.at(-1)?.error.slice(0, 2)]).toEqual(["0 ", "29"]);
  });

  test("shortens the texts before it drops failures", () => {
    const { history } = failures(3, (index) => `${index}${"配".repeat(300)}`);
    expect(history.map(({ error }) => error[0])).toEqual(["0", "1", "2"]);
  });
});
