import { describe, expect, test } from "vitest";
import { decideRetry, PermanentError, resolveRetryPolicy, RetryableError, type RetryOptions } from "../../src/core/retry.ts";

const MINUTE = 60_000;
const DAY = 24 * 60 * MINUTE;
const DEFAULTS = resolveRetryPolicy("mail");
const failed = new Error("carrier is down");

/** All decisions for an event that always fails, the starts at which it waits long, and the last decision. */
function life(
  options: RetryOptions,
  random: number = 0.5,
): { readonly parks: (readonly [starts: number, delayMs: number])[]; readonly starts: number } {
  const policy = resolveRetryPolicy("mail", options);
  const parks: (readonly [number, number])[] = [];
  for (let starts = 1; ; starts++) {
    const decision = decideRetry(policy, starts, failed, random);
    if (decision.kind === "dead") return { parks, starts };
    if (decision.kind === "park") parks.push([starts, decision.delayMs]);
  }
}

describe("F1, F2: bursts of short retries and long waits", () => {
  test("by default: 3 starts, 10 s, 3 starts, 20 s, … capped at 30 min, 10 times, then dead", () => {
    const delays = [10, 20, 40, 80, 160, 320, 640, 1_280, 1_800, 1_800].map((seconds) => seconds * 1_000);
    expect(life({})).toEqual({ parks: delays.map((delayMs, index) => [3 * (index + 1), delayMs]), starts: 33 });
  });

  test.each<[string, RetryOptions, ReturnType<typeof life>]>([
    [
      "one start a burst",
      { shortStarts: 1, longRetries: 2 },
      {
        parks: [
          [1, 10_000],
          [2, 20_000],
        ],
        starts: 3,
      },
    ],
    ["no long waits", { longRetries: 0 }, { parks: [], starts: 3 }],
    ["one start at all", { shortStarts: 1, longRetries: 0 }, { parks: [], starts: 1 }],
    [
      "a cap at the first wait",
      { shortStarts: 2, longRetries: 2, longDelayMs: 5_000, longMaxDelayMs: 5_000 },
      {
        parks: [
          [2, 5_000],
          [4, 5_000],
        ],
        starts: 6,
      },
    ],
    ["C30: 30 days", { shortStarts: 1, longRetries: 1, longDelayMs: 30 * DAY }, { parks: [[1, 30 * DAY]], starts: 2 }],
  ])("%s", (_name, options, expected) => {
    expect(life(options)).toEqual(expected);
  });

  test("the exponent may grow as it likes", () => {
    const { parks, starts } = life({ shortStarts: 1, longRetries: 1_000 });
    expect([starts, Math.max(...parks.map(([, delayMs]) => delayMs))]).toEqual([1_001, 30 * MINUTE]);
  });

  test.each([
    [1, 0, { kind: "again", delayMs: 0 }],
    [1, 0.5, { kind: "again", delayMs: 500 }],
    [2, 0.5, { kind: "again", delayMs: 1_000 }],
    [4, 0.25, { kind: "again", delayMs: 250 }],
    [5, 0.9995, { kind: "again", delayMs: 1_999 }],
  ] as const)("after start %i of a burst with a draw of %d", (starts, random, expected) => {
    expect(decideRetry(DEFAULTS, starts, failed, random)).toEqual(expected);
  });

  test("full jitter: every short wait lies within [0, bound), and the bound doubles", () => {
    const policy = resolveRetryPolicy("mail", { shortStarts: 20, shortDelayMs: 7 });
    for (let starts = 1; starts < 20; starts++) {
      const bound = 7 * 2 ** (starts - 1);
      for (let draw = 0; draw < 1; draw += 1 / 64) {
        const decision = decideRetry(policy, starts, failed, draw);
        if (decision.kind === "dead") throw new Error("dead within a burst");
        expect(decision.delayMs).toBeGreaterThanOrEqual(0);
        expect(decision.delayMs).toBeLessThan(bound);
        expect(decision.delayMs).toBe(Math.floor(draw * bound));
      }
    }
  });

  test("a short wait of more than 5 s is not spent in the round", () => {
    const policy = resolveRetryPolicy("mail", { shortDelayMs: 10_000 });
    expect(decideRetry(policy, 1, failed, 0.5)).toEqual({ kind: "again", delayMs: 5_000 });
    expect(decideRetry(policy, 1, failed, 0.5002)).toEqual({ kind: "park", delayMs: 5_002 });
  });
});

