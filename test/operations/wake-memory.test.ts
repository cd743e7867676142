import { describe, expect, it } from "vitest";
import type { OrderKey } from "../../src/core/order-id.ts";
import { WakeMemory } from "../../src/operations/wake-memory.ts";
import { ManualClock } from "../support/manual-clock.ts";

const A = "a" as OrderKey;

describe("WakeMemory", () => {
  it("a reason that is gone brings no new wake-up; one that came does, and the pause starts anew", async () => {
    const clock = new ManualClock();
    const memory = new WakeMemory(clock);
    memory.wasWoken(A, ["x", "y"]);
    expect(memory.mayWake(A, ["y"])).toBe(false);
    expect(memory.mayWake(A, ["y", "z"])).toBe(true);
    await clock.advance(50_000);
    memory.wasWoken(A, ["x", "y"]);
    await clock.advance(99_999);
    expect(memory.mayWake(A, ["x"])).toBe(false);
    memory.wasWoken(A, ["z"]);
    await clock.advance(50_000);
    expect(memory.mayWake(A, ["z"])).toBe(true);
  });

  it("is bounded: of 50,001 orders the one woken longest ago is forgotten", () => {
    const memory = new WakeMemory(new ManualClock());
    const key = (index: number): OrderKey => `o-${index}` as OrderKey;
    for (let index = 0; index < 50_000; index++) memory.wasWoken(key(index), ["x"]);
    memory.wasWoken(key(0), ["x"]);
    memory.wasWoken(key(50_000), ["x"]);
    expect([0, 1, 2, 50_000].map((index) => memory.mayWake(key(index), ["x"]))).toEqual([false, true, false, false]);
  });
});
