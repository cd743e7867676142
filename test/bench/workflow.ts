/** What the bench commits: an order of a shop, its events of about 320 bytes each as stored. */
import { z } from "zod";
import { encodeEvent, type StoredEvent } from "../../src/core/event.ts";
import type { EventId } from "../../src/core/event-id.ts";
import { parseOrderId } from "../../src/core/order-id.ts";
import { defineSubscription, defineWorkflow, type HandlerContext, type Subscription } from "../../src/core/workflow.ts";
import type { Change } from "../../src/producer/order-change.ts";

export const workflow = defineWorkflow({
  name: "bench",
  state: z.object({ status: z.string(), steps: z.number() }),
  events: { step: z.object({ n: z.number(), place: z.string(), note: z.string() }) },
});

/** The data of the n-th event of an order, the same for the product and for the naive baseline. */
export function stepData(n: number): { readonly n: number; readonly place: string; readonly note: string } {
  return { n, place: "Hamburg, Altona", note: "parcel scanned at the hub and handed over to the carrier of the next leg" };
}

/** Commits events `from` to `from + count - 1`. */
export function steps(from: number, count: number): () => Change<typeof workflow> {
  return () => ({
    state: { status: "in-transit", steps: from + count - 1 },
    events: Array.from({ length: count }, (_, index) => ({ type: "step" as const, data: stepData(from + index) })),
  });
}

export function subscription(
  name: string,
  handle: (event: Pick<StoredEvent, "orderId" | "sequence">, context: HandlerContext) => Promise<void> | void,
): Subscription {
  return defineSubscription(workflow, { name, handle });
}

export function orderName(n: number): string {
  return `bench-${n}`;
}

/** The text of the n-th event of an order, as it is stored. */
export function eventText(id: EventId, orderId: string, n: number): string {
  const head = { id, orderId: parseOrderId(orderId), sequence: n, type: "step", source: "/bench", time: "2026-07-01T09:30:00.000Z" };
  return encodeEvent(head, JSON.stringify(stepData(n)));
}
