/** What becomes of a message, with the real worker and the memory ports. */
import { beforeEach, describe, expect, test } from "vitest";
import { OutboxError } from "../../src/core/errors.ts";
import type { Logger } from "../../src/core/logger.ts";
import { encodeOrderId, parseOrderId } from "../../src/core/order-id.ts";
import { MAX_HIDDEN_MS } from "../../src/core/ports.ts";
import { encodeWakeUp } from "../../src/core/wake-up.ts";
import { defineSubscription } from "../../src/core/workflow.ts";
import { HiddenCopies } from "../../src/functions/app/hidden-copies.ts";
import { handleWakeUp, revivePoison, type WakeUpContext, type WakeUpMessage } from "../../src/functions/app/wake-up-round.ts";
import { createOutbox } from "../../src/producer/outbox.ts";
import { shipmentWorkflow } from "../../src/shipment/workflow.ts";
import { createSubscriptions } from "../../src/shipment/subscriptions.ts";
import type { RoundResult } from "../../src/worker/round-result.ts";
import { createWorker } from "../../src/worker/worker.ts";
import { ManualClock } from "../support/manual-clock.ts";
import { createMemoryStorage, type MemoryStorage } from "../support/memory-storage.ts";

const ORDER = parseOrderId("o-1");
const LEASE_MS = 30_000;
const MESSAGE: WakeUpMessage = { entry: "o-1", messageId: "m-1", dequeueCount: 1 };

let clock: ManualClock;
let storage: MemoryStorage;
let log: string[];

beforeEach(() => {
  clock = new ManualClock();
  storage = createMemoryStorage(clock);
  log = [];
});

function logger(): Logger {
  const at =
    (level: string) =>
    (message: string): void =>
      void log.push(`${level}: ${message}`);
  return { debug() {}, info: at("info"), warn: at("warn"), error: at("error") };
}

/** One instance of the function app. */
function instance(): WakeUpContext {
  const subscriptions = createSubscriptions({}, logger());
  return {
    worker: createWorker({ workflow: shipmentWorkflow, subscriptions, storage, clock, lease: { durationMs: LEASE_MS } }),
    copies: new HiddenCopies(storage.wakeUps, clock),
    logger: logger(),
    random: () => 0.5,
    aborting: new AbortController().signal,
  };
}

/** A worker that answers every wake-up alike. */
function answering(answer: Pick<RoundResult, "status" | "retryInMs"> | Error): WakeUpContext {
  const handle = (): Promise<RoundResult> =>
    answer instanceof Error ? Promise.reject(answer) : Promise.resolve({ ...answer, handled: 0, problems: [] });
  return { ...instance(), worker: { handle, stopStarting() {} } };
}

function hidden(): readonly (readonly [text: string, hiddenForMs: number])[] {
  return storage.messages().map(({ text, hiddenForMs }) => [text, hiddenForMs]);
}

async function takeOrder(): Promise<void> {
  const { etag } = await storage.leases.create(encodeOrderId(ORDER));
  await storage.leases.acquire(encodeOrderId(ORDER), { id: "other", durationMs: 60_000, etag });
}

describe("a wake-up whose order somebody else holds", () => {
  test("W6, C10: ends well, and leaves one hidden copy for after the lease", async () => {
    await takeOrder();
    await handleWakeUp(instance(), MESSAGE);
    expect(hidden()).toEqual([[encodeWakeUp(ORDER), LEASE_MS]]);
  });

  test("C10: thirty one after the other leave one copy; when it fires it is followed by one", async () => {
    await takeOrder();
    const context = instance();
    for (let times = 0; times < 30; times++) await handleWakeUp(context, MESSAGE);
    expect(storage.messages()).toHaveLength(1);
    await clock.advance(LEASE_MS);
    const [fired] = await storage.wakeUps.receive(32, 600_000);
    await handleWakeUp(context, MESSAGE);
    await storage.wakeUps.delete(fired!.receipt);
    expect(hidden()).toEqual([[encodeWakeUp(ORDER), LEASE_MS]]);
  });

  test("C10: thirty at the same time on three instances leave at most one an instance", async () => {
    await takeOrder();
    const instances = [instance(), instance(), instance()];
    await Promise.all(Array.from({ length: 30 }, (_, at) => handleWakeUp(instances[at % 3]!, MESSAGE)));
    expect(storage.messages()).toHaveLength(3);
  });

  test("C10: a copy that could not be sent stands in for none: the next wake-up sends its own", async () => {
    await takeOrder();
    const context = instance();
    storage.onCall = ({ method }) => {
      if (method === "send") throw new OutboxError("unavailable", "the queue is down");
    };
    await expect(handleWakeUp(context, MESSAGE)).rejects.toThrow("the queue is down");
    storage.onCall = undefined;
    await handleWakeUp(context, MESSAGE);
    expect(storage.messages()).toHaveLength(1);
  });
});

