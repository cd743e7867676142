/**
 * One account with more than a page of everything: 5,200 pending blobs and 1,100 outbox entities of single orders, 5,000 orders with a backlog,
 * 5,100 dead letters. Every command and function of operators is complete and exact on it, and so is the worker. The tests share the account,
 * one after another, in an Azurite of its own: the others would suffer.
 */
import { afterAll, beforeAll, expect, test, vi } from "vitest";
import { parseOrderId } from "../../src/core/order-id.ts";
import { defineSubscription } from "../../src/core/workflow.ts";
import { createCleaner } from "../../src/operations/cleanup.ts";
import type { OperationsContext } from "../../src/operations/context.ts";
import type { DeadLetterListing } from "../../src/operations/dead-letters.ts";
import type { DecideManyResult } from "../../src/operations/decide-many.ts";
import { explain } from "../../src/operations/explain.ts";
import type { ListedOrder, OrderListing } from "../../src/operations/orders.ts";
import { showOrder, type ShownOrder } from "../../src/operations/show-order.ts";
import { inLanes } from "../../src/operations/lanes.ts";
import { readStatus } from "../../src/operations/status.ts";
import { createSweeper } from "../../src/operations/sweep.ts";
import { verifyOrder, type VerifyResult } from "../../src/operations/verify.ts";
import { systemClock } from "../../src/system/clock.ts";
import { createWorker } from "../../src/worker/worker.ts";
import { runCli, type CliResult } from "../cli/run-cli.ts";
import type { Azurite } from "../support/azurite.ts";
import { connectTestStorage, type TestStorage } from "../support/azurite-storage.ts";
import { faultyHttp } from "../support/faulty-http.ts";
import { workflow } from "../worker/round-support.ts";
import { Emulator } from "../emulator/emulator.ts";
import { BLOCKED_ERROR, KINDS, orderIds, PARKED_ERROR, ScaleScene, SIZES, SKIPPED_ERROR, SUBSCRIPTION } from "./scale-scene.ts";

/** How many orders of each kind there are when `verify` looks at all of them: it makes ten calls for each. */
const VERIFIED = 50;
const MAX_REPEATS = 3;
const DAY_MS = 86_400_000;
/** On a machine that is busy with other things; otherwise all of this takes less than one of them. */
const TIMEOUT_MS = 600_000;
vi.setConfig({ testTimeout: TIMEOUT_MS, hookTimeout: TIMEOUT_MS });

const ORDERS = SIZES.pending + SIZES.parked + SIZES.blocked;
const PENDING_EVENTS = SIZES.hot + ORDERS;
const DEAD = SIZES.blocked + SIZES.skipped;
const WOKEN = SIZES.pending + 1;
const REASON = ["--actor", "ann", "--reason", "carrier is back"];
/** Of the listings of `events/` and `dead/`. */
const PAGES = Math.ceil(PENDING_EVENTS / 5_000) + Math.ceil(DEAD / 5_000);

let azurite: Azurite;
let connectionString: string;
let storage: TestStorage;
let scene: ScaleScene;
let context: OperationsContext;
let verified: Answer<VerifyResult>;

interface Answer<Document> {
  readonly status: number;
  readonly document: Document;
}

const cli = (...args: readonly string[]): Promise<CliResult> => runCli([...args, "--prefix", storage.prefix], connectionString);

async function json<Document>(...args: readonly string[]): Promise<Answer<Document>> {
  const { status, stdout } = await cli(...args, "--json");
  const document = JSON.parse(stdout) as Document & object;
  expect(document).not.toHaveProperty("error");
  return { status, document };
}

/** What was called since the last reset. A request may have been repeated: the emulator closes connections that were idle for a while. */
function expectCalls(expected: Readonly<Record<string, number>>): void {
  const { byOperation } = storage.calls.snapshot();
  expect(Object.keys(byOperation).toSorted()).toEqual(Object.keys(expected).toSorted());
  for (const [operation, count] of Object.entries(expected)) {
    expect(byOperation[operation]).toBeGreaterThanOrEqual(count);
    expect(byOperation[operation]).toBeLessThanOrEqual(count + MAX_REPEATS);
  }
}

function upTo(count: number): readonly number[] {
  return Array.from({ length: count }, (_, index) => index + 1);
}

beforeAll(async () => {
  azurite = await Emulator.start();
  ({ connectionString } = azurite);
  storage = await connectTestStorage({ connectionString, callTimeoutMs: 60_000 });
  context = { storage, clock: systemClock };
  scene = new ScaleScene(storage, connectionString);
  await scene.writeHot();
  await scene.writeBurst();
  await scene.writeSkipped();
  for (const kind of KINDS) await scene.writeOrders(kind, VERIFIED);
  verified = await json("verify");
  for (const kind of KINDS) await scene.writeHeads(kind, VERIFIED);
});

