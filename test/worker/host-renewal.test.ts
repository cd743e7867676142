import { afterEach, describe, expect, test } from "vitest";
import type { RoundResult } from "../../src/worker/round-result.ts";
import { settle } from "../support/manual-clock.ts";
import { DONE, failing, left, queueCalls, startHost, stopHosts, wakeUps } from "./host-support.ts";

afterEach(stopHosts);

describe("a wake-up in the hands of a round (C33)", () => {
  test("it stays hidden from others through a round of 5 minutes and is deleted with the newest receipt", async () => {
    const round = Promise.withResolvers<RoundResult>();
    const { storage, clock, worker } = await startHost(() => round.promise, { texts: wakeUps("o-1"), visibilityMs: 30_000 });
    for (let second = 0; second < 300; second++) {
      await clock.advance(1_000);
      expect(await storage.wakeUps.receive(32, 1_000)).toEqual([]);
    }
    expect(queueCalls(storage, "hide")).toHaveLength(30);
    expect(worker.started).toEqual(["o-1"]);

    round.resolve(DONE);
    await settle();
    expect(storage.messages()).toEqual([]);
    expect(queueCalls(storage, "delete")).toHaveLength(1);
  });

  test("a renewal still under way at the end of the round is waited for: its receipt is the one that counts", async () => {
    const round = Promise.withResolvers<RoundResult>();
    const answer = Promise.withResolvers<void>();
    const { storage, clock } = await startHost(() => round.promise, { texts: wakeUps("o-1") });
    storage.onCall = ({ method }) => (method === "hide" ? { after: () => answer.promise } : undefined);
    await clock.advance(10_000);
    round.resolve(DONE);
    await settle();
    expect(queueCalls(storage, "hide")).toHaveLength(1);
    expect(queueCalls(storage, "delete")).toEqual([]);

    answer.resolve();
    await settle();
    expect(storage.messages()).toEqual([]);
  });

  test("somebody else has it by now: the round goes on, the message is left alone", async () => {
    const round = Promise.withResolvers<RoundResult>();
    let signal: AbortSignal | undefined;
    const { storage, clock, host } = await startHost((_orderId, given) => ((signal = given), round.promise), { texts: wakeUps("o-1") });
    await settle();
    clock.skipMonotonic(30_001); // A frozen process: its timers fire late.
    const [stolen] = await storage.wakeUps.receive(1, 3_600_000);
    expect(stolen).toMatchObject({ text: '"o-1"', dequeueCount: 2 });
    await clock.advance(120_000);

    expect(queueCalls(storage, "hide")).toHaveLength(1);
    expect(host.status().inFlight).toBe(1);
    expect(signal!.aborted).toBe(false);

    round.resolve(DONE);
    await settle();
    expect(queueCalls(storage, "delete")).toEqual([]);
    expect(await storage.wakeUps.delete(stolen!.receipt)).toBe(true);
  });

  test("a renewal that fails otherwise is repeated at the next third, in time", async () => {
    const round = Promise.withResolvers<RoundResult>();
    const { storage, clock, worker, log } = await startHost(() => round.promise, { texts: wakeUps("o-1") });
    await settle();
    storage.onCall = failing("unavailable", "hide");
    await clock.advance(15_000);
    storage.onCall = undefined;
    await clock.advance(60_000);

    expect(log.map(({ level }) => level)).toEqual(["warn"]);
    expect(worker.started).toEqual(["o-1"]);
    round.resolve(DONE);
    await settle();
    expect(storage.messages()).toEqual([]);
  });

  test("a message that was given up for lost and comes back here during its round is ours again: renewed, and deleted at the end", async () => {
    const round = Promise.withResolvers<RoundResult>();
    const { storage, clock, worker, host } = await startHost(() => round.promise, { texts: wakeUps("o-1") });
    await settle();
    // The renewal is done but not answered; the next one has an old receipt and finds nothing.
    storage.onCall = ({ method }) => (method === "hide" ? "lose-response" : undefined);
    await clock.advance(10_000);
    storage.onCall = undefined;
    await clock.advance(290_000);

    expect(host.status().received).toBe(2);
    expect(worker.started).toEqual(["o-1"]);
    round.resolve(DONE);
    await settle();
    expect(storage.messages()).toEqual([]);
  });

  test("a renewal whose answer is lost costs a repeated round at worst, never the wake-up", async () => {
    const round = Promise.withResolvers<RoundResult>();
    const { storage, clock, worker } = await startHost(() => round.promise, { texts: wakeUps("o-1") });
    await settle();
    storage.onCall = ({ method }) => (method === "hide" ? "lose-response" : undefined);
    await clock.advance(10_000);
    storage.onCall = undefined;
    await clock.advance(10_000);
    round.resolve(left(5_000));
    await settle();
    // The one whose receipt went astray, and a fresh one: another host may have let the first go.
    expect(storage.messages()).toHaveLength(2);
    worker.round = () => DONE;
    await clock.advance(30_000);

    expect(worker.started).toEqual(["o-1", "o-1", "o-1"]);
    expect(storage.messages()).toEqual([]);
  });

  test.each([
    { result: DONE, messages: 0 },
    { result: left(20_000), messages: 1 },
  ])("the same wake-up delivered twice joins nothing and loses nothing: the round ends $result.status", async ({ result, messages }) => {
    const round = Promise.withResolvers<RoundResult>();
    const { storage, clock, worker, host } = await startHost(() => round.promise, { texts: wakeUps("o-1") });
    await settle();
    clock.skipMonotonic(30_001);
    await clock.advance(5_000); // The poll is due before the renewal and gets the message again.
    expect(host.status()).toMatchObject({ received: 2, inFlight: 1 });
    expect(worker.started).toEqual(["o-1"]);
    await clock.advance(60_000);
    expect(host.status().received).toBe(2);

    round.resolve(result);
    await settle();
    expect(storage.messages()).toHaveLength(messages);
  });
});
