/** A raw call is one request of the operation that it is named after: else the limit, and with it the efficiency, would be wrong. */
import { expect, test } from "vitest";
import { subtractCounts } from "../../src/storage/call-counter.ts";
import { connectTestStorage } from "../support/azurite-storage.ts";
import { OPERATIONS } from "./mix.ts";
import { roomCaller } from "./raw-room.ts";

const SIZES = { rowsPerCommit: 1, rowsPerDelete: 2, blobsPerBatch: 2, messagesPerReceive: 1 };
const STOCK = { rows: 10, blobs: 10, messages: 10 };
const NAMES: Readonly<Record<string, string>> = { CommitTransaction: "Transaction", DeleteTransaction: "Transaction" };

test("each operation of a raw run is one request of its name", async () => {
  const storage = await connectTestStorage();
  const inbox = await connectTestStorage();
  await inbox.wakeUps.send('"x"', 0);
  const caller = roomCaller({ storage, inbox }, "raw-1");
  await caller.prepare(STOCK, SIZES);
  for (const operation of OPERATIONS) {
    const before = [storage.calls.snapshot(), inbox.calls.snapshot()];
    await caller.calls[operation]();
    const made = [storage, inbox].flatMap(({ calls }, index) =>
      Object.entries(subtractCounts(calls.snapshot(), before[index]!).byOperation),
    );
    expect(made.map(([name, count]) => [name.split(" ")[1], count])).toEqual([[NAMES[operation] ?? operation, 1]]);
  }
});