afterAll(() => azurite.stop());

test("verify: of all orders, and of one with 5,200 pending blobs, 1,100 outbox entities or 4,600 dead letters: nothing is missing", async () => {
  expect(verified).toEqual({ status: 0, document: { orders: 3 + KINDS.length * VERIFIED, findings: [], complete: true, sound: true } });
  for (const order of ["hot", "burst", "flaky"]) {
    expect(await verifyOrder(context, parseOrderId(order))).toEqual({ orders: 1, findings: [], complete: true, sound: true });
  }
});

test("status and metrics: all of it, at the cost of its pages", async () => {
  storage.calls.reset();
  const expected = {
    subscription: SUBSCRIPTION,
    pending: PENDING_EVENTS,
    orders: ORDERS + 1,
    parked: SIZES.parked,
    blocked: SIZES.blocked,
    dead: DEAD,
    paused: 0,
  };
  // Without the look through the table, which costs what there are of rows.
  const quick = await readStatus(context, { maxPages: 0 });
  expect(quick).toMatchObject({ subscriptions: [expected], ordersWithBacklog: ORDERS + 1, foreign: 0 });
  expectCalls({ "blob ListBlobs": PAGES, "table QueryEntities": 1 });
  const unrelayed = { events: SIZES.burst, orders: 1, complete: true };
  const status = await json("status");
  const metrics = await cli("metrics");
  expect(status).toMatchObject({ status: 0, document: { subscriptions: [expected], ordersWithBacklog: ORDERS + 1, unrelayed } });
  const gauges = { pending_count: PENDING_EVENTS, parked_count: SIZES.parked, blocked_count: SIZES.blocked, dead_count: DEAD };
  expect(metrics).toMatchObject({ status: 0, stderr: "" });
  for (const [name, value] of Object.entries(gauges)) {
    expect(metrics.stdout).toContain(`\noutbox_${name}{subscription="${SUBSCRIPTION}"} ${value}\n`);
  }
  expect(metrics.stdout).toContain(`\noutbox_backlog_orders ${ORDERS + 1}`);
});

test("orders list: every order once, by each filter", async () => {
  const list = async (...filter: readonly string[]): Promise<readonly ListedOrder[]> => {
    const { document } = await json<OrderListing>("orders", "list", ...filter);
    expect(document.complete).toBe(true);
    return document.orders;
  };
  const filters = [[], ["--pending"], ["--parked", "--subscription", SUBSCRIPTION], ["--blocked"], ["--unrelayed"]];
  const lists = await inLanes(filters, 2, (filter) => list(...filter));
  const idsOf = (orders: readonly ListedOrder[]): readonly string[] => orders.map(({ orderId }) => orderId).toSorted();
  const expected = KINDS.map((kind) => orderIds(kind).toSorted());
  expect(idsOf(lists[0]!)).toEqual([...expected.flat(), "hot", "burst"].toSorted());
  expect(idsOf(lists[1]!)).toEqual([...expected[0]!, "hot"].toSorted());
  expect(idsOf(lists[2]!)).toEqual(expected[1]);
  expect(idsOf(lists[3]!)).toEqual(expected[2]);
  expect(lists[0]!.find(({ orderId }) => orderId === "hot")).toMatchObject({ backlog: SIZES.hot, head: { sequence: 1 }, lease: "free" });
  expect(lists[0]!.reduce((sum, { backlog }) => sum + backlog, 0)).toBe(PENDING_EVENTS + SIZES.burst);
  expect(lists[4]!).toMatchObject([{ orderId: "burst", backlog: SIZES.burst, head: { state: "unrelayed" } }]);
  expect(new Set(lists[2]!.map(({ head }) => head.lastError))).toEqual(new Set([PARKED_ERROR]));
  expect(new Set(lists[3]!.map(({ head }) => head.lastError))).toEqual(new Set([BLOCKED_ERROR]));
  const ages = lists[0]!.map(({ head }) => head.ageSeconds);
  expect(ages).toEqual(ages.toSorted((a, b) => b - a));
});

test("orders show: every event in commit order, the newest 500 read", async () => {
  const [{ document: hot }, flaky, burst] = await Promise.all([
    json<ShownOrder>("orders", "show", "hot"),
    showOrder(context, parseOrderId("flaky")),
    showOrder(context, parseOrderId("burst")),
  ]);
  const [states, sizes] = [
    ["Pending", "Dead", "Pending"],
    [SIZES.hot, SIZES.skipped, SIZES.burst],
  ] as const;
  for (const [index, { timeline }] of [hot, flaky, burst].entries()) {
    expect(timeline.map(({ sequence }) => sequence)).toEqual(upTo(sizes[index]!));
    expect(new Set(timeline.map(({ state }) => state))).toEqual(new Set([states[index]]));
    expect(timeline.findIndex(({ type }) => type !== undefined)).toBe(timeline.length - 500);
    expect(timeline.filter(({ type }) => type === "step")).toHaveLength(500);
  }
});

