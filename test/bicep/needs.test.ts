/**
 * C38: the requests that code really makes, held against the roles that the template gives. The emulator checks no roles, so this does: a
 * request without a role fails here, and so does a role that a smaller one could replace.
 */
import { randomUUID } from "node:crypto";
import { createDefaultHttpClient, type HttpClient, type PipelineRequest } from "@azure/core-rest-pipeline";
import { beforeAll, describe, expect, test } from "vitest";
import { WAKE_UP_QUEUE, POISON_QUEUE } from "../../src/core/names.ts";
import { parseOrderId } from "../../src/core/order-id.ts";
import { PermanentError } from "../../src/core/retry.ts";
import { defineSubscription } from "../../src/core/workflow.ts";
import { listDeadLetters, showDeadLetter, type ListedDeadLetter } from "../../src/operations/dead-letters.ts";
import { decide } from "../../src/operations/decide.ts";
import { explain } from "../../src/operations/explain.ts";
import { listOrders } from "../../src/operations/orders.ts";
import { pause, resume } from "../../src/operations/pauses.ts";
import { showOrder } from "../../src/operations/show-order.ts";
import { readStatus } from "../../src/operations/status.ts";
import { unlockOrder } from "../../src/operations/unlock.ts";
import { verifyAll, verifyOrder } from "../../src/operations/verify.ts";
import { createCleaner } from "../../src/operations/cleanup.ts";
import { replay } from "../../src/operations/replay.ts";
import { createReconciler } from "../../src/operations/reconcile.ts";
import { createSweeper } from "../../src/operations/sweep.ts";
import { createOutbox } from "../../src/producer/outbox.ts";
import { traceEvent } from "../../src/producer/trace-event.ts";
import { systemClock } from "../../src/system/clock.ts";
import { createWorker } from "../../src/worker/worker.ts";
import { orderKey, steps, workflow } from "../producer/support.ts";
import { connectTestStorage, type TestStorage } from "../support/azurite-storage.ts";
import { OPERATOR_GRANTS, PRODUCER_GRANTS, READER_GRANTS, type Grant } from "./grants.ts";

/** What a role lets its holder do with the data of its scope (the published role definitions). Smaller ones first. */
const ROLES: Readonly<Record<string, readonly string[]>> = {
  "Storage Table Data Reader": ["tables read"],
  "Storage Table Data Contributor": ["tables read", "tables write"],
  "Storage Queue Data Message Sender": ["queues add"],
  "Storage Queue Data Reader": ["queues peek"],
  "Storage Queue Data Message Processor": ["queues peek", "queues receive", "queues delete"],
  "Storage Queue Data Contributor": ["queues peek", "queues add", "queues update", "queues receive", "queues delete"],
  "Storage Blob Data Reader": ["containers read"],
  "Storage Blob Data Contributor": ["containers read", "containers write"],
};

/** `what it asks for` of `which resource`, for every request that was made. */
class Needs {
  readonly #seen = new Set<string>();
  readonly http: HttpClient;
  prefix = "";

  constructor() {
    const inner = createDefaultHttpClient();
    this.http = {
      sendRequest: (request) => {
        this.#seen.add(this.#needOf(request));
        return inner.sendRequest(request);
      },
    };
  }

  /** Actions by resource. */
  byResource(): ReadonlyMap<string, readonly string[]> {
    const pairs = [...this.#seen].map((need) => need.split(" of ") as [string, string]);
    return new Map([...Map.groupBy(pairs, ([, resource]) => resource)].map(([resource, own]) => [resource, own.map(([action]) => action)]));
  }

  #needOf({ method, url }: PipelineRequest): string {
    const { pathname, searchParams } = new URL(url);
    const [, , first = "", ...rest] = decodeURIComponent(pathname).split("/");
    // A transaction names its table inside; there is only one.
    if (first === "$batch") return "tables write of tables/orders";
    if (first.startsWith(`${this.prefix}orders`)) return `tables ${method === "GET" ? "read" : "write"} of tables/orders`;
    const name = first.slice(`${this.prefix}-`.length);
    if ([WAKE_UP_QUEUE, POISON_QUEUE].includes(name)) return `${queueAction(method, rest.length, searchParams)} of queues/${name}`;
    const reads = (method === "GET" || method === "HEAD") && searchParams.get("comp") !== "lease";
    return `containers ${reads ? "read" : "write"} of containers/${name}`;
  }
}

function queueAction(method: string, depth: number, query: URLSearchParams): string {
  if (method === "POST") return "queues add";
  if (method === "PUT") return "queues update";
  if (method === "DELETE" && depth === 2) return "queues delete";
  if (method === "GET") return query.get("peekonly") === "true" ? "queues peek" : "queues receive";
  throw new Error(`${method} of a queue`);
}

function grantedOn(grants: readonly Grant[], resource: string): readonly string[] {
  const roles = grants.filter((grant) => grant.endsWith(` on ${resource}`)).map((grant) => grant.slice(0, -` on ${resource}`.length));
  return roles.flatMap((role) => ROLES[role]!);
}

/** The smallest role that lets its holder do this. */
function smallestFor(actions: readonly string[]): string | undefined {
  return Object.keys(ROLES).find((role) => actions.every((action) => ROLES[role]!.includes(action)));
}

function expectGranted(needs: Needs, grants: readonly Grant[]): void {
  const made = needs.byResource();
  for (const [resource, actions] of made)
    expect(grantedOn(grants, resource), `on ${resource}`).toEqual(expect.arrayContaining([...actions]));
}

