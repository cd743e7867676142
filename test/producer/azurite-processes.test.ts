import { execFile } from "node:child_process";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import { expect, inject, test } from "vitest";
import type { CommitResult } from "../../src/producer/order-change.ts";
import { createOutbox } from "../../src/producer/outbox.ts";
import { connectTestStorage } from "../support/azurite-storage.ts";
import { expectDense, expectReported, orderKey, workflow } from "./support.ts";

const COMMITTER = fileURLToPath(new URL("fixtures/committer.ts", import.meta.url));
const FIVE_MINUTES = 5 * 60_000;
const COMMITS = 25;

test("C1: two processes whose clocks are 5 minutes apart commit to one order at once: dense sequence, growing ids, nothing lost", async () => {
  const storage = await connectTestStorage();
  const run = async (clockOffsetMs: number, first: number): Promise<readonly CommitResult[]> => {
    const numbers = Array.from({ length: COMMITS }, (_, index) => first + index);
    const order = { connectionString: inject("azurite"), prefix: storage.prefix, orderId: "o-1", numbers, clockOffsetMs };
    const { stdout } = await promisify(execFile)(process.execPath, [COMMITTER, JSON.stringify(order)]);
    return JSON.parse(stdout) as readonly CommitResult[];
  };
  const [behind, ahead] = await Promise.all([run(0, 0), run(FIVE_MINUTES, 1_000)]);

  const stored = await storage.orders.readOutbox(orderKey());
  expectDense(stored, 2 * COMMITS);
  expectReported(stored, ...behind, ...ahead);
  expect((await createOutbox({ workflow, storage }).read("o-1"))?.state).toEqual({ commits: 2 * COMMITS });
  // Each process saw its own commits in its own order.
  for (const results of [behind, ahead]) {
    const sequences = results.map(({ sequence }) => sequence);
    expect(sequences).toEqual(sequences.toSorted((a, b) => a - b));
  }
});
