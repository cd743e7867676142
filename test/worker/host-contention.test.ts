import { afterEach, describe, expect, test } from "vitest";
import { OutboxError } from "../../src/core/errors.ts";
import { settle } from "../support/manual-clock.ts";
import { DONE, left, queueCalls, startHost, stopHosts, taken, wakeUps } from "./host-support.ts";

afterEach(stopHosts);

describe("many wake-ups for one contended order (C10, W6)", () => {
  const THIRTY = wakeUps(...Array.from({ length: 30 }, () => "o-1"));

  test("30 wake-ups leave one hidden copy, which hops alone: no busy loop, no poison", async () => {
    const { storage, clock, worker, log } = await startHost(() => taken(30_000), { texts: THIRTY });
    await settle();
    await clock.advance(3_000);

    expect(storage.callCounts()).toMatchObject({ "wakeUps.hide": 1, "wakeUps.delete": 29 });
    expect(storage.messages()).toEqual([{ text: '"o-1"', hiddenForMs: 27_000, dequeueCount: 1 }]);
    expect(worker.started).toHaveLength(30);

    storage.forgetCalls();
    await clock.advance(57_000);
    expect(worker.started).toHaveLength(31);
    worker.round = () => DONE;
    await clock.advance(10_000);

    expect(worker.started).toHaveLength(32);
    expect(storage.messages()).toEqual([]);
    const { "wakeUps.receive": receives, ...others } = storage.callCounts();
    expect(others).toEqual({ "wakeUps.hide": 1, "wakeUps.delete": 1 });
    // Never more often than the shortest pauses of the poll loop allow: two bursts of growing pauses, then one call in 2,550 ms.
    expect(receives).toBeLessThan(45);
    expect(log).toEqual([]);
  });

  test("another order's wake-up is not touched (G4)", async () => {
    const { storage } = await startHost((orderId) => (orderId === "o-1" ? taken(30_000) : left(40_000)), {
      texts: [...THIRTY, ...wakeUps("o-10")],
    });
    await settle();

    expect(storage.messages().map(({ text }) => text)).toEqual(['"o-1"', '"o-10"']);
  });

  test("one that has to come sooner is kept beside the later one", async () => {
    let retryInMs = 60_000;
    const { storage } = await startHost(() => taken((retryInMs /= 2)), { texts: wakeUps("o-1", "o-1"), concurrency: 1 });
    await settle();

    expect(storage.messages().map(({ hiddenForMs }) => hiddenForMs)).toEqual([15_000, 30_000]);
  });

  test("the hidden copy that comes back before its time is not given up for itself", async () => {
    const { storage, clock, worker } = await startHost(() => taken(60_000), {
      texts: wakeUps("o-1"),
      queue: (real) => ({ ...real, hide: (receipt, text) => real.hide(receipt, text, 1_000) }),
    });
    await clock.advance(20_000);

    expect(worker.started.length).toBeGreaterThan(2);
    expect(storage.messages()).toHaveLength(1);
    expect(queueCalls(storage, "delete")).toEqual([]);
  });

  test("a copy counts only once the queue has taken it: if hiding fails, the next one is hidden in its place", async () => {
    let failures = 0;
    const { storage } = await startHost(() => taken(30_000), {
      texts: wakeUps("o-1", "o-1", "o-1"),
      onCall: ({ method }) => {
        if (method === "hide" && failures++ === 0) throw new OutboxError("unavailable", "hide failed");
      },
    });
    await settle();

    expect(queueCalls(storage, "hide")).toHaveLength(2);
    expect(queueCalls(storage, "delete")).toHaveLength(1);
    // The first is still hidden by its receipt and comes back then.
    expect(storage.messages().map(({ hiddenForMs }) => hiddenForMs)).toEqual([30_000, 30_000]);
  });

  test("a copy that is due no longer stands in for a new one", async () => {
    const { storage, clock } = await startHost(() => taken(5_000), { texts: wakeUps("o-1"), pollMinMs: 20_000, pollMaxMs: 20_000 });
    await settle();
    await clock.advance(10_000);
    await storage.wakeUps.send('"o-1"', 0);
    await clock.advance(10_000);

    // The new one and the due one arrive together; one of them is kept.
    expect(storage.messages()).toEqual([{ text: '"o-1"', hiddenForMs: 5_000, dequeueCount: expect.any(Number) }]);
  });
});
