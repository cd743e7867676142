/**
 * F9 for 2,000 orders: a backfill for a new subscription, and a replay of a range of each order, by processes that are killed again and again,
 * beside a worker host that runs. The tests share the account, one after another, in an Azurite of its own.
 */
import { fork, spawn } from "node:child_process";
import { once } from "node:events";
import { createInterface } from "node:readline";
import { fileURLToPath } from "node:url";
import { afterAll, beforeAll, expect, test, vi } from "vitest";
import { decodeEventBytes, type StoredEvent } from "../../src/core/event.ts";
import { rawJson } from "../../src/core/json.ts";
import type { Subscription } from "../../src/core/workflow.ts";
import { inLanes } from "../../src/operations/lanes.ts";
import type { ReplayResult } from "../../src/operations/replay-totals.ts";
import { verifyAll } from "../../src/operations/verify.ts";
import { createOutbox } from "../../src/producer/outbox.ts";
import { recordEvents } from "../../src/shipment/transitions.ts";
import { shipmentWorkflow } from "../../src/shipment/workflow.ts";
import { systemClock } from "../../src/system/clock.ts";
import { startWorkerHost, type WorkerHost } from "../../src/worker/host.ts";
import { createWorker } from "../../src/worker/worker.ts";
import { runCli } from "../cli/run-cli.ts";
import type { Azurite } from "../support/azurite.ts";
import { connectTestStorage, type TestStorage } from "../support/azurite-storage.ts";
import { handled, isForAnalytics, isForLedger, old, subscriptions } from "./fixtures/backfill-workflow.ts";
import { Emulator } from "../emulator/emulator.ts";
import { shopOrders, type ShopOrders } from "./shop-orders.ts";

const ORDERS = 2_000;
const MAIN = fileURLToPath(new URL("../../src/cli/main.ts", import.meta.url));
const WORKFLOW = fileURLToPath(new URL("fixtures/backfill-workflow.ts", import.meta.url));
const REPLAYS = fileURLToPath(new URL("fixtures/replay-process.ts", import.meta.url));
const LANES = 16;
/** What the command tells on its way, once in a hundred orders; one process after another is killed after so many of these. */
const PROGRESS = "orders looked at to backfill";
const BACKFILL_KILLS = [1, 3, 2, 1, 4];
/** After so many orders that a process has replayed. */
const REPLAY_KILLS = [1, 150, 400, 90, 600];
const RANGE = { from: 1, to: 2 };
/** On a machine that is busy with other things; otherwise all of this takes less than one of them. */
const TIMEOUT_MS = 3_600_000;
vi.setConfig({ testTimeout: TIMEOUT_MS, hookTimeout: TIMEOUT_MS });

let azurite: Azurite;
let storage: TestStorage;
let orders: ShopOrders;
let host: WorkerHost;
/** What `notify` has had of each order before anything is replayed. */
let originals: ReadonlyMap<string, readonly StoredEvent[]>;

beforeAll(async () => {
  const startedAt = Date.now();
  azurite = await Emulator.start();
  storage = await connectTestStorage({ connectionString: azurite.connectionString });
  orders = await shopOrders(ORDERS);
  host = work(old);
  const outbox = createOutbox({ workflow: shipmentWorkflow, storage });
  await inLanes(orders, LANES, async ([orderId, events]) => {
    const inputs = events.map(({ type, time, dataText }) => ({ type, time, data: rawJson(dataText) }));
    await outbox.commit(orderId, (state) => recordEvents(orderId, state, inputs));
  });
  const count = (wants: (type: string) => boolean): number => [...orders.values()].flat().filter(({ type }) => wants(type)).length;
  await allHandled(count(() => true) + count(isForLedger));
  await host.stop();
  originals = await archived("notify");
  host = work(subscriptions);
  tell("committed and handled", startedAt, { orders: orders.size, events: count(() => true), handlerCalls: handled.length });
});

afterAll(async () => {
  await host.stop();
  await azurite.stop();
});

