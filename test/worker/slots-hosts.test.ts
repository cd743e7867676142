/** G4 with several hosts on one account: slots are counted in each process, orders wander between them, and more hosts never take longer. */
import { describe, expect, test } from "vitest";
import type { Clock } from "../../src/core/clock.ts";
import type { Storage } from "../../src/core/ports.ts";
import { startWorkerHost } from "../../src/worker/host.ts";
import { settle } from "../support/manual-clock.ts";
import { findings } from "./operator-support.ts";
import { passing, Scene } from "./round-support.ts";

/** Every call takes this long, as in a data center. */
const CALL_MS = 20;
const HOST_CONCURRENCY = 16;

/** A storage account at a distance. */
function distant(storage: Storage, clock: Clock): Storage {
  return passing(storage, async (real) => {
    await clock.sleep(CALL_MS);
    return real();
  });
}

interface Load {
  readonly hosts: number;
  readonly concurrency: number | undefined;
  readonly handlerMs: number;
  /** A second subscription, whose handlers take no time. */
  readonly beside?: boolean;
}

interface Running {
  readonly scene: Scene;
  /** When each event of `slow` was started, by the monotonic clock. */
  readonly startedAt: Map<number, number>;
  /** The most handlers of `slow` at once in one process. */
  readonly most: () => number;
  /** When the last handler of `fast` ran. */
  readonly lastBeside: () => number;
  readonly ended: () => number;
  readonly stop: () => Promise<void>;
}

function startHosts({ hosts, concurrency, handlerMs, beside = false }: Load): Running {
  const scene = new Scene();
  const startedAt = new Map<number, number>();
  let most = 0;
  let ended = 0;
  let lastBeside = 0;
  let seed = 1;
  const random = (): number => (seed = (seed * 16_807) % 2_147_483_647) / 2_147_483_647;
  const started = Array.from({ length: hosts }, () => {
    let running = 0;
    const slow = {
      ...scene.subscription("slow"),
      concurrency,
      handle: async ({ data }: { readonly data: unknown }) => {
        const { n } = data as { readonly n: number };
        scene.log.push(`slow E${n}`);
        startedAt.set(n, scene.clock.monotonic());
        running += 1;
        most = Math.max(most, running);
        await scene.clock.sleep(handlerMs);
        running -= 1;
        ended += 1;
      },
    };
    const fast = { ...scene.subscription("fast"), handle: async () => void (lastBeside = scene.clock.monotonic()) };
    const storage = distant(scene.storage, scene.clock);
    const worker = scene.worker(beside ? [slow, fast] : [slow], { storage, random });
    return startWorkerHost({ worker, wakeUps: storage.wakeUps, clock: scene.clock, random, concurrency: HOST_CONCURRENCY });
  });
  return {
    scene,
    startedAt,
    most: () => most,
    lastBeside: () => lastBeside,
    ended: () => ended,
    async stop() {
      const stopped = Promise.all(started.map((host) => host.stop({ abortNow: true })));
      await scene.clock.advance(600_000);
      await stopped;
      expect(scene.clock.pending()).toBe(0);
    },
  };
}

/** Orders that are all there when the hosts begin: the virtual time until the last event is handled. */
async function timeFor(load: Load, orders: number, events: number): Promise<number> {
  const running = startHosts(load);
  const { scene } = running;
  for (let order = 0; order < orders; order++) {
    await scene.commit(
      `o-${order}`,
      Array.from({ length: events }, (_, event) => order * events + event),
    );
  }
  const all = orders * events;
  while (running.ended() < all && scene.clock.monotonic() < 3_600_000) await scene.clock.advance(500);
  const took = scene.clock.monotonic();
  // Each of them once, and those of an order in their order (G2).
  expect(scene.log.map((entry) => Number(entry.slice("slow E".length))).toSorted((a, b) => a - b)).toEqual(
    Array.from({ length: all }, (_, n) => n),
  );
  for (let order = 0; order < orders; order++) {
    const times = Array.from({ length: events }, (_, event) => running.startedAt.get(order * events + event)!);
    expect(times).toEqual(times.toSorted((a, b) => a - b));
  }
  const limit = load.concurrency ?? (load.beside === true ? (HOST_CONCURRENCY * 3) / 4 : HOST_CONCURRENCY);
  expect(running.most()).toBe(limit);
  // `fast` did not wait for `slow`.
  if (load.beside === true) expect(running.lastBeside()).toBeLessThanOrEqual(15_000);
  await scene.clock.advance(120_000);
  expect(await findings(scene)).toEqual([]);
  await running.stop();
  return took;
}

