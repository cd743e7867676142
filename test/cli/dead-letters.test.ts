/** What `dead` and the other listings say of filters, limits and letters that their streams have skipped, as real processes against Azurite. */
import { beforeAll, describe, expect, inject, test } from "vitest";
import { encodeDeadLetter, type DeadLetter } from "../../src/core/dead-letter.ts";
import { encodeEvent } from "../../src/core/event.ts";
import { nextEventId, type EventId } from "../../src/core/event-id.ts";
import { eventBlobName } from "../../src/core/names.ts";
import { encodeOrderId, parseOrderId } from "../../src/core/order-id.ts";
import { encodePendingState, freshState } from "../../src/core/pending-event.ts";
import { connectTestStorage, type TestStorage } from "../support/azurite-storage.ts";
import { runCli, type CliResult } from "./run-cli.ts";

const REASON = ["--actor", "ann", "--reason", "carrier is back"];
const ERROR = "Error: no carrier";

describe("two dead letters, and one of them behind one that its stream has skipped", () => {
  let storage: TestStorage;
  const ids: EventId[] = [];

  beforeAll(async () => {
    storage = await connectTestStorage();
    await put("o-1", 1, "skip");
    await put("o-1", 2, "block");
    await put("o-2", 1, "block");
  });

  async function put(order: string, sequence: number, policy: DeadLetter["policy"]): Promise<void> {
    const orderId = parseOrderId(order);
    const id = nextEventId(ids.at(-1), Date.now(), Math.random);
    ids.push(id);
    const name = eventBlobName("report", encodeOrderId(orderId), id);
    const diedAt = new Date().toISOString();
    const bytes = new TextEncoder().encode(encodeEvent({ id, orderId, sequence, type: "quick", source: "/s", time: diedAt }, "{}"));
    const metadata = { sequence: String(sequence), previous: "0", attempts: "3", outcome: "dead-lettered", finishedat: diedAt };
    const state = encodePendingState({ ...freshState(sequence, sequence - 1), status: "blocked", attempts: 3, lastError: ERROR });
    await storage.blobs.create(policy === "skip" ? "archive" : "events", name, bytes, policy === "skip" ? metadata : state);
    const letter = { orderId, subscription: "report", id, sequence, type: "quick", reason: ERROR, attempts: 3, policy, diedAt };
    const index = encodeDeadLetter({ ...letter, history: [{ at: diedAt, starts: 3, error: ERROR }] });
    await storage.blobs.create("dead", name, index.bytes, index.metadata);
  }

  const cli = (...args: readonly string[]): Promise<CliResult> => runCli([...args, "--prefix", storage.prefix], inject("azurite"));

  test("a limit that leaves letters: exit 3; a dry run says what would be", async () => {
    expect(await cli("dead", "redrive", "--all", "--limit", "1", "--dry-run", ...REASON)).toMatchObject({
      status: 3,
      stdout: expect.stringMatching(/\n1 of 2 would be in force, 1 skipped by its stream needs --out-of-order, 1 not looked at\.\n$/),
    });
  });

  test("F4: a skipped letter that nobody named is no failure of a redrive; named alone, it is", async () => {
    expect(await cli("dead", "redrive", "o-1", "--dry-run", ...REASON)).toMatchObject({
      status: 0,
      stdout: expect.stringMatching(/\n1 of 2 would be in force, 1 skipped by its stream needs --out-of-order\.\n$/),
    });
    expect(await cli("dead", "redrive", "o-1", "--event", ids[0]!, ...REASON)).toMatchObject({
      status: 1,
      stdout: expect.stringMatching(/\n0 of 1 in force, 1 skipped by its stream needs --out-of-order\.\n$/),
    });
  });

  test("filters that match nothing do not read like an all-clear", async () => {
    for (const filter of [
      ["--type", "foo"],
      ["--group", "nope"],
    ]) {
      expect(await cli("dead", "list", ...filter)).toMatchObject({
        status: 0,
        stdout: "No dead letter matches: `ordered-outbox dead list` has those there are.\n",
        stderr: expect.stringContaining("deadLetters=3"),
      });
    }
  });

  test.each([
    [["dead", "list", "nosuch"], "no order nosuch"],
    [["dead", "list", "--subscription", "reprot"], "known are report"],
    [["dead", "redrive", "--subscription", "reprot", ...REASON], "known are report"],
    [["orders", "list", "--subscription", "reprot"], "known are report"],
    [["resume", "reprot", ...REASON], "known are report"],
    [["resume", "report", "nosuch", ...REASON], "no order nosuch"],
    [["pause", "report", "nosuch", ...REASON], "no order nosuch"],
  ])("%j: exit 1, the name is not known", async (args, says) => {
    expect(await cli(...args)).toMatchObject({ status: 1, stdout: "", stderr: expect.stringContaining(says) });
  });

  test("an id that was copied from a table: how to get it as it is", async () => {
    const { stderr } = await cli("explain", String.raw`o\u000a1`);
    expect(stderr).toContain("if it was copied from a table, --json has it as it is");
  });

  test("a hint names the command that was used", async () => {
    expect((await cli("dead", "redrive", "--reason", "r")).stderr).toContain("`ordered-outbox dead redrive --help` has what is allowed");
  });

  test("F5: status lists who paused what", async () => {
    expect(await cli("pause", "report", "o-2", ...REASON)).toMatchObject({ status: 0 });
    expect((await cli("status")).stdout).toMatch(/\n\nPaused .*\nSUBSCRIPTION .*\nreport +o-2 +ann +\S+Z +carrier is back\n$/);
    expect(await cli("pause", "report", "nosuch", "--force", "--dry-run", ...REASON)).toMatchObject({ status: 0 });
  });
});
