/** A webhook in the hands of a worker: from the commit to the receiver. */
import { describe, expect, test } from "vitest";
import { z } from "zod";
import { rawJson } from "../../src/core/json.ts";
import { defineWorkflow } from "../../src/core/workflow.ts";
import { listPauses } from "../../src/operations/list-pauses.ts";
import { createOutbox } from "../../src/producer/outbox.ts";
import { systemClock } from "../../src/system/clock.ts";
import type { RoundResult } from "../../src/worker/round-result.ts";
import { createWorker } from "../../src/worker/worker.ts";
import { webhookSubscription } from "../../src/webhook/webhook-subscription.ts";
import { createMemoryStorage, type MemoryStorage } from "../support/memory-storage.ts";
import { SECRET, startReceiver, type Receiver } from "./webhook-support.ts";

const workflow = defineWorkflow({ name: "test", state: z.unknown(), events: { step: z.unknown() } });
const DATA = ['{"n":9007199254740993}', '{"n":2.0}', '{"n":"\u2028"}'];

interface Outcome {
  readonly result: RoundResult;
  readonly storage: MemoryStorage;
  /** The data of each request, exactly. */
  readonly requests: readonly string[];
}

/** Commits three events and lets a worker run one round; the receiver answers its requests with the statuses, the last one for ever. */
async function round(...statuses: readonly [number, ...number[]]): Promise<Outcome> {
  const receiver: Receiver = await startReceiver((response, _request, index) => {
    response.writeHead(statuses[Math.min(index, statuses.length - 1)]!, { "retry-after": "3600" }).end();
  });
  const storage = createMemoryStorage(systemClock);
  await createOutbox({ workflow, storage }).commit("o-1", () => ({
    state: {},
    events: DATA.map((text) => ({ type: "step" as const, data: rawJson(text) })),
  }));
  await using webhook = webhookSubscription(workflow, {
    name: "partner",
    url: receiver.url,
    secret: SECRET,
    allowHttp: true,
    allowPrivateAddresses: true,
  });
  const result = await createWorker({ workflow, subscriptions: [webhook], storage }).handle("o-1");
  return { result, storage, requests: receiver.received.map(({ body }) => body.toString().replace(/^.*,"data":|\}$/gs, "")) };
}

describe("a worker and a webhook", () => {
  test("G2: the events arrive in commit order, one after the other, as they were committed", async () => {
    const { result, requests } = await round(200);
    expect([result.status, result.handled, requests]).toEqual(["done", 3, DATA]);
  });

  test("F2: the wait that a receiver asks for parks the order; nothing passes the event", async () => {
    const { result, requests } = await round(200, 503);
    expect([result.handled, requests]).toEqual([1, DATA.slice(0, 2)]);
    expect(result.problems.join()).toContain("answered 503");
  });

  test("F3: a refusal is a dead letter at once, with its status", async () => {
    const { requests, storage } = await round(200, 422);
    expect(requests).toEqual(DATA.slice(0, 2));
    expect(storage.blobEntries("dead").map(([, { bytes }]) => Buffer.from(bytes).toString())).toEqual([
      expect.stringContaining("answered 422"),
    ]);
  });

  test("410: the subscription is paused with the answer as reason, the event keeps its place", async () => {
    const { result, requests, storage } = await round(200, 410);
    expect([result.handled, requests]).toEqual([1, DATA.slice(0, 2)]);
    expect(storage.blobEntries("dead")).toEqual([]);
    expect(await listPauses({ storage })).toMatchObject([
      { subscription: "partner", orderId: undefined, reason: expect.stringMatching(/^http:\/\/127\.0\.0\.1:\d+ answered 410$/) },
    ]);
  });
});
