/** The functions as the worker loads them from the zip, and what reaches them through the library's own conversion. */
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { QueueServiceClient, type QueueClient } from "@azure/storage-queue";
import { afterAll, beforeAll, beforeEach, describe, expect, test } from "vitest";
import { encodeOrderId, parseOrderId } from "../../src/core/order-id.ts";
import { encodeWakeUp } from "../../src/core/wake-up.ts";
import { createOutbox } from "../../src/producer/outbox.ts";
import { shipmentWorkflow } from "../../src/shipment/workflow.ts";
import { connectStorage, type ConnectedStorage } from "../../src/storage/connect.ts";
import { startAzurite, type Azurite } from "../support/azurite.ts";
import { handledEvents } from "./handled-events.ts";
import { FUNCTION_KEY } from "./host/http-front.ts";
import { readLog, startHost, type Host } from "./host/start-host.ts";
import { SETUP_MS, type UnpackedApp } from "./host/unpacked-app.ts";

const ALL_METHODS = ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"];
const EXPECTED = {
  wakeUps: { type: "queueTrigger", queueName: "wake-ups", connection: "AzureWebJobsStorage" },
  poisonWakeUps: { type: "queueTrigger", queueName: "wake-ups-poison", connection: "AzureWebJobsStorage" },
  sweep: { type: "timerTrigger", schedule: "0 * * * * *" },
  reconcile: { type: "timerTrigger", schedule: "30 * * * * *" },
  cleanup: { type: "timerTrigger", schedule: "0 17 * * * *" },
  operationsStatus: http("status", "GET"),
  operationsOrders: http("orders", "GET"),
  operationsOrder: http("order", "GET"),
  operationsExplain: http("explain", "GET"),
  operationsDeadLetters: http("dead-letters", "GET"),
  operationsDeadLetter: http("dead-letter", "GET"),
  operationsVerify: http("verify", "GET"),
  operationsRedrive: http("redrive", "POST"),
  operationsDiscard: http("discard", "POST"),
  operationsPause: http("pause", "POST"),
  operationsResume: http("resume", "POST"),
  operationsWake: http("wake", "POST"),
  operationsOther: http("{*path}", ...ALL_METHODS),
};

function http(path: string, ...methods: readonly string[]): Record<string, unknown> {
  return { type: "httpTrigger", route: `operations/${path}`, methods, authLevel: "function" };
}

const IDS = [
  "100",
  "0012",
  "1e5",
  "12345678901234567890",
  "true",
  "null",
  "-0",
  '"100"',
  "注文・一〇〇",
  "📦👩‍👩‍👧",
  "a/b",
  "100%",
  "e\u0301",
  "..",
  "{}",
];

