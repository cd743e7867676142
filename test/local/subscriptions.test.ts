/** What `npm start` runs: the deployed app's subscriptions, those of an adopter among them. */
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, expect, test, vi } from "vitest";
import { silentLogger } from "../../src/core/logger.ts";
import { decodeEvent, encodeEvent } from "../../src/core/event.ts";
import type { EventId } from "../../src/core/event-id.ts";
import { parseOrderId } from "../../src/core/order-id.ts";
import { defineSubscription, type Subscription } from "../../src/core/workflow.ts";
import { HandledLogReader, HandledLogWriter } from "../../src/local/handled-log.ts";
import { createRunSubscriptions, deployedSubscriptions } from "../../src/local/subscriptions.ts";
import { createSubscriptions } from "../../src/shipment/subscriptions.ts";
import { shipmentWorkflow } from "../../src/shipment/workflow.ts";

const SETTINGS = {
  name: "worker 1.1",
  handlerMs: 0,
  partner: { url: "http://127.0.0.1:9/", secret: `whsec_${Buffer.alloc(32, "a").toString("base64")}` },
};

let folder: string;
beforeEach(async () => void (folder = await mkdtemp(join(tmpdir(), "subscriptions-test-"))));
afterEach(async () => {
  vi.unstubAllEnvs();
  await rm(folder, { recursive: true });
});

function namesOf(subscriptions: readonly Subscription[]): readonly string[] {
  return subscriptions.map(({ name }) => name);
}

test("the deployed ones are those of src/shipment; what settings would send to somebody else stays out", () => {
  vi.stubEnv("SHIPMENT_NOTIFY_URL", "https://gateway.example/");
  vi.stubEnv("ORDERED_OUTBOX_WEBHOOK_ERP_URL", "https://erp.example/");
  expect(namesOf(deployedSubscriptions())).toEqual(namesOf(createSubscriptions({}, silentLogger)));
});

test("one that an adopter adds runs too, and is recorded when it has handled an event; one of the same name takes the place of the run's own", async () => {
  const path = join(folder, "handled.ndjson");
  const writer = new HandledLogWriter(path);
  const reader = await HandledLogReader.open(path);
  let fails = true;
  const stats = defineSubscription(shipmentWorkflow, {
    name: "stats",
    handle() {
      if (fails) throw new Error("not yet");
    },
  });
  const notifier = defineSubscription(shipmentWorkflow, { name: "customer-notifier", handle() {} });
  try {
    const running = createRunSubscriptions([stats, notifier], SETTINGS, writer);
    expect(namesOf(running)).toEqual(["stats", "customer-notifier", "partner"]);
    const id = "01JZ0000000000000000000001" as EventId;
    const head = { id, orderId: parseOrderId("o"), sequence: 1, type: "order.approved", source: "/shipment", time: "2026-01-05T08:00:00Z" };
    const event = { ...decodeEvent(encodeEvent(head, "{}")), data: {} };
    const handle = (): void | Promise<void> =>
      running[0]!.handle(event, { subscription: "stats", attempt: 1, signal: new AbortController().signal });
    await expect(handle()).rejects.toThrow("not yet");
    expect(await reader.readNew()).toEqual([]);
    fails = false;
    await handle();
    expect(await reader.readNew()).toMatchObject([{ subscription: "stats", worker: "worker 1.1", orderId: "o", id, sequence: 1 }]);
  } finally {
    writer.close();
    await reader.close();
  }
});