function tell(what: string, startedAt: number, numbers: object): void {
  const seconds = Math.round((Date.now() - startedAt) / 1_000);
  process.stdout.write(`${what}: ${JSON.stringify({ seconds, ...numbers })}\n`);
}

function work(all: readonly Subscription[]): WorkerHost {
  const worker = createWorker({ workflow: shipmentWorkflow, subscriptions: all, storage });
  return startWorkerHost({ worker, wakeUps: storage.wakeUps, pollMaxMs: 200 });
}

/** Waits until there were so many handler calls, and what they were for is archived. */
async function allHandled(calls: number): Promise<void> {
  await vi.waitFor(() => expect(handled.length).toBeGreaterThanOrEqual(calls), { timeout: TIMEOUT_MS, interval: 100 });
  await vi.waitFor(async () => expect(await Array.fromAsync(storage.blobs.list("events", ""))).toEqual([]), {
    timeout: TIMEOUT_MS,
    interval: 500,
  });
}

/** By order, in order. */
async function archived(subscription: string): Promise<ReadonlyMap<string, readonly StoredEvent[]>> {
  const names = (await Array.fromAsync(storage.blobs.list("archive", `${subscription}/`))).map(({ name }) => name);
  const events = await inLanes(names, LANES, async (name) => decodeEventBytes((await storage.blobs.read("archive", name))!.bytes));
  return Map.groupBy(events, ({ orderId }) => String(orderId));
}

/** Everything of these subscriptions in storage, each with its version: a write would change it. */
async function versions(...names: readonly string[]): Promise<readonly string[]> {
  const containers = ["events", "archive", "dead"] as const;
  const blobs = containers.flatMap((container) => names.map((name) => Array.fromAsync(storage.blobs.list(container, `${name}/`))));
  return (await Promise.all(blobs)).flat().map(({ name, etag }) => `${name} ${etag}`);
}

/** What has been replayed of these originals since the first `before` handler calls: each once, in order, and to nobody else. */
async function expectReplays(subscription: string, expected: ReadonlyMap<string, readonly StoredEvent[]>, before: number): Promise<number> {
  const calls = handled.slice(before);
  expect(new Set(calls.map(([name]) => name))).toEqual(new Set([subscription]));
  const got = Map.groupBy(calls, ([, { orderId }]) => String(orderId));
  const stored = await archived(subscription);
  let events = 0;
  for (const [orderId, own] of expected) {
    const ids = own.map(({ id }) => id);
    const sequences = (got.get(orderId) ?? []).map(([, { sequence }]) => sequence);
    const repeats = (stored.get(orderId) ?? []).filter(({ replayOf }) => replayOf !== undefined);
    expect((got.get(orderId) ?? []).map(([, { replayOf }]) => replayOf)).toEqual(ids);
    expect(sequences).toEqual(sequences.toSorted((left, right) => left - right));
    expect(repeats.map(({ replayOf, replayFor, type, dataText }) => [replayOf, replayFor, type, dataText])).toEqual(
      own.map(({ id, type, dataText }) => [id, subscription, type, dataText]),
    );
    events += ids.length;
  }
  expect(calls).toHaveLength(events);
  return events;
}

/** What is left of the originals, order by order. */
function originalsThat(holds: (event: StoredEvent) => boolean): ReadonlyMap<string, readonly StoredEvent[]> {
  return new Map([...originals].map(([orderId, events]) => [orderId, events.filter(holds)]));
}

test("what is to be replayed is what was committed", () => {
  const texts = [...orders].map(([orderId, events]) => [orderId, events.map(({ type, dataText }) => [type, dataText])] as const);
  const stored = [...originals].map(([orderId, events]) => [orderId, events.map(({ type, dataText }) => [type, dataText])] as const);
  expect(new Map(stored)).toEqual(new Map(texts));
});

