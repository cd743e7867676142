/** Compiled, never run: what the README promises about types. A promise that breaks is a compile error here. */
import { z } from "zod";
import {
  connectStorage,
  createCleaner,
  createOutbox,
  createReconciler,
  createSweeper,
  createWorker,
  decideMany,
  decideOrder,
  defineSubscription,
  defineWebhook,
  defineWorkflow,
  explain,
  listDeadLetters,
  listOrders,
  METRICS,
  parseOrderId,
  pause,
  PermanentError,
  rawJson,
  readStatus,
  recordStorageCall,
  resume,
  RetryableError,
  showDeadLetter,
  showOrder,
  startSchedule,
  SubscriptionGoneError,
  systemClock,
  unlockOrder,
  verifyAll,
  verifyOrder,
  wakeOrder,
  type ConnectedStorage,
  type DecisionResult,
  type EventId,
  type MetricName,
  type OperationsContext,
  type Operator,
  type OrderId,
  type Outbox,
  type RetryOptions,
  type RetryPolicy,
  type Schedule,
  type Status,
  type WebhookOptions,
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

const patient: RetryOptions = { longRetries: 20, onDead: "block" };

export const charging = defineSubscription(workflow, {
  name: "charging",
  retry: patient,
  retryByType: { "shipment.shipped": { onDead: "skip", timeoutMs: 5_000 } },
  handle({ data }, { attempt }): void {
    if (!("carrier" in data)) throw new PermanentError("no carrier");
    throw new RetryableError(`busy at start ${attempt}`, 30_000);
  },
});

export const policy: RetryPolicy = charging.retry;

// @ts-expect-error a policy that does not exist
defineSubscription(workflow, { name: "other", retry: { onDead: "drop" }, handle: () => {} });
// @ts-expect-error an event type that the workflow does not declare
defineSubscription(workflow, { name: "other", retryByType: { "shipment.lost": {} }, handle: () => {} });

const tracking = defineWorkflow({
  name: "tracking",
  state: z.object({}),
  events: {
    "shipment.picked-up": z.object({ depot: z.string() }),
    "shipment.delivered": z.object({ signedBy: z.string(), at: z.string().transform((text) => new Date(text)) }),
    "shipment.returned": z.object({ reason: z.string() }),
  },
});

/** Everything flows from the schemas: the handler's event, the predicate's types, retries of single types. */
export const delivered = defineSubscription(tracking, {
  name: "delivered",
  events: ["shipment.delivered"],
  concurrency: 4,
  when(event) {
    const type: "shipment.delivered" = event.type;
    const { signedBy } = JSON.parse(event.dataText) as { signedBy: string };
    // @ts-expect-error the stored event has its data as text: nothing is parsed for a predicate
    void event.data;
    return type.length > 0 && signedBy !== "";
  },
  retryByType: { "shipment.delivered": { longRetries: 3 } },
  handle({ data, sequence, traceparent, tracestate }, { subscription: name, attempt }): void {
    const signedBy: string = data.signedBy;
    // What the schema makes of it, not what was stored.
    const at: Date = data.at;
    void [signedBy, at, sequence, traceparent, tracestate, name, attempt];
    // @ts-expect-error in the data of another event type
    void data.depot;
    throw new SubscriptionGoneError("answered 410");
  },
});

/** Of several types the handler gets a union that narrows. */
export const some = defineSubscription(tracking, {
  name: "some",
  events: ["shipment.delivered", "shipment.returned"],
  // @ts-expect-error a type that the filter leaves out can't come
  when: ({ type }) => type !== "shipment.picked-up",
  handle(event): void {
    if (event.type === "shipment.returned") void event.data.reason.length;
    else void event.data.signedBy.length;
    // @ts-expect-error not before its type is known
    void event.data.reason;
  },
});

// @ts-expect-error an event type that the workflow does not declare
defineSubscription(tracking, { name: "other", events: ["shipment.lost"], handle: () => {} });
// @ts-expect-error a predicate answers at once
defineSubscription(tracking, { name: "other", when: async () => true, handle: () => {} });
// @ts-expect-error a predicate answers yes or no
defineSubscription(tracking, { name: "other", when: ({ type }) => type, handle: () => {} });
// @ts-expect-error a setting that does not exist
defineSubscription(tracking, { name: "other", retryByType: { "shipment.delivered": { retries: 3 } }, handle: () => {} });
// @ts-expect-error retries of a type that the filter leaves out
defineSubscription(tracking, { name: "other", events: ["shipment.returned"], retryByType: { "shipment.delivered": {} }, handle: () => {} });
const receiver: WebhookOptions = { url: "https://partner.example/hooks", secret: "whsec_" };
export const hooks = [
  defineWebhook(tracking, { ...receiver, name: "all", retryByType: { "shipment.delivered": { longRetries: 3 } } }),
  // @ts-expect-error retries of a type that the filter leaves out
  defineWebhook(tracking, { ...receiver, name: "some", events: ["shipment.returned"], retryByType: { "shipment.delivered": {} } }),
];
// @ts-expect-error a number, not a text
defineSubscription(tracking, { name: "other", concurrency: "4", handle: () => {} });
// @ts-expect-error the data of the one event type that comes
defineSubscription(tracking, { name: "other", events: ["shipment.returned"], handle: ({ data }) => void data.signedBy });
// @ts-expect-error a reason is asked for
void new SubscriptionGoneError();

/** What `ordered-outbox work` does beside its host, in a process of one's own. */
export function heal(connectionString: string): Schedule {
  const storage = connectStorage({ connectionString, onCall: recordStorageCall });
  return startSchedule({
    sweeper: createSweeper({ storage, subscriptions: [charging.name] }),
    reconciler: createReconciler({ storage }),
    cleaner: createCleaner({ storage, archiveDays: 30 }),
    sweepIntervalMs: 30_000,
  });
}

export async function operate(storage: ConnectedStorage): Promise<readonly DecisionResult[]> {
  const context: OperationsContext = { storage };
  const operator: Operator = { actor: "ann", reason: "carrier is back" };
  const orderId: OrderId = parseOrderId("100");
  const status: Status = await readStatus(context);
  const blocked = await listOrders(context, { state: "blocked" });
  const { timeline } = await showOrder(context, orderId);
  await wakeOrder({ storage, clock: systemClock }, "100", operator, { dryRun: true });
  await listDeadLetters(context, { orderId: "100" });
  await resume(context, { subscription: "charging", orderId: "100" }, operator);
  const { verdict, stuck } = await explain(context, "100", { deployed: { workflow, subscriptions: [charging] } });
  const { letters } = await listDeadLetters(context, { subscription: "charging", olderThanMs: 60_000 });
  const shown = letters[0] && (await showDeadLetter(context, letters[0]));
  await pause(context, { subscription: "charging" }, operator);
  await resume(context, { subscription: "charging", orderId }, operator, { dryRun: true });
  await wakeOrder(context, orderId, operator);
  await unlockOrder(context, orderId, operator);
  const { sound } = await verifyOrder(context, orderId);
  await verifyAll(context);
  void [status.ordersWithBacklog, blocked.orders.length, timeline[0]?.state, verdict.code, stuck, shown?.letter.history, sound];
  await decideMany(context, "discard", { type: "shipment.shipped" }, operator, { limit: 10 });
  // @ts-expect-error who does it, and why, is asked for
  await decideOrder(context, "redrive", { orderId });
  return decideOrder(context, "redrive", { orderId }, operator);
}

export const alarms: ReadonlyArray<readonly [MetricName, string]> = [["outbox_oldest_age", METRICS.outbox_oldest_age.alarm]];
