/** F9: what a subscription has had, told from what is left of its stream. */
import { expect, test } from "vitest";
import { nextEventId } from "../../src/core/event-id.ts";
import { NEW_STREAM, type StreamProgress } from "../../src/core/progress.ts";
import { hadItself, type OwnEvent } from "../../src/operations/replay-had.ts";

const ID = nextEventId(undefined, 1, () => 0);

function own(...events: readonly (readonly [sequence: number, previous: number])[]): readonly OwnEvent[] {
  return events.map(([sequence, previous]) => ({ id: ID, sequence, previous, outcome: "handled" }));
}

function at(sequence: number, relayed = sequence): StreamProgress {
  return { sequence, id: ID, relayed };
}

test.each([
  ["a new subscription", 3, own(), NEW_STREAM, "never"],
  ["it began later", 3, own([5, 0], [6, 5]), at(6), "never"],
  ["it has it", 5, own([5, 0]), at(5), "had"],
  ["its filter did not want it", 6, own([5, 0], [7, 5]), at(7), "never"],
  ["retention has removed it, its successor names it", 5, own([7, 5]), at(7), "had"],
  ["retention has removed the beginning of the stream", 3, own([7, 5]), at(7), "unknown"],
  ["retention has removed the stream", 3, own(), at(9), "unknown"],
  ["retention has removed the stream, and this came later", 10, own(), at(9), "never"],
  ["it waits for it, by what the progress says", 10, own(), at(9, 10), "unknown"],
] as const)("%s", (_name, sequence, events, progress, expected) => {
  expect(hadItself(sequence, events, progress, () => false)).toBe(expected);
});

test.each([
  ["W1: its successor is relayed before what is under way", 3, own([5, 4]), NEW_STREAM, "never", [4]],
  ["W1: behind what it has finished", 5, own([8, 7]), at(4), "never", [7]],
  ["W1: what was under way is finished by now", 3, own([5, 4]), at(5), "moving", [4, 5]],
  ["W1: what was under way came and went after the stream was read", 3, own(), at(5), "moving", [4, 5]],
  ["W1: retention has removed the beginning, and something is under way", 3, own([12, 11]), at(9), "unknown", [11]],
] as const)("%s", (_name, sequence, events, progress, expected, underWay: readonly number[]) => {
  expect(hadItself(sequence, events, progress, (each) => underWay.includes(each))).toBe(expected);
});