test("C10: thirty for an order whose handler takes long, on the instance that runs it: one start, no copies, nothing left over", async () => {
  const started = Promise.withResolvers<void>();
  const end = Promise.withResolvers<void>();
  let starts = 0;
  const slow = defineSubscription(shipmentWorkflow, {
    name: "slow",
    async handle() {
      starts += 1;
      started.resolve();
      await end.promise;
    },
  });
  const outbox = createOutbox({ workflow: shipmentWorkflow, storage, clock });
  await outbox.commit("o-1", () => ({ state: { status: "awaiting-instruction" }, events: [{ type: "order.purchased", data: {} }] }));
  const [committed] = await storage.wakeUps.receive(1, 600_000);
  await storage.wakeUps.delete(committed!.receipt);
  const context = { ...instance(), worker: createWorker({ workflow: shipmentWorkflow, subscriptions: [slow], storage, clock }) };
  const first = handleWakeUp(context, MESSAGE);
  await started.promise;
  for (let times = 1; times < 30; times++) await handleWakeUp(context, MESSAGE);
  end.resolve();
  await first;
  expect([starts, hidden()]).toEqual([1, []]);
});

describe("what the round says", () => {
  test.each([
    ["done", 0],
    ["joined", LEASE_MS],
  ] as const)("%s: the message is used up", async (status, retryInMs) => {
    await handleWakeUp(answering({ status, retryInMs }), MESSAGE);
    expect(hidden()).toEqual([]);
  });

  test.each([
    [0, 1_000],
    [10_000, 10_000],
    [30 * 86_400_000, MAX_HIDDEN_MS],
  ])("left, look again in %i ms: hidden for %i ms", async (retryInMs, hiddenForMs) => {
    await handleWakeUp(answering({ status: "left", retryInMs }), MESSAGE);
    expect(hidden()).toEqual([[encodeWakeUp(ORDER), hiddenForMs]]);
  });

  test("C33: it throws: told, and tried again later, without a failure that the host would count", async () => {
    await handleWakeUp(answering(new OutboxError("unavailable", "503")), MESSAGE);
    expect(hidden()).toEqual([[encodeWakeUp(ORDER), 45_000]]);
    expect(log).toEqual(["error: a round failed and will be repeated"]);
  });

  test("C33: it throws and the queue is down too: the host brings the message back", async () => {
    storage.onCall = ({ method }) => {
      if (method === "send") throw new OutboxError("unavailable", "the queue is down");
    };
    await expect(handleWakeUp(answering(new OutboxError("unavailable", "503")), MESSAGE)).rejects.toThrow("the queue is down");
  });
});

describe("a poison message", () => {
  test("F6: its order is woken again later; nothing else is touched", async () => {
    await revivePoison(instance(), MESSAGE);
    expect(hidden()).toEqual([[encodeWakeUp(ORDER), 300_000]]);
    expect(storage.callCounts()).toEqual({ "wakeUps.send": 1 });
  });

  test("F6: while the queue is down it stays where it is", async () => {
    storage.onCall = () => {
      throw new OutboxError("unavailable", "the queue is down");
    };
    await expect(revivePoison(instance(), MESSAGE)).rejects.toThrow("the queue is down");
  });

  test("F6: five of one order leave one copy", async () => {
    const context = instance();
    await Promise.all(Array.from({ length: 5 }, () => revivePoison(context, MESSAGE)));
    expect(storage.messages()).toHaveLength(1);
  });
});

test.each([1e21, 1.5, Number.NaN, null, undefined, true, {}, ["o-1"], ""])(
  "C23: %j names no order: told and dropped by both",
  async (entry) => {
    await handleWakeUp(instance(), { ...MESSAGE, entry });
    await revivePoison(instance(), { ...MESSAGE, entry });
    expect(log).toEqual(["error: a wake-up names no order and is dropped", "error: a wake-up names no order and is dropped"]);
    expect(storage.calls).toEqual([]);
  },
);
