import { expect, test } from "vitest";
import { generateHistories } from "../../src/local/histories.ts";
import { assignCommits } from "../../src/local/producer-pool.ts";

const plan = generateHistories({ orders: 100, seed: 1, run: 1 });

test.each([1, 2, 5, 32])("G2: with %i producers each order has one, and its commits keep their order", (producers) => {
  const assigned = assignCommits(plan, producers);
  expect(assigned).toHaveLength(producers);
  const producerOf = new Map<string, number>();
  assigned.forEach((commits, producer) => {
    for (const { orderId } of commits) {
      expect(producerOf.get(orderId) ?? producer).toBe(producer);
      producerOf.set(orderId, producer);
    }
    expect(commits.map(({ position }) => position)).toEqual(commits.map(({ position }) => position).toSorted((a, b) => a - b));
  });
  expect(assigned.flat().toSorted((a, b) => a.position - b.position)).toEqual(plan.map((commit, position) => ({ ...commit, position })));
});
