/** `ordered-outbox setup` as a process of its own, against Azurite. */
import { execFile } from "node:child_process";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import { expect, inject, test } from "vitest";
import { connectTestStorage, randomPrefix } from "../support/azurite-storage.ts";

const MAIN = fileURLToPath(new URL("../../src/cli/main.ts", import.meta.url));
const run = promisify(execFile);

test("setup creates what is missing, twice if need be; an outbox works on it then", async () => {
  const prefix = randomPrefix();
  const env = { ...process.env, ORDERED_OUTBOX_CONNECTION_STRING: inject("azurite") };
  for (let time = 0; time < 2; time++) {
    const { stdout } = await run(process.execPath, [MAIN, "setup", "--prefix", prefix, "--json"], { env });
    expect(JSON.parse(stdout)).toEqual({ outcome: "ready", prefix });
  }
  const storage = await connectTestStorage({ prefix });
  expect(await storage.wakeUps.receive(1, 1_000)).toEqual([]);
  expect(await storage.blobs.read("events", "none")).toBeUndefined();
});
