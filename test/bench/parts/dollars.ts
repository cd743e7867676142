/** What events cost: every call counted, priced by what it is billed as. */
import { setTimeout as delay } from "node:timers/promises";
import { createDefaultHttpClient } from "@azure/core-rest-pipeline";
import { createCleaner } from "../../../src/operations/cleanup.ts";
import { createReconciler } from "../../../src/operations/reconcile.ts";
import { createSweeper } from "../../../src/operations/sweep.ts";
import { addCounts, type CallCounts } from "../../../src/storage/call-counter.ts";
import type { Worker } from "../../../src/worker/round-result.ts";
import { connect, freshPrefix } from "../account.ts";
import { callsOf, createNaive, createProduct, serve, type Contender, type Handle } from "../contender.ts";
import { dollarsOf, dollarsPerMillion, MILLION, serviceBusCheaperFrom, serviceBusMonth } from "../costs.ts";
import type { Emulator } from "../../emulator/emulator.ts";
import { CALLS_PER_10_000, FUNCTIONS_FLEX, READ_ON, SERVICE_BUS_STANDARD } from "../prices.ts";
import { failingOnce, type RetryKind } from "../retrying.ts";
import { dollars, short, type PartContext, type PartResult, type Table } from "../result.ts";

interface Cost {
  readonly events: number;
  readonly calls: CallCounts;
  /** Of the calls those of the worker and its host. */
  readonly workerCalls: number;
}

/** Dollars: the idle app a month, and a million events. */
interface Months {
  readonly idle: number;
  readonly alone: number;
  readonly burst: number;
}

const THREE = ["audit", "notify", "partner"] as const;
const PER_COMMIT = 50;
/** A burst of these takes longer than 5 s: starts of its events are counted, and it is looked at for decisions. */
const SLOW_MS = 100;
const CASES = {
  alone: "alone",
  first: "alone, the first one of an order",
  burst10: "burst of 10 on an order",
  burst100: "burst of 100 on an order",
  slow100: `burst of 100, handlers of ${SLOW_MS} ms`,
  threeAlone: "alone, 3 subscriptions",
  three10: "burst of 10, 3 subscriptions",
  three100: "burst of 100, 3 subscriptions",
  shortRetry: "alone, one short retry",
  longRetry: "alone, one long retry",
  naiveAlone: "naive: alone",
  naive10: "naive: burst of 10",
  naive100: "naive: burst of 100",
} as const;
type CaseName = keyof typeof CASES;
const CASE_NAMES = Object.keys(CASES) as CaseName[];
/** Rows of the month's table, in million events. */
const MILLIONS = [0.1, 1, 10, 100] as const;
/** Days of a month, on average. */
const DAYS = 30.4;
const MINUTES = DAYS * 24 * 60;
/** `maxPollingInterval` of host.json: how often an idle instance asks a queue. */
const POLL_SECONDS = 5;
const QUEUES = 2;
/** A send, a receive and a completion of a message, and its session accepted and closed by the way; alone, every event accepts one. */
const SERVICE_BUS_OPERATIONS = { alone: 4, burst: 3 } as const;

export async function run({ connectionString }: Emulator, { tell }: PartContext): Promise<PartResult> {
  const http = createDefaultHttpClient();
  const product = served(await createProduct(connectionString, http));
  const three = served(await createProduct(connectionString, http, THREE));
  const slow = served(await createProduct(connectionString, http), () => delay(SLOW_MS));
  const naive = served(await createNaive(connectionString, http));
  const measure = {
    alone: () => cost(product, 1),
    first: () => cycle(product, "o-first", 1),
    burst10: () => cost(product, 10),
    burst100: () => cost(product, 100),
    slow100: () => cost(slow, 100),
    threeAlone: () => cost(three, 1),
    three10: () => cost(three, 10),
    three100: () => cost(three, 100),
    shortRetry: () => retryCost(connectionString, "short"),
    longRetry: () => retryCost(connectionString, "long"),
    naiveAlone: () => cost(naive, 1),
    naive10: () => cost(naive, 10),
    naive100: () => cost(naive, 100),
  } satisfies Record<CaseName, () => Promise<Cost>>;
  const costs = {} as Record<CaseName, Cost>;
  for (const name of CASE_NAMES) {
    tell(CASES[name]);
    costs[name] = await measure[name]();
  }
  tell("an idle month");
  const idle = await idleMonth(connectionString);

  const { alone, burst100 } = costs;
  const months: Months = { idle: idle.dollars, alone: perMillion(alone), burst: perMillion(burst100) };
  return {
    figures: [
      { name: "calls of an event alone, producer", value: alone.calls.total - alone.workerCalls, unit: "calls", goal: { atMost: 4 } },
      { name: "calls of an event alone, worker", value: alone.workerCalls, unit: "calls", goal: { atMost: 12 } },
      {
        name: "calls of an event in a burst of 100, worker",
        value: burst100.workerCalls / burst100.events,
        unit: "calls",
        goal: { atMost: 3.3 },
      },
      { name: "a million events, alone", value: months.alone, unit: "dollars", goal: { atMost: 15 } },
      { name: "a million events, in bursts of 100", value: months.burst, unit: "dollars", goal: { atMost: 7 } },
    ],
    tables: [perMillionTable(costs), idle.table, monthTable(months)],
    notes: notes(months),
  };
}

