/** Compiled, never run: what the README promises about types. A promise that breaks is a compile error here. */
import { z } from "zod";
import {
  createOutbox,
  createWorker,
  defineSubscription,
  defineWorkflow,
  rawJson,
  type ConnectedStorage,
  type EventId,
  type OrderId,
  type Outbox,
  type Worker,
} from "../../src/index.ts";

const workflow = defineWorkflow({
  name: "shipment",
  state: z.object({ status: z.enum(["instructed", "shipped"]) }),
  events: {
    "shipment.instructed": z.object({ address: z.string() }),
    "shipment.shipped": z.object({ carrier: z.string(), trackingNumber: z.string() }),
  },
});

export function outboxOf(storage: ConnectedStorage): Outbox<typeof workflow> {
  return createOutbox({ workflow, storage });
}

export async function produce(outbox: Outbox<typeof workflow>): Promise<EventId | undefined> {
  const data = { carrier: "yamato", trackingNumber: "JP-1" };
  await outbox.commit("100", () => ({ state: { status: "shipped" }, events: [{ type: "shipment.shipped", data: rawJson("{}") }] }));
  // @ts-expect-error a status that the schema does not know
  await outbox.commit("100", () => ({ state: { status: "lost" }, events: [] }));
  // @ts-expect-error an event type that the workflow does not declare
  await outbox.commit("100", () => ({ state: null, events: [{ type: "shipment.lost", data }] }));
  // @ts-expect-error another event's data
  await outbox.commit("100", () => ({ state: null, events: [{ type: "shipment.instructed", data }] }));
  // @ts-expect-error an OrderId is a string
  await outbox.commit(100, () => undefined);
  const { events } = await outbox.delete("100", async () => ({ events: [{ type: "shipment.shipped", data }] }));
  return events[0]?.id;
}

export const subscription = defineSubscription(workflow, {
  name: "notify",
  events: ["shipment.shipped"],
  handle(event, { signal }): void {
    const carrier: string = event.data.carrier;
    const type: "shipment.shipped" = event.type;
    const orderId: OrderId = event.orderId;
    void [carrier, type, orderId, signal.aborted];
    // @ts-expect-error not in the data of this event type
    void event.data.address;
  },
});

export function workerOf(storage: ConnectedStorage): Worker {
  return createWorker({ workflow, subscriptions: [subscription], storage });
}
