/** C8: the frame around every request. */
import { getEventListeners } from "node:events";
import { describe, expect, it, vi } from "vitest";
import { RestError } from "@azure/core-rest-pipeline";
import { OutboxError } from "../../src/core/errors.ts";
import { callStorage, repeatUnavailable } from "../../src/storage/call.ts";
import { failure } from "../contract/harness.ts";

const call = (signal?: AbortSignal) => ({
  what: "read order o-1",
  timeoutMs: 1_000,
  options: signal === undefined ? undefined : { signal },
});

describe("callStorage", () => {
  const endings: ReadonlyArray<readonly [name: string, request: () => Promise<unknown>]> = [
    ["succeeds", () => Promise.resolve(1)],
    ["fails", () => Promise.reject(new RestError("x", { statusCode: 404 }))],
    [
      "throws at once",
      () => {
        throw new TypeError("x");
      },
    ],
  ];
  it.each(endings)("C8: leaves no timer and no listener behind when the request %s", async (_name, request) => {
    vi.useFakeTimers();
    try {
      const { signal } = new AbortController();
      await callStorage(call(signal), request).catch(() => {});
      expect(getEventListeners(signal, "abort")).toHaveLength(0);
      expect(vi.getTimerCount()).toBe(0);
    } finally {
      vi.useRealTimers();
    }
  });

  it("C8: ends at the deadline although the request ignores its signal, and its late failure disturbs nobody", async () => {
    vi.useFakeTimers();
    try {
      const { signal } = new AbortController();
      const late = Promise.withResolvers<never>();
      let seen: AbortSignal | undefined;
      const ended = failure(
        callStorage(call(signal), (own) => {
          seen = own;
          return late.promise;
        }),
        "timeout",
      );
      await vi.advanceTimersByTimeAsync(999);
      expect(seen?.aborted).toBe(false);
      await vi.advanceTimersByTimeAsync(1);
      expect((await ended).message).toContain("read order o-1: no answer within 1000 ms");
      expect(seen?.aborted).toBe(true);
      expect(getEventListeners(signal, "abort")).toHaveLength(0);
      late.reject(new Error("late"));
    } finally {
      vi.useRealTimers();
    }
  });

  it("C8: the caller's abort reaches the request and keeps its reason", async () => {
    const controller = new AbortController();
    const reason = new Error("the host stops");
    let seen: AbortSignal | undefined;
    const ended = failure(
      callStorage(call(controller.signal), (own) => {
        seen = own;
        return new Promise(() => {});
      }),
      "aborted",
    );
    controller.abort(reason);
    expect((await ended).cause).toBe(reason);
    expect(seen?.aborted).toBe(true);
  });

  it("an answer counts although the caller gives up right after it", async () => {
    const controller = new AbortController();
    const answer = await callStorage(call(controller.signal), async () => "answer");
    controller.abort();
    expect(answer).toBe("answer");
  });
});

const busy = new RestError("x", { statusCode: 503 });

/** Runs a request whose tries end as given, in turn; errors are thrown. */
const run = (outcomes: readonly unknown[], mayRepeat?: (error: OutboxError) => boolean) => {
  let tries = 0;
  const request = vi.fn<() => Promise<unknown>>(async () => {
    const outcome = outcomes[tries++];
    if (outcome instanceof Error) throw outcome;
    return outcome;
  });
  return { request, result: repeatUnavailable(new AbortController().signal, request, mayRepeat) };
};

describe("repeatUnavailable", () => {
  it("repeats twice, no more", async () => {
    const { request, result } = run([busy, busy, "answer"]);
    expect(await result).toBe("answer");
    expect(request).toHaveBeenCalledTimes(3);
    const lasting = run([busy, busy, busy, "too late"]);
    await expect(lasting.result).rejects.toBe(busy);
  });

  it("repeats nothing but unavailable, and only if it may", async () => {
    const missing = new RestError("x", { statusCode: 404 });
    const first = run([missing, "answer"]);
    await expect(first.result).rejects.toBe(missing);
    const second = run([busy, "answer"], () => false);
    await expect(second.result).rejects.toBe(busy);
    expect([first.request.mock.calls.length, second.request.mock.calls.length]).toEqual([1, 1]);
  });
});
