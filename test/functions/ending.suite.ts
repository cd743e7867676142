/** A host that is told to end in the middle of an order. */
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { QueueServiceClient } from "@azure/storage-queue";
import { afterAll, beforeAll, describe, expect, test, vi } from "vitest";
import { encodeOrderId, parseOrderId } from "../../src/core/order-id.ts";
import { createOutbox } from "../../src/producer/outbox.ts";
import { shipmentWorkflow } from "../../src/shipment/workflow.ts";
import { connectStorage, type ConnectedStorage } from "../../src/storage/connect.ts";
import { startAzurite, type Azurite } from "../support/azurite.ts";
import { handledEvents } from "./handled-events.ts";
import { startHost } from "./host/start-host.ts";
import { SETUP_MS, type UnpackedApp } from "./host/unpacked-app.ts";

const EVENTS = 180;
const EVENTS_A_COMMIT = 60;
const ORDER = encodeOrderId(parseOrderId("o-1"));

export function endingSuite(appOf: () => UnpackedApp): void {
  describe("a host that ends", () => {
    let azurite: Azurite;
    let storage: ConnectedStorage;

    beforeAll(async () => {
      azurite = await startAzurite();
      storage = connectStorage({ connectionString: azurite.connectionString });
      await storage.createResources();
    }, SETUP_MS);

    afterAll(() => azurite?.stop(), SETUP_MS);

    test(
      "C32: starts no further event, gives the lease back, and another instance goes on: nothing is repeated",
      { timeout: 120_000 },
      async () => {
        const logFile = join(appOf().scratch, "ending.log");
        writeFileSync(logFile, "");
        const outbox = createOutbox({ workflow: shipmentWorkflow, storage });
        for (let committed = 0; committed < EVENTS; committed += EVENTS_A_COMMIT) {
          const events = Array.from({ length: EVENTS_A_COMMIT }, () => ({ type: "order.approved" as const, data: {} }));
          await outbox.commit("o-1", () => ({ state: { status: "awaiting-instruction" }, events }));
        }
        const settings = { AzureWebJobsStorage: azurite.connectionString };
        const sequences = (): number[] => handledEvents(logFile).map(({ sequence }) => sequence);

        await using first = await startHost({ appFolder: appOf().folder, logFile, settings });
        await first.listen(azurite.connectionString);
        await vi.waitFor(() => expect(sequences().length).toBeGreaterThan(5), { timeout: 60_000, interval: 5 });
        const { beganAt, ms } = await first.terminate();
        expect(ms).toBeLessThan(5_000);
        expect(sequences().length).toBeLessThan(EVENTS);
        // One may have been on its way to its handler.
        expect(handledEvents(logFile).filter(({ at }) => at > beganAt).length).toBeLessThanOrEqual(1);
        expect((await storage.leases.read(ORDER))?.state).toBe("free");
        const queue = QueueServiceClient.fromConnectionString(azurite.connectionString).getQueueClient("wake-ups");
        expect((await queue.getProperties()).approximateMessagesCount).toBeGreaterThan(0);
        await first.kill();

        await using second = await startHost({ appFolder: appOf().folder, logFile, settings });
        await second.listen(azurite.connectionString);
        await vi.waitFor(() => expect(sequences().length).toBeGreaterThanOrEqual(EVENTS), { timeout: 60_000, interval: 50 });
        expect(sequences()).toEqual(Array.from({ length: EVENTS }, (_, at) => at + 1));
      },
    );
  });
}
