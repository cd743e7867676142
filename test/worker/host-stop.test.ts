import { afterEach, describe, expect, test } from "vitest";
import type { RoundResult } from "../../src/worker/round-result.ts";
import { settle } from "../support/manual-clock.ts";
import { DONE, failing, queueCalls, startHost, stopHosts, untilAborted, wakeUps } from "./host-support.ts";

afterEach(stopHosts);

describe("stop in two stages (H4, C32)", () => {
  test("1: nothing new is received or started, a running handler finishes, its wake-up is deleted", async () => {
    const round = Promise.withResolvers<RoundResult>();
    let signal: AbortSignal | undefined;
    const { storage, clock, worker, host } = await startHost((_orderId, given) => ((signal = given), round.promise), {
      texts: wakeUps("o-1"),
    });
    await settle();
    storage.forgetCalls();
    const stopped = host.stop();
    await storage.wakeUps.send('"o-2"', 0);
    await clock.advance(24_000);
    expect(worker.stopped).toBe(true);
    expect(signal!.aborted).toBe(false);
    expect(host.status()).toMatchObject({ state: "stopping", inFlight: 1 });
    expect(queueCalls(storage, "hide")).toHaveLength(2); // Its message is still renewed.

    round.resolve(DONE);
    expect(await stopped).toEqual({ aborted: 0, left: [] });
    expect(host.status()).toMatchObject({ state: "stopped", inFlight: 0, handled: 1 });
    expect(queueCalls(storage, "receive")).toEqual([]);
    expect(storage.messages().map(({ text }) => text)).toEqual(['"o-2"']);
    expect(clock.pending()).toBe(0);
  });

  test("2: a handler that honours the abort signal ends, its wake-up is given back", async () => {
    const { storage, clock, host } = await startHost(untilAborted, { texts: wakeUps("o-1") });
    await settle();
    const stopped = host.stop();
    await clock.advance(25_000);

    expect(await stopped).toEqual({ aborted: 1, left: [] });
    expect(storage.messages()).toEqual([{ text: '"o-1"', hiddenForMs: 1_000, dequeueCount: 1 }]);
    expect(clock.pending()).toBe(0);
  });

  test("2: a round that throws because of the signal is no error for the log", async () => {
    const { clock, host, log } = await startHost(
      (_orderId, signal) => new Promise((_resolve, reject) => signal.addEventListener("abort", () => reject(signal.reason as Error))),
      { texts: wakeUps("o-1") },
    );
    await settle();
    const stopped = host.stop();
    await clock.advance(25_000);

    expect(await stopped).toEqual({ aborted: 1, left: [] });
    expect(log.map(({ level, fields }) => [level, fields["error"]])).toEqual([["info", "aborted: the worker host stops"]]);
  });

  test("3: one that ignores it is reported and left; its wake-up comes back to others, and nothing is done to it any more", async () => {
    const round = Promise.withResolvers<RoundResult>();
    const { storage, clock, host } = await startHost((orderId) => (orderId === "stuck" ? round.promise : DONE), {
      texts: wakeUps("stuck", "o-2"),
    });
    await settle();
    const stopped = host.stop();
    await clock.advance(30_000);

    expect(await stopped).toEqual({ aborted: 1, left: ["stuck"] });
    expect(host.status()).toMatchObject({ state: "stopped", inFlight: 1 });
    expect(clock.pending()).toBe(0);
    storage.forgetCalls();
    round.resolve(DONE);
    await clock.advance(30_000);
    expect(storage.calls).toEqual([]);
    expect(await storage.wakeUps.receive(32, 1_000)).toMatchObject([{ text: '"stuck"' }]);
  });

  test("abortNow skips the rest of the first stage", async () => {
    const { clock, host } = await startHost(untilAborted, { texts: wakeUps("o-1") });
    await settle();
    const first = host.stop();
    await clock.advance(1_000);
    const second = host.stop({ abortNow: true });
    await settle();

    expect(await first).toEqual({ aborted: 1, left: [] });
    expect(await second).toBe(await first);
    expect(clock.monotonic()).toBe(1_000);
  });

  test("messages of a receive call under way go back at once, unhandled", async () => {
    const answer = Promise.withResolvers<void>();
    const { storage, worker, host } = await startHost(() => DONE, {
      texts: wakeUps("o-1", "o-2"),
      onCall: ({ method }) => (method === "receive" ? { after: () => answer.promise } : undefined),
    });
    await settle();
    const stopped = host.stop();
    await settle();
    expect(host.status().state).toBe("stopping");
    answer.resolve();

    expect(await stopped).toEqual({ aborted: 0, left: [] });
    expect(worker.started).toEqual([]);
    expect(storage.messages()).toEqual([
      { text: '"o-1"', hiddenForMs: 0, dequeueCount: 1 },
      { text: '"o-2"', hiddenForMs: 0, dequeueCount: 1 },
    ]);
  });

  test("a queue that never answers does not hold the stop", async () => {
    const { clock, host } = await startHost(() => DONE, { onCall: () => new Promise<never>(() => {}) });
    await settle();
    const stopped = host.stop();
    await clock.advance(30_000);

    expect(await stopped).toEqual({ aborted: 0, left: [] });
  });

  test("an idle host stops at once, also while it waits for a queue that is down; further stops and disposal get the same report", async () => {
    const { clock, host } = await startHost(() => DONE, { onCall: failing("unavailable", "receive") });
    await clock.advance(60_000);
    const time = clock.monotonic();
    const report = await host.stop();
    expect(report).toEqual({ aborted: 0, left: [] });
    expect(await host.stop({ abortNow: true })).toBe(report);
    await host[Symbol.asyncDispose]();
    expect(clock.monotonic()).toBe(time);
    expect(host.status()).toMatchObject({ state: "stopped", inFlight: 0 });
  });
});
