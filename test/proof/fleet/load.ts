/**
 * An endless plan of commits: generated histories, or by `ORDERED_OUTBOX_TEST_ORDERS=orders.ndjson` those of a file, one event a line; again
 * and again under new OrderIds.
 */
import { generateHistories } from "../../../src/local/histories.ts";
import { readInput } from "../../../src/local/input.ts";
import type { Plan, PlannedCommit } from "../../../src/local/plan.ts";

const ORDERS_A_ROUND = 50;

export async function endlessLoad(seed: number): Promise<Iterator<PlannedCommit, never>> {
  const input = process.env["ORDERED_OUTBOX_TEST_ORDERS"];
  const given: Plan | undefined = input === undefined ? undefined : await readInput(input);
  function* load(): Generator<PlannedCommit, never> {
    for (let round = 1; ; round++) {
      if (given === undefined) yield* generateHistories({ orders: ORDERS_A_ROUND, seed, run: round });
      else yield* round === 1 ? given : given.map((commit) => ({ ...commit, orderId: `${commit.orderId}~${round}` }));
    }
  }
  return load();
}