test("explain: each of them for its own reason", async () => {
  const [hot, blocked, burst] = await Promise.all([
    json("explain", "hot"),
    json("explain", `blocked-${VERIFIED - 1}`),
    explain(context, parseOrderId("burst")),
  ]);
  const sentence = expect.stringContaining(`${SIZES.hot - 1} more behind it`) as string;
  expect(hot).toMatchObject({ status: 0, document: { verdict: { code: "wake-up-missing", sentence } } });
  expect(blocked).toMatchObject({ status: 4, document: { verdict: { code: "blocked-dead-letter" } } });
  expect(burst).toMatchObject({ verdict: { code: "wake-up-missing" } });
});

test("dead list and show: every dead letter once, by group", async () => {
  const last = `blocked-${SIZES.blocked - 1}`;
  const [all, flaky, shown] = await Promise.all([
    json<DeadLetterListing>("dead", "list"),
    json<DeadLetterListing>("dead", "list", "flaky", "--error", "REFUSED"),
    json("dead", "show", last),
  ]);
  const { letters, groups } = all.document;
  expect(groups).toMatchObject([
    { group: "Error: refused #", count: SIZES.skipped, orders: 1, subscriptions: [SUBSCRIPTION] },
    { group: "Error: no carrier #", count: SIZES.blocked, orders: SIZES.blocked, subscriptions: [SUBSCRIPTION] },
  ]);
  expect(letters.filter(({ policy }) => policy === "block").map(({ orderId }) => orderId)).toEqual(orderIds("blocked").toSorted());
  for (const document of [all.document, flaky.document]) {
    const skipped = document.letters.filter(({ policy }) => policy === "skip");
    expect(skipped.map(({ sequence }) => sequence)).toEqual(upTo(SIZES.skipped));
  }
  expect(flaky.document.letters).toHaveLength(SIZES.skipped);
  expect(shown).toMatchObject({ status: 0, document: { letter: { orderId: last, reason: BLOCKED_ERROR } } });
  expect(flaky.document.letters[0]).toMatchObject({ reason: SKIPPED_ERROR });
});

test("dead redrive and discard, dry: every letter is looked at, none is changed", async () => {
  const [redrive, discard] = await Promise.all([
    json<DecideManyResult>("dead", "redrive", "--all", "--dry-run", ...REASON),
    json<DecideManyResult>("dead", "discard", "--group", "Error: no carrier #", "--dry-run", ...REASON),
  ]);
  const outcomes = ({ results }: DecideManyResult): unknown =>
    Object.fromEntries([...Map.groupBy(results, ({ outcome }) => outcome)].map(([outcome, own]) => [outcome, own.length]));
  expect(outcomes(redrive.document)).toEqual({ "would-record": SIZES.blocked, skipped: SIZES.skipped });
  expect(redrive).toMatchObject({ status: 0, document: { left: 0 } });
  expect(outcomes(discard.document)).toEqual({ "would-record": SIZES.blocked });
  expect(discard).toMatchObject({ status: 0, document: { left: 0 } });
  expect(new Set(discard.document.results.map(({ orderId }) => orderId))).toEqual(new Set(orderIds("blocked")));
  expect(await Array.fromAsync(storage.blobs.list("audit", ""))).toEqual([]);
});