describe("a saturated subscription: two and four hosts together take less time than one", () => {
  // At best a half and a quarter. A wake-up that comes to a process without a free slot is in vain, which short handlers feel.
  test.each([
    ["1 slot, 60 handlers of 200 ms", { concurrency: 1, handlerMs: 200 }, 60, 1, 1, 0.8],
    ["2 slots, 60 handlers of 1 s", { concurrency: 2, handlerMs: 1_000 }, 60, 1, 1, 0.7],
    ["2 slots, 30 orders of 4 events, handlers of 500 ms", { concurrency: 2, handlerMs: 500 }, 30, 4, 1, 0.8],
    ["1 slot, 12 handlers of 30 s", { concurrency: 1, handlerMs: 30_000 }, 12, 1, 0.65, 0.45],
    ["beside another one, 96 handlers of 5 s", { concurrency: undefined, handlerMs: 5_000, beside: true }, 96, 1, 0.85, 0.6],
  ])("%s", async (_name, load, orders, events, ofTwo, ofFour) => {
    const [one, two, four] = [
      await timeFor({ ...load, hosts: 1 }, orders, events),
      await timeFor({ ...load, hosts: 2 }, orders, events),
      await timeFor({ ...load, hosts: 4 }, orders, events),
    ];
    expect(two / one).toBeLessThanOrEqual(ofTwo);
    expect(four / one).toBeLessThanOrEqual(ofFour);
  });
});

test.each([2, 4])("bursts that are a third of what %i hosts can do: no event waits until the load is over", async (hosts) => {
  const running = startHosts({ hosts, concurrency: 4, handlerMs: 500 });
  const { scene, startedAt } = running;
  const committedAt: number[] = [];
  for (let burst = 0; burst < 15; burst++) {
    for (let order = 0; order < 8 * hosts; order++) {
      await scene.commit(`o-${committedAt.length}`, [committedAt.length]);
      committedAt.push(scene.clock.monotonic());
    }
    await scene.clock.advance(3_000);
  }
  await scene.clock.advance(60_000);
  const waits = committedAt.map((at, n) => (startedAt.get(n) ?? Number.POSITIVE_INFINITY) - at).toSorted((a, b) => a - b);
  expect(waits[Math.floor(waits.length / 2)]).toBeLessThanOrEqual(6_000);
  expect(waits.at(-1)).toBeLessThanOrEqual(30_000);
  expect(running.most()).toBe(4);
  await running.stop();
});

test.each([1, 2])("%i hosts: an order in line starts although new ones keep coming", async (hosts) => {
  const running = startHosts({ hosts, concurrency: 1, handlerMs: 200 });
  const { scene, startedAt } = running;
  for (let n = 0; n < 40; n++) await scene.commit(`o-${n}`, [n]);
  for (let n = 40; n < 160; n++) {
    await scene.commit(`o-${n}`, [n]);
    await scene.clock.advance(1_000 / hosts);
  }
  const starts = Array.from({ length: 40 }, (_, n) => startedAt.get(n) ?? Number.POSITIVE_INFINITY);
  expect(Math.max(...starts)).toBeLessThanOrEqual(60_000);
  expect(startedAt.size).toBeGreaterThanOrEqual(158);
  await running.stop();
});

test("orders that another process has served while they stood in line here keep nobody from the slot", async () => {
  const scene = new Scene();
  const slow = { ...scene.subscription("slow"), concurrency: 1 };
  scene.onHandle = () => scene.clock.sleep(100);
  const [here, elsewhere] = [scene.worker([slow]), scene.worker([slow])];
  for (let n = 1; n <= 24; n++) await scene.commit(`o-${n}`, [n]);
  const first = here.handle("o-1");
  await settle();
  for (let n = 2; n <= 12; n++) expect(await here.handle(`o-${n}`)).toMatchObject({ status: "left" });
  await scene.clock.advance(100);
  await first;
  for (let n = 2; n <= 11; n++) {
    const other = elsewhere.handle(`o-${n}`);
    await scene.clock.advance(100);
    expect(await other).toMatchObject({ status: "done" });
  }
  scene.log.length = 0;
  // Each as soon as the one before is done, the last one in line as well.
  for (let n = 12; n <= 24; n++) {
    const own = here.handle(`o-${n}`);
    await scene.clock.advance(100);
    expect(await own).toMatchObject({ status: "done", handled: 1 });
  }
  expect(scene.log).toEqual(Array.from({ length: 13 }, (_, index) => `slow E${12 + index}`));
  expect(await findings(scene)).toEqual([]);
  await scene.clock.advance(5_000);
  expect(scene.clock.pending()).toBe(0);
});