test("a backfill that is killed five times: each order's events come once, in order, and to nobody else", async () => {
  const startedAt = Date.now();
  const before = handled.length;
  const others = await versions("notify", "ledger");
  const expected = originalsThat(({ type }) => isForAnalytics(type));
  const wanted = [...expected.values()].flat().length;
  const command = ["backfill", "--subscription", "analytics", "--workflow", WORKFLOW, "--actor", "ann", "--reason", "a new partner"];
  const args = [...command, "--prefix", storage.prefix, "--json"];
  for (const lines of BACKFILL_KILLS) {
    const env = { ...process.env, ORDERED_OUTBOX_CONNECTION_STRING: azurite.connectionString };
    const child = spawn(process.execPath, [MAIN, ...args], { env, stdio: ["ignore", "ignore", "pipe"] });
    const ended = once(child, "exit");
    let left = lines;
    for await (const line of createInterface(child.stderr)) if (line.includes(PROGRESS) && --left === 0) child.kill("SIGKILL");
    expect(await ended).toEqual([null, "SIGKILL"]);
  }
  const last = await runCli(args, azurite.connectionString);
  const { details: _details, ...result } = JSON.parse(last.stdout) as ReplayResult;
  tell("backfill committed", startedAt, { kills: BACKFILL_KILLS.length, ...result });
  expect(last).toMatchObject({ status: 0 });
  expect(result).toMatchObject({ outcome: "done", failed: 0, left: 0, gone: 0 });
  expect(result.events + result.before).toBe(wanted);
  expect(result.events).toBeGreaterThan(0);
  expect(result.before).toBeGreaterThan(0);
  await allHandled(before + wanted);
  const events = await expectReplays("analytics", expected, before);
  expect(await versions("notify", "ledger")).toEqual(others);
  tell("backfill handled", startedAt, { orders: expected.size, events, doubled: handled.length - before - events });
});

test("a replay of a range of each order that is killed five times: each event comes once, in order, and to nobody else", async () => {
  const startedAt = Date.now();
  const before = handled.length;
  const others = await versions("notify", "analytics");
  const expected = originalsThat(({ type, sequence }) => isForLedger(type) && sequence >= RANGE.from && sequence <= RANGE.to);
  const wanted = [...expected.values()].flat().length;
  for (const kills of REPLAY_KILLS) {
    const { child, results } = startReplays();
    const ended = once(child, "exit");
    child.on("message", () => {
      if (results.filter(({ outcome }) => outcome === "done").length >= kills) child.kill("SIGKILL");
    });
    expect(await ended).toEqual([null, "SIGKILL"]);
  }
  const { child, results } = startReplays();
  expect(await once(child, "exit")).toEqual([0, null]);
  const outcomes = Object.fromEntries([...Map.groupBy(results, ({ outcome }) => outcome)].map(([outcome, own]) => [outcome, own.length]));
  tell("replays committed", startedAt, { kills: REPLAY_KILLS.length, lastOutcomes: outcomes });
  expect(results).toHaveLength(orders.size);
  expect(Object.keys(outcomes).toSorted()).toEqual(["done", "done-before"]);
  await allHandled(before + wanted);
  const events = await expectReplays("ledger", expected, before);
  expect(await versions("notify", "analytics")).toEqual(others);
  tell("replays handled", startedAt, { orders: expected.size, events, doubled: handled.length - before - events });
});

function startReplays(): { readonly child: ReturnType<typeof fork>; readonly results: readonly ReplayResult[] } {
  const env = { ...process.env, TEST_CONNECTION_STRING: azurite.connectionString };
  const child = fork(REPLAYS, [storage.prefix, "ledger", String(RANGE.from), String(RANGE.to)], { execArgv: [], env });
  const results: ReplayResult[] = [];
  child.on("message", (result: ReplayResult) => results.push(result));
  child.send([...orders.keys()]);
  return { child, results };
}

test("G6: all of it is whole and in order", async () => {
  const startedAt = Date.now();
  const { orders: verified, findings, complete } = await verifyAll({ storage, clock: systemClock });
  tell("verify", startedAt, { orders: verified, findings: findings.length });
  expect({ verified, findings, complete }).toEqual({ verified: orders.size, findings: [], complete: true });
});
