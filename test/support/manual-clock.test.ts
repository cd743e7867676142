import { describe, expect, it } from "vitest";
import { ManualClock } from "./manual-clock.ts";

describe("ManualClock", () => {
  it("wakes sleepers at their times, in order, those included that fall asleep meanwhile", async () => {
    const clock = new ManualClock(0);
    const log: string[] = [];
    const sleeper = async (name: string, ...sleeps: readonly number[]): Promise<void> => {
      for (const ms of sleeps) {
        await clock.sleep(ms);
        log.push(`${name}@${clock.monotonic()}`);
      }
    };
    const all = [sleeper("a", 30), sleeper("b", 10, 10, 100), sleeper("c", 10)];
    await clock.advance(30);
    expect(log).toEqual(["b@10", "c@10", "b@20", "a@30"]);
    expect(clock.pending()).toBe(1);
    expect(await clock.advanceToNext()).toBe(true);
    expect(clock.monotonic()).toBe(120);
    expect(await clock.advanceToNext()).toBe(false);
    await Promise.all(all);
  });

  it("an aborted sleep rejects with its reason and is forgotten", async () => {
    const clock = new ManualClock();
    const controller = new AbortController();
    const sleep = clock.sleep(10, controller.signal);
    controller.abort("enough");
    await expect(sleep).rejects.toBe("enough");
    await expect(clock.sleep(10, controller.signal)).rejects.toBe("enough");
    expect(clock.pending()).toBe(0);
  });

  it("wall clock and monotonic clock can be turned apart", async () => {
    const clock = new ManualClock(1_000);
    clock.setNow(500);
    clock.skipMonotonic(50);
    expect([clock.now(), clock.monotonic()]).toEqual([500, 50]);
    await clock.advance(5);
    expect([clock.now(), clock.monotonic()]).toEqual([505, 55]);
  });
});