function perMillion({ calls, events }: Cost): number {
  return dollarsPerMillion(calls, events);
}

interface Served extends Contender {
  /** One for all cases: what a process asks once in a while is no cost of an event. */
  readonly running: Worker;
}

function served(contender: Contender, handle: Handle = () => {}): Served {
  return { ...contender, running: contender.worker(handle) };
}

/** Calls for `events` events of an order that has had some before. */
async function cost(contender: Served, events: number): Promise<Cost> {
  const orderId = `o-${events}`;
  await cycle(contender, orderId, 1);
  return cycle(contender, orderId, events);
}

/** Commits, and serves the wake-ups of it. */
async function cycle(contender: Served, orderId: string, events: number): Promise<Cost> {
  const commits: number[] = [];
  for (let left = events; left > 0; left -= PER_COMMIT) commits.push(Math.min(left, PER_COMMIT));
  const producer = await callsOf(contender, async () => {
    for (const count of commits) await contender.commit(orderId, count);
  });
  // The naive design sends a message for each event.
  const messages = contender.name === "naive" ? events : commits.length;
  const worker = await callsOf(contender, () => serve(contender, contender.running, messages));
  return { events, calls: addCounts(producer, worker), workerCalls: worker.total };
}

async function retryCost(connectionString: string, kind: RetryKind): Promise<Cost> {
  const { contender, worker, waitMs } = await failingOnce(connectionString, kind);
  await contender.commit("o-1", 1);
  await serve(contender, worker, 1);
  const producer = await callsOf(contender, () => contender.commit("o-1", 1));
  const work = await callsOf(contender, async () => {
    await serve(contender, worker, 1);
    if (waitMs === undefined) return;
    await delay(waitMs);
    await serve(contender, worker, 1);
  });
  return { events: 1, calls: addCounts(producer, work), workerCalls: work.total };
}

function perMillionTable(costs: Readonly<Record<CaseName, Cost>>): Table {
  return {
    title: "Storage dollars per million events",
    columns: ["events", "calls", "table", "queue", "blob writes", "blob lists", "blob reads", "other blob calls", "$ per million"],
    rows: CASE_NAMES.map((name) => {
      const { events, calls } = costs[name];
      const per = (count: number | undefined): string => short((count ?? 0) / events);
      const of = calls.byPriceClass;
      return [
        CASES[name],
        per(calls.total),
        per(of.table),
        per(of.queue),
        per(of["blob write"]),
        per(of["blob list"]),
        per(of["blob read"]),
        per((of["blob other"] ?? 0) + (of["blob free"] ?? 0)),
        dollars(perMillion(costs[name])),
      ];
    }),
  };
}

