import { expect, it } from "vitest";
import { z } from "zod";
import { defineSubscription, defineWorkflow } from "../src/core/workflow.ts";
import { createOutbox } from "../src/producer/outbox.ts";
import { createWorker } from "../src/worker/worker.ts";
import { createMemoryStorage } from "./support/memory-storage.ts";
import { connectTestStorage } from "./support/azurite-storage.ts";

const workflow = defineWorkflow({ name: "shipment", state: z.object({ status: z.string() }), events: { "shipment.instructed": z.object({ n: z.number() }) } });

async function run(storage: any) {
  const log: number[] = [];
  const sub = defineSubscription(workflow, { name: "audit", handle: (event) => void log.push(event.data.n) });
  const outbox = createOutbox({ workflow, storage });
  const worker = createWorker({ workflow, subscriptions: [sub], storage });
  await outbox.commit("o-1", () => ({ state: { status: "a" }, events: [{ type: "shipment.instructed", data: { n: 1 } }] }));
  console.log(await worker.handle("o-1"));
  const before = storage.calls.snapshot?.();
  const r = await outbox.commit("o-1", (s) => ({ state: { ...s!, status: "a" }, events: [{ type: "shipment.instructed", data: { n: 2 } }] }));
  const mid = storage.calls.snapshot?.();
  console.log(await worker.handle("o-1"), r);
  if (mid) {console.log(before, mid, storage.calls.snapshot());}
  await outbox.commit("o-1", (s) => ({ state: { ...s!, status: "a" }, events: Array.from({ length: 98 }, (_, i) => ({ type: "shipment.instructed" as const, data: { n: 3+i } })) }));
  console.log(await worker.handle("o-1"));
  if (mid) console.log(storage.calls.snapshot());
  expect(log).toEqual(Array.from({ length: 100 }, (_, i) => i + 1));
}
it("memory", async () => { await run(createMemoryStorage()); });
it("azurite", async () => { const s = await connectTestStorage(); await run(s); });
