/** How many round trips follow one another: calls that travel together count as one. On memory ports, exact. */
import { createOutbox } from "../../src/producer/outbox.ts";
import { createWorker } from "../../src/worker/worker.ts";
import { ManualClock, settle } from "../support/manual-clock.ts";
import { createMemoryStorage, type MemoryStorage } from "../support/memory-storage.ts";
import { steps, subscription, workflow } from "./workflow.ts";

export interface RoundTrips {
  /** From the call of `commit` to its answer. */
  readonly commit: number;
  /** From the receipt of the wake-up, that receipt included, to the start of the handler. */
  readonly wakeUpToHandler: number;
  /** From the end of an event's handler to the start of the next one's, in a burst on one order. */
  readonly betweenEvents: number;
}

const ORDER = "o-1";
const BURST = 50;

export async function countRoundTrips(): Promise<RoundTrips> {
  const clock = new ManualClock();
  const storage = createMemoryStorage(clock);
  const outbox = createOutbox({ workflow, storage, clock });
  const starts: number[] = [];
  const trips = new Trips(storage);
  const worker = createWorker({
    workflow,
    storage,
    clock,
    subscriptions: [subscription("audit", () => void starts.push(trips.made))],
  });
  const serve = async (): Promise<void> => {
    for (const { receipt } of await storage.wakeUps.receive(1, 30_000)) {
      await worker.handle(ORDER);
      await storage.wakeUps.delete(receipt);
    }
  };
  // The first event of an order costs more: it is not what is asked for.
  await outbox.commit(ORDER, steps(1, 1));
  await serve();

  starts.length = 0;
  const commit = await trips.during(() => outbox.commit(ORDER, steps(2, 1)));
  await trips.during(serve);
  const wakeUpToHandler = starts[0]!;

  await outbox.commit(ORDER, steps(3, BURST));
  starts.length = 0;
  await trips.during(serve);
  return { commit, wakeUpToHandler, betweenEvents: (starts.at(-1)! - starts[0]!) / (BURST - 1) };
}

/** Lets all calls go that wait, together, and counts how often. */
class Trips {
  readonly #storage: MemoryStorage;
  made = 0;

  constructor(storage: MemoryStorage) {
    this.#storage = storage;
  }

  async during(work: () => Promise<unknown>): Promise<number> {
    let waiting: (() => void)[] = [];
    let open = true;
    this.made = 0;
    this.#storage.onCall = () => new Promise((resolve) => waiting.push(() => resolve()));
    const done = work().finally(() => (open = false));
    while (open) {
      await settle();
      const together = waiting;
      waiting = [];
      if (together.length > 0) this.made += 1;
      for (const go of together) go();
      await settle();
    }
    await done;
    this.#storage.onCall = undefined;
    return this.made;
  }
}