/** The deployed app with nothing to do: what its timers and queue triggers call, on an account that is empty. */
async function idleMonth(connectionString: string): Promise<{ readonly table: Table; readonly dollars: number }> {
  const prefix = freshPrefix();
  const storage = connect(connectionString, prefix);
  await storage.createResources();
  const contender = { calls: () => storage.calls.snapshot() };
  const [sweeper, reconciler, cleaner] = [
    createSweeper({ storage, subscriptions: THREE }),
    createReconciler({ storage }),
    createCleaner({ storage }),
  ];
  const runs = async (work: () => Promise<unknown>): Promise<CallCounts> => callsOf(contender, async () => void (await work()));
  const rows = [
    { what: "sweep, each minute", times: MINUTES, calls: await runs(() => sweeper.sweep()) },
    { what: "reconcile, each minute", times: MINUTES, calls: await runs(() => reconciler.reconcile()) },
    { what: "cleanup, each hour", times: MINUTES / 60, calls: await runs(() => cleaner.clean()) },
    {
      what: `an instance that stays up: ${QUEUES} queues, each asked once in ${POLL_SECONDS} s`,
      times: (MINUTES * 60) / POLL_SECONDS,
      calls: { total: QUEUES, byOperation: {}, byPriceClass: { queue: QUEUES } } satisfies CallCounts,
    },
  ].map((row) => ({ ...row, cost: dollarsOf(row.calls) * row.times }));
  const sum = rows.reduce((total, { cost: each }) => total + each, 0);
  return {
    dollars: sum,
    table: {
      title: "The deployed app, idle for a month",
      detail: true,
      columns: ["what", "runs", "calls a run", "of them lists", "$ a month"],
      rows: [
        ...rows.map(({ what, times, calls, cost: each }) => [
          what,
          Math.round(times).toLocaleString("en-US"),
          short(calls.total),
          short(calls.byPriceClass["blob list"] ?? 0),
          dollars(each),
        ]),
        ["together", "", "", "", dollars(sum)],
      ],
    },
  };
}

function monthTable({ idle, alone, burst }: Months): Table {
  return {
    title: "A month, beside Service Bus Standard with sessions",
    columns: ["million events a month", "here: alone", "here: bursts of 100", "Service Bus: alone", "Service Bus: bursts"],
    rows: MILLIONS.map((millions) => [
      String(millions),
      dollars(idle + alone * millions),
      dollars(idle + burst * millions),
      dollars(serviceBusMonth(millions * MILLION * SERVICE_BUS_OPERATIONS.alone)),
      dollars(serviceBusMonth(millions * MILLION * SERVICE_BUS_OPERATIONS.burst)),
    ]),
  };
}

/** From how many million events a month on Service Bus is cheaper, as words. */
function cheaperFrom(idle: number, each: number, operations: number): string {
  const events = serviceBusCheaperFrom({ idle, perMillion: each }, operations);
  return events === undefined ? "no number of" : `${(events / MILLION).toFixed(1)} million`;
}

function notes({ idle, alone, burst }: Months): readonly string[] {
  const operations = SERVICE_BUS_OPERATIONS;
  const { baseAMonth, includedOperations, perMillionTo100Million } = SERVICE_BUS_STANDARD;
  const price = CALLS_PER_10_000;
  const write = price["blob write"] * 100;
  const millions = 10;
  const month = (each: number, own: number): string =>
    `${dollars(idle + each * millions)} here, ${dollars(serviceBusMonth(millions * MILLION * own))} there`;
  return [
    `**Service Bus Standard is cheaper from ${cheaperFrom(idle, alone, operations.alone)} events a month on if they come alone, from ${cheaperFrom(idle, burst, operations.burst)} in bursts of 100, and ever more so**: a million operations cost ${dollars(perMillionTo100Million)} there, a million blob writes ${dollars(write)} here. ${millions} million a month: ${month(alone, operations.alone)}; in bursts ${month(burst, operations.burst)}. Its base charge of ${dollars(baseAMonth)} includes ${includedOperations / MILLION} million operations; an event is reckoned as ${operations.alone} alone and ${operations.burst} in a burst (send, receive, complete; the session where it is accepted for one event). What it does not replace: an outbox in the order's own transaction and a relay that empties it, an archive, dead letters in place, replay.`,
    `The deployed app costs ${dollars(idle)} a month when idle (timers, polled queues); that is in the months above.`,
    `US dollars, LRS, hot tier, read on ${READ_ON} (sources: \`test/bench/prices.ts\`), per 10,000 calls: table $${price.table}, queue $${price.queue}, blob write and list $${price["blob write"]}, blob read and others $${price["blob read"]}, deletes free. A transaction is reckoned as one call; were each operation in it one, an event of a burst would add two: ${dollars(2 * price.table * 100)} a million.`,
    `Not in these figures: capacity, network, monitoring, what the Functions host itself stores, and computing: Functions Flex takes $${FUNCTIONS_FLEX.perMillionExecutions} per million executions and $${FUNCTIONS_FLEX.perGigabyteSecond} per GB-second beyond its free grant, with Service Bus as well.`,
  ];
}
