/** Producer, queue, host and worker on Azurite in one process: what goes in comes out, and what it costs. */
import { existsSync, readdirSync, readFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { describe, expect, test, vi } from "vitest";
import { rawJson, type RawJson } from "../../src/core/json.ts";
import { encodeOrderId, parseOrderId } from "../../src/core/order-id.ts";
import { defineSubscription, type HandledEvent } from "../../src/core/workflow.ts";
import { createOutbox } from "../../src/producer/outbox.ts";
import { subtractCounts, type CallCounts } from "../../src/storage/call-counter.ts";
import { startWorkerHost } from "../../src/worker/host.ts";
import type { Worker } from "../../src/worker/round-result.ts";
import { createWorker } from "../../src/worker/worker.ts";
import { connectTestStorage, type TestStorage } from "../support/azurite-storage.ts";
import { workflow } from "./fixtures/steps.ts";

type Event = HandledEvent<typeof workflow>;

/** Runs a host until `count` events were handled, then stops it. */
async function handle(storage: TestStorage, count: number): Promise<Event[]> {
  const events: Event[] = [];
  const subscription = defineSubscription(workflow, { name: "audit", handle: (event) => void events.push(event) });
  const worker = createWorker({ workflow, subscriptions: [subscription], storage });
  await using host = startWorkerHost({ worker, wakeUps: storage.wakeUps, pollMinMs: 10, pollMaxMs: 50 });
  await vi.waitFor(() => expect(events.length).toBeGreaterThanOrEqual(count), { timeout: 20_000, interval: 10 });
  await host.stop();
  return events;
}

function steps(storage: TestStorage, orderId: string, ...numbers: readonly number[]): Promise<unknown> {
  return createOutbox({ workflow, storage }).commit(orderId, () => ({
    state: { committed: 1 },
    events: numbers.map((n) => ({ type: "step", data: { n } })),
  }));
}

describe("§3: OrderIds go through table, queue, lease, blobs and back unchanged", () => {
  const ids = [
    ..."100|0012|1e5|12345678901234567890|true|null|o-1|o-10|o-1-x|..|.|...|a.|a|a/b|a%2Fb|%2e%2e| a|a |a\\b|a'b\"c|{}|[1]|注文-7|é|é|📦👩‍👩‍👧".split(
      "|",
    ),
    "é".normalize("NFD"),
    "line\nbreak",
    "\u001b[31mred",
    "注".repeat(128),
    "📦".repeat(64),
  ];
  const distinct = [...new Set(ids)];

  test(`${distinct.length} ids at once, each with its own two events`, async () => {
    const storage = await connectTestStorage();
    for (const orderId of distinct) await steps(storage, orderId, 1, 2);
    const events = await handle(storage, distinct.length * 2);
    expect(events).toHaveLength(distinct.length * 2);
    for (const orderId of distinct) {
      const own = events.filter((event) => event.orderId === orderId);
      expect(own.map(({ sequence }) => sequence)).toEqual([1, 2]);
      const archived = await Array.fromAsync(storage.blobs.list("archive", `audit/${encodeOrderId(parseOrderId(orderId))}/`));
      expect(archived).toHaveLength(2);
    }
  });
});

describe("§3: the bytes that were committed arrive", () => {
  const folder = fileURLToPath(new URL("../../../shared/data/epcis", import.meta.url));
  const documents: Record<string, string> = existsSync(folder)
    ? Object.fromEntries(readdirSync(folder).map((name) => [name, readFileSync(`${folder}/${name}`, "utf8")]))
    : {};
  const texts: Record<string, string> = {
    ...documents,
    numbers: '{"id":9007199254740993,"total":1.0,"e":1e5,"E":1E+2,"minus":-0,"tiny":0.1e-7}',
    "order and white space": ' {\n\t"b" : 1,\r\n "a" : 2 }\n',
    text: '{"note":"café \u2028\u2029 📦","escaped":"\\u00e9\\/\\ud83d\\ude00","data":",\\"data\\":"}',
    "a nested member called data": '{"data":{"data":[{"data":1}]}}',
    scalar: "null",
    "32,768 units": JSON.stringify("a".repeat(32_766)),
    "32,769 units": JSON.stringify("a".repeat(32_767)),
    "900 KB": JSON.stringify("é".repeat(450_000)),
    "5 MB": JSON.stringify("📦".repeat(1_250_000)),
  };

  test.each(Object.entries(texts))("%s", async (_name, text) => {
    const storage = await connectTestStorage();
    await commitDocument(storage, rawJson(text));
    const [event] = await handle(storage, 1);
    expect(event?.dataText === text).toBe(true);
    const [archived] = await Array.fromAsync(storage.blobs.list("archive", "audit/"));
    const content = await storage.blobs.read("archive", archived!.name);
    expect(Buffer.compare(content!.bytes, Buffer.from(event!.text)) === 0).toBe(true);
    expect(await Array.fromAsync(storage.blobs.list("payloads", ""))).toEqual([]);
  });

  function commitDocument(storage: TestStorage, data: RawJson): Promise<unknown> {
    return createOutbox({ workflow, storage }).commit("o-1", () => ({ state: { committed: 1 }, events: [{ type: "document", data }] }));
  }
});

describe("§8: calls, counted at the HTTP client", () => {
  /** Commits, then handles one received wake-up, as the host does, without its idle polls. */
  async function cost(
    storage: TestStorage,
    worker: Worker,
    numbers: readonly number[],
    times = 1,
  ): Promise<{ producer: CallCounts; worker: CallCounts }> {
    const start = storage.calls.snapshot();
    for (let time = 0; time < times; time++) await steps(storage, "o-1", ...numbers);
    const committed = storage.calls.snapshot();
    const [wakeUp] = await storage.wakeUps.receive(1, 30_000);
    expect((await worker.handle("o-1")).status).toBe("done");
    await storage.wakeUps.delete(wakeUp!.receipt);
    return { producer: subtractCounts(committed, start), worker: subtractCounts(storage.calls.snapshot(), committed) };
  }

  /** A worker that has read the pauses, which it does once in 15 s. */
  async function warmWorker(storage: TestStorage): Promise<Worker> {
    const subscription = defineSubscription(workflow, { name: "audit", handle: () => undefined });
    const worker = createWorker({ workflow, subscriptions: [subscription], storage });
    await worker.handle("another");
    return worker;
  }

  test("one event alone: 4 producer and 12 worker calls, 2 blob writes, no list, no blob read", async () => {
    const storage = await connectTestStorage();
    const worker = await warmWorker(storage);
    const first = await cost(storage, worker, [1]);
    const second = await cost(storage, worker, [2]);
    expect(second.producer.byOperation).toEqual({
      "table ReadEntity": 1,
      "queue SendMessage": 1,
      "table Transaction": 1,
      "queue UpdateMessage": 1,
    });
    expect(second.worker.byOperation).toEqual({
      "queue ReceiveMessages": 1,
      "blob GetBlobProperties": 1,
      "blob LeaseAcquire": 1,
      "table QueryEntities": 2,
      "blob PutBlob": 2,
      "table DeleteEntity": 1,
      "blob SetBlobMetadata": 1,
      "blob DeleteBlob": 1,
      "blob LeaseRelease": 1,
      "queue DeleteMessage": 1,
    });
    expect(second.worker.total).toBe(12);
    // An order's first event pays for its lease blob, and for putting its subscriptions on record.
    expect(first.worker.total).toBe(14);
    expect(first.worker.byOperation["blob PutBlob"]).toBe(3);
  });

  test("100 events on one order in one round: at most 2.3 worker calls an event", async () => {
    const storage = await connectTestStorage();
    const { worker } = await cost(
      storage,
      await warmWorker(storage),
      Array.from({ length: 50 }, (_, index) => index),
      2,
    );
    expect(worker.total).toBeLessThanOrEqual(230);
    expect(worker.byPriceClass["blob list"]).toBeUndefined();
    expect(worker.byPriceClass["blob read"]).toBeUndefined();
  });
});

test("W10, G4: foreign blobs and messages are reported, and nobody's events wait for them", async () => {
  const storage = await connectTestStorage();
  await storage.wakeUps.send("{not an order", 0);
  await storage.wakeUps.send("1e5", 0);
  await storage.wakeUps.send(JSON.stringify("x".repeat(200)), 0);
  await storage.blobs.create("events", "audit/o-1/readme.txt", new Uint8Array([1]), {});
  await storage.blobs.create("events", "stray", new Uint8Array([1]), {});
  await steps(storage, "o-1", 1);
  await steps(storage, "o-2", 1);
  const events = await handle(storage, 2);
  expect(events.map(({ orderId }) => orderId).toSorted()).toEqual(["o-1", "o-2"]);
  expect((await Array.fromAsync(storage.blobs.list("events", ""))).map(({ name }) => name)).toEqual(["audit/o-1/readme.txt", "stray"]);
});
