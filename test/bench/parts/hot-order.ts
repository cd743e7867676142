/** What distance costs: 10 ms added to each storage call, in the HTTP client below the SDKs' pipelines. */
import { createOutbox } from "../../../src/producer/outbox.ts";
import { createWorker } from "../../../src/worker/worker.ts";
import { connect, freshPrefix } from "../account.ts";
import { delayingClient } from "../delaying-client.ts";
import type { Emulator } from "../../emulator/emulator.ts";
import { median, short, type PartContext, type PartResult } from "../result.ts";
import { countRoundTrips } from "../round-trips.ts";
import { steps, subscription, workflow } from "../workflow.ts";

const LATENCY_MS = 10;
const REPETITIONS = 5;
const BURST = 90;

export async function run({ connectionString }: Emulator, { tell }: PartContext): Promise<PartResult> {
  tell("counting round trips");
  const trips = await countRoundTrips();

  const prefix = freshPrefix();
  await connect(connectionString, prefix).createResources();
  const storage = connect(connectionString, prefix, delayingClient(LATENCY_MS));
  const outbox = createOutbox({ workflow, storage });
  let startedAt: number[] = [];
  const worker = createWorker({ workflow, storage, subscriptions: [subscription("audit", () => void startedAt.push(performance.now()))] });

  const betweenEvents: number[] = [];
  const commits: number[] = [];
  const wakeUps: number[] = [];
  const calls: number[] = [];
  for (let n = 0; n <= REPETITIONS; n++) {
    tell(`an order with ${BURST} events, ${n} of ${REPETITIONS}`);
    const orderId = `hot-${n}`;
    calls.push(await timed(() => storage.orders.readOrder("x" as never)));
    await outbox.commit(orderId, steps(1, 1));
    await worker.handle(orderId);
    commits.push(await timed(() => outbox.commit(orderId, steps(2, 1))));
    startedAt = [];
    const wokenAt = performance.now();
    await worker.handle(orderId);
    wakeUps.push(startedAt[0]! - wokenAt);
    await outbox.commit(orderId, steps(3, BURST));
    startedAt = [];
    await worker.handle(orderId);
    // The first repetition warms up.
    if (n > 0) betweenEvents.push(...startedAt.slice(1).map((at, index) => at - startedAt[index]!));
  }
  const [commit, wakeUp, call] = [commits, wakeUps, calls].map((values) => median(values.slice(1))) as [number, number, number];
  const event = median(betweenEvents);

  return {
    figures: [
      { name: `event of a hot order, ${LATENCY_MS} ms a call`, value: event, unit: "ms", goal: { atMost: 12 } },
      { name: "commit", value: trips.commit, unit: "round trips", goal: { atMost: 3 } },
      { name: "from one event of an order to the next", value: trips.betweenEvents, unit: "round trip", goal: { atMost: 1 } },
    ],
    tables: [
      {
        title: `${LATENCY_MS} ms added to every call`,
        columns: ["what", "round trips, one after another", "ms"],
        rows: [
          ["a call", "1", short(call)],
          ["commit", String(trips.commit), short(commit)],
          ["from the receipt of a wake-up to its handler", String(trips.wakeUpToHandler - 1), short(wakeUp)],
          ["from the end of an event's handler to the next one of the order", short(trips.betweenEvents), short(event)],
        ],
      },
    ],
    notes: [
      `Round trips are counted on memory ports; milliseconds are medians (${REPETITIONS} orders, ${BURST} events each) and have the emulator's own time in them, which differs from one kind of call to another.`,
    ],
  };
}

async function timed(work: () => Promise<unknown>): Promise<number> {
  const startedAt = performance.now();
  await work();
  return performance.now() - startedAt;
}
