/** C06 with real processes, real exits and Azurite. */
import { fork, type ChildProcess } from "node:child_process";
import { once } from "node:events";
import { mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { afterEach, beforeEach, expect, inject, test, vi } from "vitest";
import { encodeOrderId, parseOrderId } from "../../src/core/order-id.ts";
import { encodeWakeUp } from "../../src/core/wake-up.ts";
import { listDeadLetters } from "../../src/operations/dead-letters.ts";
import { verifyAll } from "../../src/operations/verify.ts";
import { createOutbox } from "../../src/producer/outbox.ts";
import { systemClock } from "../../src/system/clock.ts";
import { connectTestStorage, endLease, type TestStorage } from "../support/azurite-storage.ts";
import { workflow } from "./fixtures/steps.ts";

const KILLER = fileURLToPath(new URL("fixtures/killer-process.ts", import.meta.url));

let folder: string;
let storage: TestStorage;
let child: ChildProcess | undefined;
let over = false;
const exits: (number | NodeJS.Signals | null)[] = [];

beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), "ordered-outbox-"));
  await writeFile(join(folder, "log"), "");
  storage = await connectTestStorage();
  over = false;
  exits.length = 0;
});

afterEach(async () => {
  over = true;
  if (child !== undefined && child.exitCode === null && child.signalCode === null) {
    child.kill("SIGKILL");
    await once(child, "exit");
  }
  await rm(folder, { recursive: true });
});

/** A supervisor: whenever the process ends, it is started again. */
function keepRunning(habit: "exits" | "spins"): void {
  const env = { ...process.env, TEST_CONNECTION_STRING: inject("azurite") };
  child = fork(KILLER, [storage.prefix, join(folder, "log"), habit], { env });
  child.once("exit", (status, signal) => {
    if (over) return;
    exits.push(status ?? signal);
    keepRunning(habit);
  });
}

async function commit(orderId: string, ...numbers: readonly number[]): Promise<void> {
  await createOutbox({ workflow, storage }).commit(orderId, (order) => ({
    state: { committed: (order?.committed ?? 0) + numbers.length },
    events: numbers.map((n) => ({ type: "step", data: { n } })),
  }));
}

async function log(orderId: string): Promise<string[]> {
  const lines = (await readFile(join(folder, "log"), "utf8")).split("\n");
  return lines.filter((line) => line.startsWith(`${orderId} `)).map((line) => line.slice(orderId.length + 1));
}

test(
  "C06: a handler that ends its process is started maxCrashes times, then its event is dead and says so; other orders are handled",
  { timeout: 90_000 },
  async () => {
    await commit("o-1", 1, 2);
    keepRunning("exits");
    await commit("o-2", 1, 2);
    const context = { storage, clock: systemClock };
    await vi.waitFor(
      async () => {
        // What the sweep does for an order that nobody handles.
        await storage.wakeUps.send(encodeWakeUp(parseOrderId("o-1")), 0);
        expect((await listDeadLetters(context)).letters).toHaveLength(1);
      },
      { timeout: 85_000, interval: 2_000 },
    );
    expect(await log("o-1")).toEqual(["E1", "E1", "E1"]);
    expect(exits).toEqual([137, 137, 137]);
    await vi.waitFor(async () => expect((await log("o-2")).at(-1)).toBe("E2"), { timeout: 5_000, interval: 100 });
    // The crash may have hit o-2 in the middle: G3 allows a repetition.
    expect(new Set(await log("o-2"))).toEqual(new Set(["E1", "E2"]));
    const { letters } = await listDeadLetters(context);
    expect(letters).toMatchObject([
      { orderId: "o-1", sequence: 1, policy: "block", attempts: 3, reason: "the worker stopped 3 times while it was handled" },
    ]);
    const { findings } = await verifyAll(context);
    expect(findings.filter(({ kind }) => kind !== "moving")).toEqual([]);
  },
);

test(
  "C06: a handler that spins until its host is killed from outside is started maxCrashes times, then its event is dead; other orders go on",
  { timeout: 60_000 },
  async () => {
    const orders = ["o-1", "o-2"].map((orderId) => parseOrderId(orderId));
    await commit("o-1", 1, 2);
    await commit("o-2", 1, 2);
    keepRunning("spins");
    const context = { storage, clock: systemClock };
    const wake = () => Promise.all(orders.map((orderId) => storage.wakeUps.send(encodeWakeUp(orderId), 0)));
    for (let starts = 1; starts <= 3; starts++) {
      await vi.waitFor(async () => expect(await log("o-1")).toHaveLength(starts), { timeout: 15_000, interval: 50 });
      await commit("o-2", starts + 2);
      // What a liveness probe does to a process that does not answer.
      const killed = once(child!, "exit");
      child!.kill("SIGKILL");
      await killed;
      // What the ends of the leases and the sweep do, without the wait.
      await Promise.all(orders.map((orderId) => endLease(storage, encodeOrderId(orderId))));
      await wake();
    }
    await vi.waitFor(async () => expect((await listDeadLetters(context)).letters).toHaveLength(1), { timeout: 15_000, interval: 100 });
    await vi.waitFor(async () => expect((await log("o-2")).at(-1)).toBe("E5"), { timeout: 15_000, interval: 100 });
    expect(await log("o-1")).toEqual(["E1", "E1", "E1"]);
    expect(exits).toEqual(["SIGKILL", "SIGKILL", "SIGKILL"]);
    // In order; a kill may have hit o-2 in the middle: G3 allows a repetition.
    expect([...new Set(await log("o-2"))]).toEqual(["E1", "E2", "E3", "E4", "E5"]);
    expect((await listDeadLetters(context)).letters).toMatchObject([
      { orderId: "o-1", sequence: 1, policy: "block", attempts: 3, reason: "the worker stopped 3 times while it was handled" },
    ]);
    // Its place is kept: the stream waits for a human, and the host that found the event dead lives on.
    expect(child).toMatchObject({ exitCode: null, signalCode: null });
    const { findings } = await verifyAll(context);
    expect(findings.filter(({ kind }) => kind !== "moving")).toEqual([]);
  },
);
