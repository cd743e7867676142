import { afterEach, describe, expect, test } from "vitest";
import type { RoundResult } from "../../src/worker/round-result.ts";
import { settle } from "../support/manual-clock.ts";
import { DONE, failing, left, queueCalls, startHost, stopHosts, wakeUps } from "./host-support.ts";

afterEach(stopHosts);

describe("the poll loop", () => {
  test("never more orders in flight than allowed, and no more received than can start (H1)", async () => {
    const rounds: Array<() => void> = [];
    const orders = Array.from({ length: 40 }, (_, index) => `o-${index}`);
    const { storage, clock, worker, host } = await startHost(() => new Promise((resolve) => rounds.push(() => resolve(DONE))), {
      texts: wakeUps(...orders),
      concurrency: 3,
    });
    for (let ended = 0; ended < orders.length; ended++) {
      await settle();
      expect(host.status().inFlight).toBe(Math.min(3, orders.length - ended));
      expect(host.status().received).toBe(Math.min(orders.length, ended + 3));
      rounds[ended]!();
    }
    await settle();

    expect(worker.mostRunning).toBe(3);
    expect(worker.started).toEqual(orders);
    expect(Math.max(...queueCalls(storage, "receive").map(({ args }) => Number(args[0])))).toBe(3);
    expect(clock.monotonic()).toBe(0);
  });

  test("asks for 32 messages at most", async () => {
    const { storage, worker } = await startHost(() => DONE, {
      texts: wakeUps(...Array.from({ length: 100 }, (_, index) => `o-${index}`)),
      concurrency: 256,
    });
    await settle();

    expect(new Set(queueCalls(storage, "receive").map(({ args }) => args[0]))).toEqual(new Set([32]));
    expect(worker.started).toHaveLength(100);
  });

  test.each([
    { random: 0, gaps: [100, 100, 100, 100, 100, 100, 100, 100] },
    { random: 0.5, gaps: [150, 250, 450, 850, 1_650, 2_550, 2_550, 2_550] },
    { random: 0.999_999, gaps: [200, 400, 800, 1_600, 3_200, 5_000, 5_000, 5_000] },
  ])("an empty queue is asked in growing pauses, between pollMinMs and pollMaxMs (dice $random)", async ({ random, gaps }) => {
    const { storage, clock } = await startHost(() => DONE, { random: () => random });
    await settle();
    for (const [index, gap] of gaps.entries()) {
      expect(queueCalls(storage, "receive")).toHaveLength(index + 1);
      await clock.advance(gap - 1);
      expect(queueCalls(storage, "receive")).toHaveLength(index + 1);
      await clock.advance(1);
    }
  });

  test("any message makes the pauses short again", async () => {
    const { storage, clock, worker } = await startHost(() => DONE);
    await clock.advance(60_000);
    await storage.wakeUps.send('"o-1"', 0);
    await clock.advance(5_000);
    expect(worker.started).toEqual(["o-1"]);
    storage.forgetCalls();
    await storage.wakeUps.send('"o-2"', 0);
    await clock.advance(2_550);

    expect(worker.started).toEqual(["o-1", "o-2"]);
  });

  test("a host whose slots are all taken for 10 minutes does not ask, and is seen to be alive", async () => {
    const round = Promise.withResolvers<RoundResult>();
    const { storage, clock, host, worker } = await startHost(() => round.promise, { texts: wakeUps("o-1", "o-2"), concurrency: 1 });
    for (let second = 0; second < 600; second++) {
      await clock.advance(1_000);
      expect(host.status().sinceLastPollMs).toBeLessThanOrEqual(5_000);
    }
    expect(queueCalls(storage, "receive")).toHaveLength(1);
    expect(host.status().lastPollAt).toBe(clock.now() - host.status().sinceLastPollMs);

    round.resolve(DONE);
    await settle();
    expect(worker.started).toEqual(["o-1", "o-2"]); // At once, not at the next look.
  });

  test("H3, C33 the queue is down for 20 s while 10 wake-ups arrive: logged once, few calls, recovers by itself, all are handled", async () => {
    const { storage, clock, worker, host, log } = await startHost(() => DONE);
    await settle();
    storage.forgetCalls();
    storage.onCall = failing("unavailable", "receive", "hide", "delete");
    for (let arrived = 0; arrived < 10; arrived++) {
      await storage.wakeUps.send(wakeUps(`o-${arrived}`)[0]!, 0);
      await clock.advance(2_000);
      expect(host.status().sinceLastPollMs).toBeLessThanOrEqual(30_000);
    }
    expect(queueCalls(storage, "receive").length).toBeLessThan(10);
    expect(log.map(({ level }) => level)).toEqual(["error"]);
    expect(host.status()).toMatchObject({ state: "running", lastPollError: "unavailable: receive failed" });

    storage.onCall = undefined;
    await clock.advance(30_000);
    expect(new Set(worker.started)).toEqual(new Set(Array.from({ length: 10 }, (_, index) => `o-${index}`)));
    expect(worker.started).toHaveLength(10);
    expect(storage.messages()).toEqual([]);
    expect(log.map(({ level }) => level)).toEqual(["error", "info"]);
    expect(host.status().lastPollError).toBeUndefined();
  });

  test("C33 an outage of a day ends at most 30 s late, and each outage is logged once", async () => {
    const { storage, clock, worker, log } = await startHost(() => DONE, { random: () => 0.999_999 });
    for (let outage = 1; outage <= 2; outage++) {
      storage.onCall = failing("forbidden", "receive");
      await clock.advance(24 * 3_600_000);
      storage.onCall = undefined;
      await storage.wakeUps.send('"o-1"', 0);
      await clock.advance(30_000);
      expect(worker.started).toHaveLength(outage);
    }
    expect(log.map(({ level }) => level)).toEqual(["error", "info", "error", "info"]);
  });

  test("C33 messages in hand while the queue is down come back after it", async () => {
    const { storage, clock, worker } = await startHost(() => left(2_000), {
      texts: wakeUps("o-1"),
      onCall: failing("unavailable", "hide", "delete"),
    });
    await settle();
    await clock.advance(20_000);
    storage.onCall = undefined;
    worker.round = () => DONE;
    await clock.advance(35_000);

    expect(worker.started).toEqual(["o-1", "o-1"]);
    expect(storage.messages()).toEqual([]);
  });
});
