/** Real processes, real signals, Azurite. */
import { fork, type ChildProcess } from "node:child_process";
import { once } from "node:events";
import { mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { QueueServiceClient } from "@azure/storage-queue";
import { afterEach, beforeEach, describe, expect, inject, test, vi } from "vitest";
import { encodeOrderId, parseOrderId } from "../../src/core/order-id.ts";
import { createOutbox } from "../../src/producer/outbox.ts";
import { connectTestStorage, type TestStorage } from "../support/azurite-storage.ts";
import { workflow } from "./fixtures/steps.ts";

const WORKER = fileURLToPath(new URL("fixtures/worker-process.ts", import.meta.url));
const PRODUCER = fileURLToPath(new URL("fixtures/producer-process.ts", import.meta.url));
const ORDER = encodeOrderId(parseOrderId("o-1"));

let folder: string;
let storage: TestStorage;
const children = new Set<ChildProcess>();

beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), "ordered-outbox-"));
  await writeFile(join(folder, "log"), "");
  storage = await connectTestStorage();
});

afterEach(async () => {
  for (const child of children) {
    child.kill("SIGCONT");
    child.kill("SIGKILL");
    if (child.exitCode === null && child.signalCode === null) await once(child, "exit");
  }
  children.clear();
  await rm(folder, { recursive: true });
});

function start(script: string, ...args: readonly string[]): ChildProcess {
  const child = fork(script, args, { env: { ...process.env, TEST_CONNECTION_STRING: inject("azurite") } });
  children.add(child);
  return child;
}

async function startWorker(name: string): Promise<ChildProcess> {
  const child = start(WORKER, storage.prefix, join(folder, "log"), join(folder, "gate"), name);
  await once(child, "message");
  return child;
}

async function commit(...numbers: readonly number[]): Promise<void> {
  await createOutbox({ workflow, storage }).commit("o-1", (order) => ({
    state: { committed: (order?.committed ?? 0) + 1 },
    events: numbers.map((n) => ({ type: "step", data: { n } })),
  }));
}

async function log(): Promise<string[]> {
  return (await readFile(join(folder, "log"), "utf8")).split("\n").slice(0, -1);
}

function untilLogged(...lines: readonly string[]): Promise<void> {
  return vi.waitFor(async () => expect(await log()).toEqual(lines), { timeout: 60_000, interval: 50 });
}

/** The outbox is empty, the lease free, and no message is left, hidden ones included. */
function untilDone(): Promise<void> {
  return vi.waitFor(
    async () => {
      const { outbox } = await storage.orders.readOutbox(ORDER);
      const lease = await storage.leases.read(ORDER);
      expect({ outbox, state: lease?.state, messages: await countMessages() }).toEqual({ outbox: [], state: "free", messages: 0 });
    },
    { timeout: 60_000, interval: 200 },
  );
}

async function countMessages(): Promise<number> {
  const queue = QueueServiceClient.fromConnectionString(inject("azurite")).getQueueClient(`${storage.prefix}-wake-ups`);
  return (await queue.getProperties()).approximateMessagesCount ?? 0;
}

async function names(container: "events" | "archive"): Promise<number> {
  return (await Array.fromAsync(storage.blobs.list(container, `audit/${ORDER}/`))).length;
}

describe("a worker process", () => {
  test(
    "G2, C05, W5: frozen past its lease and thawed writes nothing; the next one repeats the running event and goes on",
    { timeout: 120_000 },
    async () => {
      await writeFile(join(folder, "gate"), "");
      const frozen = await startWorker("a");
      await commit(1, 2);
      await untilLogged("a E1");
      frozen.kill("SIGSTOP");
      await rm(join(folder, "gate"));
      await startWorker("b");
      await untilLogged("a E1", "b E1", "b E2");
      await vi.waitFor(async () => expect((await storage.leases.read(ORDER))?.state).toBe("free"), { timeout: 10_000, interval: 50 });
      const before = (await storage.leases.read(ORDER))?.etag;
      frozen.kill("SIGCONT");
      // The thawed one ends its round when asked to stop: all it had to say has been said by then.
      frozen.kill("SIGTERM");
      await once(frozen, "exit");
      expect(await log()).toEqual(["a E1", "b E1", "b E2"]);
      expect((await storage.leases.read(ORDER))?.etag).toBe(before);
      expect([await names("events"), await names("archive")]).toEqual([0, 2]);
    },
  );

  test(
    "G3, G5, C32: killed while a handler runs; the event runs again after the lease, the later ones after it",
    { timeout: 120_000 },
    async () => {
      await writeFile(join(folder, "gate"), "");
      const killed = await startWorker("a");
      await commit(1, 2);
      await untilLogged("a E1");
      killed.kill("SIGKILL");
      await rm(join(folder, "gate"));
      await startWorker("b");
      await untilLogged("a E1", "b E1", "b E2");
      await untilDone();
      expect([await names("events"), await names("archive")]).toEqual([0, 2]);
    },
  );

  test(
    "W6, C09: a commit while another process holds the order is handled by the holder; the wake-up turned away comes back",
    { timeout: 90_000 },
    async () => {
      await writeFile(join(folder, "gate"), "");
      await startWorker("a");
      await commit(1);
      await untilLogged("a E1");
      const counter = await startWorker("b");
      await commit(2);
      // Either process may have received the wake-up of E2; both find the order taken, the event waits for its holder.
      await rm(join(folder, "gate"));
      await untilLogged("a E1", "a E2");
      // What was turned away is hidden for one lease time, then finds nothing to do. No second handling, no message left.
      await untilDone();
      expect(await log()).toEqual(["a E1", "a E2"]);
      counter.kill("SIGTERM");
      await once(counter, "exit");
    },
  );

  test("C32: SIGTERM lets the running event end, starts no other, and gives the lease back", { timeout: 60_000 }, async () => {
    await writeFile(join(folder, "gate"), "");
    const stopped = await startWorker("a");
    await commit(1, 2);
    await untilLogged("a E1");
    stopped.kill("SIGTERM");
    await rm(join(folder, "gate"));
    const [status] = (await once(stopped, "exit")) as [number];
    expect(status).toBe(0);
    expect(await log()).toEqual(["a E1"]);
    expect((await storage.leases.read(ORDER))?.state).toBe("free");
    await startWorker("b");
    await untilLogged("a E1", "b E2");
  });
});

test(
  "C4, §4: a producer killed between its commit and its wake-up: the hidden one fires after the safety delay, nothing is scanned",
  { timeout: 60_000 },
  async () => {
    const producer = start(PRODUCER, storage.prefix, "o-1");
    await once(producer, "message");
    producer.kill("SIGKILL");
    await once(producer, "exit");
    expect((await storage.orders.readOutbox(ORDER)).outbox).toHaveLength(1);
    await startWorker("a");
    await untilLogged("a E2");
  },
);