export function bindingsSuite(appOf: () => UnpackedApp): void {
  describe("the functions that the worker finds", () => {
    let azurite: Azurite;
    let storage: ConnectedStorage;
    let queue: QueueClient;
    let host: Host;
    let logFile: string;

    beforeAll(async () => {
      azurite = await startAzurite();
      storage = connectStorage({ connectionString: azurite.connectionString });
      await storage.createResources();
      queue = QueueServiceClient.fromConnectionString(azurite.connectionString).getQueueClient("wake-ups");
      logFile = join(appOf().scratch, "bindings.log");
      writeFileSync(logFile, "");
      host = await startHost({ appFolder: appOf().folder, logFile, settings: { AzureWebJobsStorage: azurite.connectionString } });
    }, SETUP_MS);

    beforeEach(async () => {
      await queue.clearMessages();
      writeFileSync(logFile, "");
    });

    afterAll(async () => {
      await host?.kill();
      await azurite?.stop();
    }, SETUP_MS);

    const outbox = (): ReturnType<typeof createOutbox<typeof shipmentWorkflow>> => createOutbox({ workflow: shipmentWorkflow, storage });
    const commit = async (orderId: string): Promise<void> => {
      await outbox().commit(orderId, () => ({
        state: { status: "awaiting-instruction" },
        events: [{ type: "order.purchased", data: {} }],
      }));
      await queue.clearMessages();
    };
    const messageCount = async (): Promise<number | undefined> => (await queue.getProperties()).approximateMessagesCount;
    const dropped = (): readonly string[] =>
      readLog(logFile)
        .filter(({ level, text }) => level === "error" && text.startsWith("a wake-up names no order and is dropped"))
        .map(({ text }) => (JSON.parse(text.slice(text.indexOf("{"))) as { messageId: string }).messageId);

    test("exactly these, with these bindings, methods and auth levels", () => {
      const triggers = host.loaded.functions.map(({ name, bindings }) => {
        const {
          name: _name,
          direction: _direction,
          properties: _properties,
          ...trigger
        }: Record<string, unknown> = { ...Object.values(bindings)[0] };
        return [name, trigger];
      });
      expect(Object.fromEntries(triggers)).toEqual(EXPECTED);
    });

    test("no other output than the answer of HTTP functions: what is written is written before a function ends", () => {
      for (const { name, bindings } of host.loaded.functions) {
        const outputs = Object.values(bindings).filter(({ direction }) => direction === "out");
        expect(outputs.map(({ type }) => type)).toEqual(name.startsWith("operations") ? ["http"] : []);
      }
    });

    test.each(IDS)("C23: the wake-up of order %j wakes that order", async (id) => {
      await commit(id);
      await host.invoke("wakeUps", encodeWakeUp(parseOrderId(id)));
      expect(handledEvents(logFile).map(({ orderId, sequence }) => [orderId, sequence])).toEqual([[id, 1]]);
      const archived = await Array.fromAsync(storage.blobs.list("archive", `audit-log/${encodeOrderId(parseOrderId(id))}/`));
      expect(archived).toHaveLength(1);
    });

    test.each(["o-1", "abcd", "1234", "0099", "-5", "é📦", `<a>&"`, "x".repeat(128)])(
      "C23: the bare text %j wakes that order",
      async (id) => {
        await commit(id);
        await host.invoke("wakeUps", id);
        expect(handledEvents(logFile).map(({ orderId }) => orderId)).toEqual([id]);
      },
    );

    test.each(["12345678901234567891", "1.5", "1e400", "true", "null", "{}", "[1]", '""', "", "x".repeat(129), '"\\ud800"'])(
      "C23: %j is told with the id of its message and dropped, never thrown",
      async (text) => {
        await host.invoke("wakeUps", text);
        await host.invoke("poisonWakeUps", text);
        expect(dropped()).toEqual(["message-1", "message-1"]);
        expect([handledEvents(logFile), await messageCount()]).toEqual([[], 0]);
      },
    );

    test("F6: a poison message becomes a hidden wake-up, and marks no event", async () => {
      await commit("poisoned");
      await host.invoke("poisonWakeUps", encodeWakeUp(parseOrderId("poisoned")));
      expect(await messageCount()).toBe(1);
      // It is hidden: there is nothing to receive.
      expect((await queue.receiveMessages()).receivedMessageItems).toEqual([]);
      const { outbox: entities } = await storage.orders.readOutbox(encodeOrderId(parseOrderId("poisoned")));
      expect(entities).toHaveLength(1);
      expect(handledEvents(logFile)).toEqual([]);
    });

    test("C32: a message that comes again for a finished order does nothing", async () => {
      await commit("again");
      const text = encodeWakeUp(parseOrderId("again"));
      for (let times = 0; times < 3; times++) await host.invoke("wakeUps", text);
      expect(handledEvents(logFile)).toHaveLength(1);
      expect(await messageCount()).toBe(0);
    });

    test("a setting that is wrong shows in the invocations, by name; the functions are found all the same, and answer", async () => {
      await using broken = await startHost({ appFolder: appOf().folder, logFile, settings: {} });
      expect(broken.loaded.functions).toHaveLength(Object.keys(EXPECTED).length);
      await expect(broken.invoke("wakeUps", '"o-1"')).rejects.toThrow("no storage account: set AzureWebJobsStorage__accountName");
      const { status, headers } = await fetch(`${broken.url}/operations/status`, { headers: { "x-functions-key": FUNCTION_KEY } });
      expect([status, headers.get("retry-after"), headers.get("content-type")]).toEqual([503, "30", "application/problem+json"]);
    });

    test("C42: ticks at the same time", async () => {
      await commit("asleep");
      await Promise.all([host.tick("sweep"), host.tick("sweep"), host.tick("reconcile"), host.tick("reconcile"), host.tick("cleanup")]);
      expect(await messageCount()).toBe(0);
    });
  });
}