const ORDER = "o-1";
const BIG_NOTE = "x".repeat(400_000);
const OPERATOR = { actor: "a test", reason: "to see what it asks for" };

/** Handles steps, and makes a dead letter of a document. */
const subscription = defineSubscription(workflow, {
  name: "notify",
  handle: ({ type }) => {
    if (type === "document") throw new PermanentError("no documents");
  },
});

let worker: TestStorage;
beforeAll(async () => {
  worker = await connectTestStorage();
});

/** A connection that is watched, to the same corner. */
async function watched(): Promise<{ readonly needs: Needs; readonly storage: TestStorage }> {
  const needs = new Needs();
  needs.prefix = worker.prefix;
  return { needs, storage: await connectTestStorage({ prefix: worker.prefix, httpClient: needs.http }) };
}

async function handle(order: string): Promise<void> {
  await createWorker({ workflow, subscriptions: [subscription], storage: worker }).handle(order);
}

describe("a producer", () => {
  test("has the roles for all it does, each the smallest that does", async () => {
    const { needs, storage } = await watched();
    const outbox = createOutbox({ workflow, storage });
    await outbox.commit(ORDER, steps(1));
    await handle(ORDER);
    // Nothing to say: the wake-up is taken back.
    await outbox.commit(ORDER, () => undefined);
    // Another writer is faster: the payload of the first try goes.
    let tries = 0;
    await outbox.commit(ORDER, async (state) => {
      if (tries++ === 0) await createOutbox({ workflow, storage: worker }).commit(ORDER, steps(2));
      return { state: { commits: (state?.commits ?? 0) + 1 }, events: [{ type: "document", data: { note: BIG_NOTE } }] };
    });
    // After an answer that was lost: was it mine?
    const { events } = await createOutbox({ workflow, storage: worker }).commit("o-2", steps(1));
    await handle("o-2");
    expect(await traceEvent(storage, orderKey("o-2"), events[0]!.id)).toBe(true);

    expectGranted(needs, PRODUCER_GRANTS);
    const smallest = [...needs.byResource()].map(([resource, actions]): Grant => `${smallestFor(actions)} on ${resource}`);
    expect(smallest.toSorted()).toEqual(PRODUCER_GRANTS);
  });
});

describe("an operator", () => {
  const context = (storage: TestStorage): { readonly storage: TestStorage; readonly clock: typeof systemClock } => ({
    storage,
    clock: systemClock,
  });
  const [pending, dead] = [parseOrderId("o-3"), parseOrderId("o-4")];
  beforeAll(async () => {
    const outbox = createOutbox({ workflow, storage: worker });
    const document = () => ({ state: { commits: 1 }, events: [{ type: "document" as const, data: { note: BIG_NOTE } }] });
    await outbox.commit(pending, document);
    await outbox.commit(dead, document);
    await outbox.commit(dead, steps(1));
    await handle(dead);
  });

  async function deadLetter(storage: TestStorage): Promise<ListedDeadLetter> {
    const { letters } = await listDeadLetters(context(storage), { orderId: dead });
    expect(letters).toHaveLength(1);
    return letters[0]!;
  }

  async function look(storage: TestStorage): Promise<void> {
    await readStatus(context(storage));
    await listOrders(context(storage), {});
    for (const order of [pending, dead, parseOrderId(ORDER)]) {
      await showOrder(context(storage), order);
      await explain(context(storage), order);
      await verifyOrder(context(storage), order);
    }
    await verifyAll(context(storage), {});
    await showDeadLetter(context(storage), await deadLetter(storage));
  }

  test("who looks has the roles for it, and reads only", async () => {
    const { needs, storage } = await watched();
    await look(storage);
    expectGranted(needs, READER_GRANTS);
    const made = [...needs.byResource()].map(([resource, actions]): Grant => `${smallestFor(actions)} on ${resource}`);
    // What no command reads is for eyes: the audit log, and what waits in the queues.
    const eyes = READER_GRANTS.filter((grant) => /queues\/|containers\/audit/.test(grant));
    expect([...made, ...eyes].toSorted()).toEqual(READER_GRANTS);
  });

  test("who acts has the roles for it", async () => {
    const { needs, storage } = await watched();
    await look(storage);
    expect(await decide(context(storage), await deadLetter(storage), "redrive", OPERATOR)).toMatchObject({ outcome: "recorded" });
    await pause(context(storage), { subscription: "notify" }, OPERATOR);
    await resume(context(storage), { subscription: "notify" }, OPERATOR);
    await worker.leases.acquire(orderKey("o-4"), {
      id: randomUUID(),
      durationMs: 15_000,
      etag: (await worker.leases.read(orderKey("o-4")))!.etag,
    });
    expect(await unlockOrder(context(storage), dead, OPERATOR)).toMatchObject({ outcome: "broken" });
    const target = { orderId: ORDER, subscription: "notify", from: 1, to: 1 };
    expect(await replay(context(storage), target, OPERATOR)).toMatchObject({ events: 1 });
    await createSweeper({ storage }).sweep();
    await createReconciler({ storage }).reconcile();
    await createCleaner({ storage }).clean();
    expectGranted(needs, OPERATOR_GRANTS);
    // A replay's wake-up is sent hidden and then made visible.
    expect(needs.byResource().get(`queues/${WAKE_UP_QUEUE}`)?.toSorted()).toEqual(["queues add", "queues update"]);
  });
});
