/** The product beside the naive design: same data, same emulator, in turns; each in a host loop of its own, with the same concurrency and polling. */
import { createDefaultHttpClient, type HttpClient } from "@azure/core-rest-pipeline";
import { inLanes } from "../../../src/operations/lanes.ts";
import { createNaive, createProduct, serve, type Contender } from "../contender.ts";
import { delayingClient } from "../delaying-client.ts";
import type { Emulator } from "../../emulator/emulator.ts";
import type { WhenTaken } from "../naive.ts";
import { median, short, type Figure, type PartContext, type PartResult } from "../result.ts";
import { untilHandled } from "../until-handled.ts";

const LATENCY_MS = 10;
const WORKERS = 4;
const CONCURRENCY = 4;
/** Both hosts ask again at once: what is measured is the work, not the pauses of an idle host. */
const POLL_MS = 10;
const DEADLINE_MS = 120_000;
/** No further repetition of a comparison is begun after this time: a busy machine gets less done. */
const BUDGET_MS = 8_000;
const COMMIT_LANES = 16;
const BURST = 100;
const WAKE_UPS = 16;

type Measure = (contender: Contender) => Promise<number>;

export async function run({ connectionString }: Emulator, { tell }: PartContext): Promise<PartResult> {
  const near = createDefaultHttpClient();
  const far = delayingClient(LATENCY_MS, near);
  const rows: string[][] = [];

  async function compare(
    name: string,
    httpClient: HttpClient,
    repetitions: number,
    measure: Measure,
    whenTaken: WhenTaken = "wait",
  ): Promise<number> {
    const contenders = [
      await createProduct(connectionString, httpClient),
      await createNaive(connectionString, httpClient, whenTaken),
    ] as const;
    for (const contender of contenders) await measure(contender);
    const times: [number[], number[]] = [[], []];
    const endsAt = performance.now() + BUDGET_MS;
    for (let n = 0; n < repetitions && (n === 0 || performance.now() < endsAt); n++) {
      tell(`${name}, ${n + 1} of ${repetitions}`);
      for (const [index, contender] of contenders.entries()) times[index]!.push(await measure(contender));
    }
    const ratio = median(times[0].map((own, n) => times[1][n]! / own));
    rows.push([name, short(median(times[0])), short(median(times[1])), `${ratio.toFixed(2)} ×`]);
    return ratio;
  }

  const one = await compare("one event at a time, ms an event", near, 8, (each) => oneAtATime(each, 25));
  await compare(`the same, ${LATENCY_MS} ms a call`, far, 3, (each) => oneAtATime(each, 5));
  const spread = await compare("200 orders × 1 event, ms", near, 3, (each) => manyOrders(each, 200));
  const burst = await compare(`burst of ${BURST} on an order, ms`, near, 5, (each) => oneOrder(each, BURST, 50));
  await compare(`the same, ${LATENCY_MS} ms a call`, far, 2, (each) => oneOrder(each, BURST, 50));
  const atOnce = `${WAKE_UPS} wake-ups at once for one order`;
  const wakeUps = await compare(`${atOnce}, ms`, near, 8, (each) => oneOrderAtOnce(each, WAKE_UPS));
  await compare(`the same, ${LATENCY_MS} ms a call`, far, 2, (each) => oneOrderAtOnce(each, WAKE_UPS));
  const givenBack = await compare(`${atOnce}, naive gives them back, ms`, near, 3, (each) => oneOrderAtOnce(each, WAKE_UPS), "give-back");

  const figure = (name: string, value: number, atLeast: number): Figure => ({ name, value, unit: "× as fast as naive", goal: { atLeast } });
  return {
    figures: [
      figure("one event at a time", one, 1),
      figure("200 orders × 1 event", spread, 1),
      figure(`burst of ${BURST} on an order`, burst, 3),
      figure(`${atOnce}, naive waits for the lease`, wakeUps, 5),
      figure(`${atOnce}, naive gives them back`, givenBack, 5),
    ],
    tables: [{ title: "Beside the naive design", columns: ["what", "this package", "naive", "as fast"], rows }],
    notes: [
      `Naive: a lease that is taken is asked for again after 0 to 400 ms, or the message given back to the queue for a second. It keeps none of G2 to G6. Medians, in turns ("as fast": the median of the ratios of neighbours), from the first commit until the last event is archived; "at once": from the start of ${WORKERS} workers with ${CONCURRENCY} rounds each.`,
    ],
  };
}

let made = 0;

function nextOrder(): string {
  made += 1;
  return `o-${made}`;
}

/** Commit, wake-up, handler, archive, and only then the next; on orders that exist. Milliseconds an event. */
async function oneAtATime(contender: Contender, events: number): Promise<number> {
  const worker = contender.worker(() => {});
  const orderId = nextOrder();
  const cycle = async (): Promise<void> => {
    await contender.commit(orderId, 1);
    await serve(contender, worker, 1);
  };
  await cycle();
  const startedAt = performance.now();
  for (let n = 0; n < events; n++) await cycle();
  return (performance.now() - startedAt) / events;
}

async function manyOrders(contender: Contender, orders: number): Promise<number> {
  return timeOf(contender, orders, async () => {
    await inLanes(Array.from({ length: orders }, nextOrder), COMMIT_LANES, (name) => contender.commit(name, 1));
  });
}

async function oneOrder(contender: Contender, events: number, perCommit: number): Promise<number> {
  return timeOf(contender, events, async () => {
    const orderId = nextOrder();
    for (let committed = 0; committed < events; committed += perCommit) await contender.commit(orderId, perCommit);
  });
}

/** Everything is committed and every wake-up is in the queue when the workers start. */
async function oneOrderAtOnce(contender: Contender, events: number): Promise<number> {
  const orderId = nextOrder();
  for (let n = 0; n < events; n++) await contender.commit(orderId, 1);
  return timeOf(contender, events, async () => {});
}

/** Milliseconds from the start of the workers until `events` are handled and nothing is in hand any more. */
async function timeOf({ name, startHost }: Contender, events: number, work: () => Promise<void>): Promise<number> {
  return untilHandled({
    name,
    events,
    deadlineMs: DEADLINE_MS,
    startHosts: (handle) => Array.from({ length: WORKERS }, () => startHost(handle, { concurrency: CONCURRENCY, pollMs: POLL_MS })),
    work,
    result: ({ ms }) => ms,
  });
}