describe("what the handler says", () => {
  test("PermanentError: dead at the first start, with its message", () => {
    expect(decideRetry(DEFAULTS, 1, new PermanentError("no such carrier"), 0)).toEqual({
      kind: "dead",
      reason: "PermanentError: no such carrier",
    });
  });

  test.each([
    [0, "again", 500],
    [400, "again", 500],
    [600.2, "again", 601],
    [5_000, "again", 5_000],
    [5_001, "park", 5_001],
    [MINUTE, "park", MINUTE],
    [30 * DAY, "park", 7 * DAY],
    [Number.POSITIVE_INFINITY, "park", 7 * DAY],
    [Number.NEGATIVE_INFINITY, "again", 500],
    [-5, "again", 500],
    [Number.NaN, "again", 500],
  ] as const)("C30: RetryableError(%d): not before that, at most 7 days", (retryAfterMs, kind, delayMs) => {
    expect(decideRetry(DEFAULTS, 1, new RetryableError("busy", retryAfterMs), 0.5)).toEqual({ kind, delayMs });
  });

  test("RetryableError prolongs a long wait and never shortens it, nor saves the last start", () => {
    expect(decideRetry(DEFAULTS, 3, new RetryableError("busy", 1_000), 0)).toEqual({ kind: "park", delayMs: 10_000 });
    expect(decideRetry(DEFAULTS, 3, new RetryableError("busy", MINUTE), 0)).toEqual({ kind: "park", delayMs: MINUTE });
    expect(decideRetry(DEFAULTS, 33, new RetryableError("busy", MINUTE), 0)).toEqual({
      kind: "dead",
      reason: "gave up after 33 starts: RetryableError: busy",
    });
  });

  test.each([undefined, null, "text", 7, { code: 1 }, Symbol("s")])("C06: anything else can be thrown: %o", (thrown) => {
    expect(decideRetry(DEFAULTS, 1, thrown, 0)).toEqual({ kind: "again", delayMs: 0 });
    expect(decideRetry(DEFAULTS, 33, thrown, 0)).toMatchObject({ kind: "dead" });
  });
});

describe("resolveRetryPolicy", () => {
  test("the defaults", () => {
    expect(DEFAULTS).toEqual({
      shortStarts: 3,
      shortDelayMs: 1_000,
      longRetries: 10,
      longDelayMs: 10_000,
      longMaxDelayMs: 30 * MINUTE,
      timeoutMs: MINUTE,
      maxCrashes: 5,
      onDead: "block",
    });
  });

  test.each<[keyof RetryOptions, number, number]>([
    ["shortStarts", 1, 20],
    ["shortDelayMs", 0, MINUTE],
    ["longRetries", 0, 1_000],
    ["longDelayMs", 1_000, 30 * DAY],
    ["longMaxDelayMs", 10_000, 30 * DAY],
    ["timeoutMs", 10, 60 * MINUTE],
    ["maxCrashes", 1, 100],
  ])("%s is a whole number from %i to %i, and the message names it", (option, min, max) => {
    for (const value of [min, max]) expect(resolveRetryPolicy("mail", { [option]: value })[option]).toBe(value);
    for (const value of [min - 1, max + 1, min + 0.5, Number.NaN, Number.POSITIVE_INFINITY, String(min)]) {
      expect(() => resolveRetryPolicy("mail", { [option]: value })).toThrow(
        expect.objectContaining({ code: "invalid-option", message: expect.stringContaining(`mail: ${option}`) as string }) as Error,
      );
    }
  });

  test("longMaxDelayMs is at least longDelayMs, also by default", () => {
    expect(resolveRetryPolicy("mail", { longDelayMs: DAY }).longMaxDelayMs).toBe(DAY);
    expect(() => resolveRetryPolicy("mail", { longDelayMs: DAY, longMaxDelayMs: DAY - 1 })).toThrow("mail: longMaxDelayMs");
  });

  test("onDead is block or skip", () => {
    expect(resolveRetryPolicy("mail", { onDead: "skip" }).onDead).toBe("skip");
    expect(() => resolveRetryPolicy("mail", { onDead: "drop" as "skip" })).toThrow('mail: onDead is "drop"');
  });
});

test.each<[string, unknown]>([
  [
    "a revoked proxy",
    (() => {
      const { proxy, revoke } = Proxy.revocable({}, {});
      revoke();
      return proxy;
    })(),
  ],
  ["a delay that is a bigint", new RetryableError("x", 5n as unknown as number)],
  ["a delay that is a symbol", new RetryableError("x", Symbol("x") as unknown as number)],
])("whatever is thrown, it is decided: %s", (_name, error) => {
  expect(decideRetry(resolveRetryPolicy("mail"), 1, error, 0)).toMatchObject({ kind: "again" });
  expect(decideRetry(resolveRetryPolicy("mail"), 33, error, 0)).toMatchObject({ kind: "dead" });
});
