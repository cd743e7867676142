import { existsSync } from "node:fs";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, expect, test } from "vitest";
import { RunFolder } from "../../src/local/run-folder.ts";
import { UsageError } from "../../src/local/usage-error.ts";

let keep: string;
beforeEach(async () => void (keep = await mkdtemp(join(tmpdir(), "run-folder-test-"))));
afterEach(() => rm(keep, { recursive: true }));

test("a temporary folder goes with its run", async () => {
  const folder = await RunFolder.open(undefined);
  expect(folder).toMatchObject({ run: 1, azurite: undefined, earlierOrders: new Set() });
  await folder.close({ evidence: false });
  expect(existsSync(folder.path)).toBe(false);
});

test("a temporary folder stays as evidence", async () => {
  const folder = await RunFolder.open(undefined);
  await folder.close({ evidence: true });
  expect(existsSync(folder.path)).toBe(true);
  await rm(folder.path, { recursive: true });
});

test("a kept folder counts its runs and knows the orders of all earlier ones", async () => {
  for (const orders of [["a"], ["b", "c"]]) {
    const folder = await RunFolder.open(keep);
    await folder.writeOrders(orders);
    await folder.close({ evidence: false });
  }
  const third = await RunFolder.open(keep);
  expect(third.run).toBe(3);
  expect(third.earlierOrders).toEqual(new Set(["a", "b", "c"]));
  await third.close({ evidence: false });
});

test("a run that ended before its first commit left no orders", async () => {
  const first = await RunFolder.open(keep);
  await writeFile(join(first.path, "orders.json"), '["a"');
  await first.close({ evidence: false });
  const second = await RunFolder.open(keep);
  expect(second).toMatchObject({ run: 2, earlierOrders: new Set() });
  await second.close({ evidence: false });
});

test("a folder in use is refused", async () => {
  const folder = await RunFolder.open(keep);
  await expect(RunFolder.open(keep)).rejects.toThrow(`process ${process.pid} uses this folder`);
  await folder.close({ evidence: false });
});

test("the lock of a process that is gone is taken over", async () => {
  // No process has this id: Linux allows 4,194,304 at most, others less.
  await writeFile(join(keep, "lock"), "4999999");
  const folder = await RunFolder.open(keep);
  await folder.close({ evidence: false });
  expect(existsSync(join(keep, "lock"))).toBe(false);
});

test("a file in place of the folder is refused", async () => {
  const file = join(keep, "file");
  await writeFile(file, "");
  await expect(RunFolder.open(file)).rejects.toThrow(UsageError);
});