test("reconcile, sweep and wake: every order that has something due gets a wake-up, in calls that grow with those alone", async () => {
  const drained = async (): Promise<readonly string[]> => {
    const texts: string[] = [];
    for (;;) {
      const received = await storage.wakeUps.receive(32, 600_000);
      if (received.length === 0) return texts.map((text) => JSON.parse(text) as string).toSorted();
      texts.push(...received.map(({ text }) => text));
    }
  };
  // What the commits sent.
  expect(new Set(await drained())).toEqual(new Set(["burst"]));

  const bounded = await json("reconcile", "--safety-delay", "0s", "--max-pages", "1");
  expect(bounded.document).toMatchObject({ seen: 1_000, overdue: 1_000, woken: 1, complete: false });
  // A run that stopped goes on at its place, and ends there.
  expect((await json("reconcile", "--safety-delay", "0s")).document).toMatchObject({ seen: SIZES.burst - 1_000, complete: true });
  const whole = await json("reconcile", "--safety-delay", "0s");
  expect(whole.document).toMatchObject({ seen: SIZES.burst, overdue: SIZES.burst, woken: 1, complete: true });
  expect(await drained()).toEqual(["burst", "burst", "burst"]);

  const due = [...orderIds("pending"), "hot"].toSorted();
  expect(await json("sweep")).toMatchObject({ status: 0, document: { woken: WOKEN, marked: 0, leased: 0, foreign: { count: 0 } } });
  expect(await drained()).toEqual(due);

  const sweeper = createSweeper({ storage });
  storage.calls.reset();
  expect(await sweeper.sweep()).toMatchObject({ woken: WOKEN, wokenBefore: 0, subscriptions: [{ pending: PENDING_EVENTS, dead: DEAD }] });
  const looks = { "blob ListBlobs": PAGES, "table QueryEntities": 1 };
  expectCalls({ ...looks, "blob GetBlobProperties": WOKEN, "queue SendMessage": WOKEN });
  expect(await drained()).toEqual(due);
  // More orders that have been, no more calls.
  await scene.writeIdle(500);
  storage.calls.reset();
  expect(await sweeper.sweep()).toMatchObject({ woken: 0, wokenBefore: WOKEN });
  expectCalls(looks);

  expect(await json("wake", "parked-7")).toMatchObject({ status: 0, document: { outcome: "woken" } });
  expect(await drained()).toEqual(["parked-7"]);
});

test("G2: a worker handles 5,200 pending blobs and 1,100 outbox entities of one order each, in commit order, once", async () => {
  const handled = new Map<string, number[]>([
    ["hot", []],
    ["burst", []],
  ]);
  const subscription = defineSubscription(workflow, {
    name: SUBSCRIPTION,
    handle: ({ orderId, data }) => void handled.get(orderId)?.push(data.n),
  });
  const worker = createWorker({ workflow, subscriptions: [subscription], storage, timeBudgetMs: 3_600_000 });
  const results = await Promise.all([worker.handle("hot"), worker.handle("burst")]);
  expect(results).toMatchObject([
    { status: "done", handled: SIZES.hot, problems: [] },
    { status: "done", handled: SIZES.burst, problems: [] },
  ]);
  expect(handled.get("hot")).toEqual(upTo(SIZES.hot));
  expect(handled.get("burst")).toEqual(upTo(SIZES.burst));
  for (const order of ["hot", "burst"] as const) {
    const shown = await showOrder(context, parseOrderId(order));
    expect(shown.timeline.map(({ sequence, state }) => `${sequence} ${state}`)).toEqual(upTo(SIZES[order]).map((n) => `${n} Sent`));
    expect(await verifyOrder(context, parseOrderId(order))).toMatchObject({ findings: [] });
  }
  expect(await readStatus(context)).toMatchObject({ subscriptions: [{ pending: ORDERS }], ordersWithBacklog: ORDERS });
});

test("F7: cleanup removes what is finished and old, part by part, and nothing else", async () => {
  expect(await json("cleanup", "--dry-run")).toMatchObject({ status: 0, document: { removed: { archive: 0 }, complete: true } });
  // The clock of the service, as its answers tell it, eight days from now.
  const httpClient = faultyHttp();
  httpClient.rule = () => ({
    rewrite: (response) => {
      response.headers.set("date", new Date(Date.now() + 8 * DAY_MS).toUTCString());
      return response;
    },
  });
  const later = await connectTestStorage({ connectionString, prefix: storage.prefix, httpClient, callTimeoutMs: 60_000 });
  const cleaner = createCleaner({ storage: later });
  // The bursts were archived together.
  const handled = new Set<string>();
  for await (const { name, metadata, bundle } of storage.blobs.list("archive", `${SUBSCRIPTION}/`))
    if (metadata["outcome"] === "handled") handled.add(bundle?.name ?? name);
  const finished = handled.size;
  expect(finished).toBeLessThan(500 + (SIZES.hot + SIZES.burst) / 2);
  expect(await cleaner.clean({ dryRun: true })).toMatchObject({ removed: { archive: finished, audit: 0 }, foreign: 0, complete: true });
  expect(await cleaner.clean({ maxDeletes: 400 })).toMatchObject({ removed: { archive: 400 }, complete: false });
  expect(await cleaner.clean({ dryRun: true })).toMatchObject({ removed: { archive: finished - 400 }, complete: true });
  // What dead letters speak of.
  const archived = await Array.fromAsync(storage.blobs.list("archive", `${SUBSCRIPTION}/flaky/`));
  expect(archived).toHaveLength(SIZES.skipped);
  expect(await readStatus(context)).toMatchObject({ subscriptions: [{ pending: ORDERS, dead: DEAD }] });
});
