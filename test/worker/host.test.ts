import { afterEach, describe, expect, test } from "vitest";
import { OutboxError } from "../../src/core/errors.ts";
import { startWorkerHost } from "../../src/worker/host.ts";
import { settle } from "../support/manual-clock.ts";
import { createMemoryStorage } from "../support/memory-storage.ts";
import { DONE, FakeWorker, JOINED, failing, left, startHost, stopHosts, taken, wakeUps } from "./host-support.ts";

afterEach(stopHosts);

describe("H2: what becomes of a wake-up", () => {
  test.each([DONE])("$status: it is used up", async (result) => {
    const { storage, host } = await startHost(() => result, { texts: wakeUps("o-1", "o-2") });
    await settle();

    expect(storage.messages()).toEqual([]);
    expect(storage.callCounts()).toMatchObject({ "wakeUps.delete": 2 });
    expect(host.status()).toMatchObject({ state: "running", inFlight: 0, received: 2, handled: 2 * result.handled });
  });

  test.each([
    { name: "taken", result: taken(30_000), hiddenForMs: 30_000 },
    { name: "joined: the round that runs here may end without a message of its own", result: JOINED, hiddenForMs: 30_000 },
    { name: "left", result: left(20_000), hiddenForMs: 20_000 },
    { name: "at least 1 s, so that no wake-up spins", result: taken(0), hiddenForMs: 1_000 },
    { name: "at most the 7 days a queue can hide (C30)", result: left(30 * 24 * 3_600_000), hiddenForMs: 7 * 24 * 3_600_000 },
    {
      name: "at most the 7 days, even if the round says never (C30)",
      result: left(Number.POSITIVE_INFINITY),
      hiddenForMs: 7 * 24 * 3_600_000,
    },
  ])("W6 $name: it is hidden, its text unchanged", async ({ result, hiddenForMs }) => {
    const texts = wakeUps("é📦");
    const { storage } = await startHost(() => result, { texts });
    await settle();

    expect(storage.messages()).toEqual([{ text: texts[0], hiddenForMs, dequeueCount: 1 }]);
  });

  test("it comes back when its time has come, and is used up once the order is done", async () => {
    const { storage, clock, worker } = await startHost(() => left(20_000), { texts: wakeUps("o-1") });
    await settle();
    worker.round = () => DONE;
    await clock.advance(26_000);

    expect(worker.started).toEqual(["o-1", "o-1"]);
    expect(storage.messages()).toEqual([]);
  });

  test("problems of a round are logged with the order", async () => {
    const { log } = await startHost(() => left(20_000), { texts: wakeUps("o-1") });
    await settle();

    expect(log).toEqual([
      { level: "warn", message: expect.any(String), fields: { orderId: "o-1", round: "left", problems: 1, first: "mail: E1 failed" } },
    ]);
  });

  test("a delete that finds nothing is no error, one that fails is a warning: the message comes back and finds nothing to do (C33)", async () => {
    const { storage, clock, worker, log } = await startHost(() => DONE, {
      texts: wakeUps("o-1"),
      queue: (real) => ({ ...real, delete: async () => false }),
    });
    await settle();
    expect(log).toEqual([]);

    const failed = await startHost(() => DONE, { texts: wakeUps("o-1"), onCall: failing("unavailable", "delete") });
    await settle();
    expect(failed.log.map(({ level }) => level)).toEqual(["warn"]);
    failed.storage.onCall = undefined;

    await clock.advance(35_000);
    await failed.clock.advance(35_000);
    expect(worker.started).toEqual(["o-1", "o-1"]);
    expect(storage.messages()).toHaveLength(1);
    expect(failed.worker.started).toEqual(["o-1", "o-1"]);
    expect(failed.storage.messages()).toEqual([]);
  });
});

describe("texts of wake-ups (C23)", () => {
  const IDS = ["o-1", "abcd", "1234", "12345678901234567890", "1e5", "é📦", `<a>&"`, "x".repeat(128), "📦".repeat(64), "a\r\nb\u0001", " "];

  test.each(IDS)("%j wakes the right order", async (orderId) => {
    const { worker } = await startHost(() => DONE, { texts: wakeUps(orderId) });
    await settle();

    expect(worker.started).toEqual([orderId]);
  });

  test.each(["o-1", "abcd", "1234", "0012"])("a bare %s of another producer wakes the right order", async (text) => {
    const { worker } = await startHost(() => DONE, { texts: [text] });
    await settle();

    expect(worker.started).toEqual([text]);
  });

  test.each(["", "1e5", "12345678901234567890", "true", "null", `{"orderId":"o-1"}`, `["o-1"]`, `"${"x".repeat(129)}"`, `"\\ud800"`])(
    "%j names no order: dropped and logged with its message id, the others go on",
    async (text) => {
      const { storage, worker, log, host } = await startHost(() => DONE, { texts: [text, ...wakeUps("o-2")] });
      await settle();

      expect(worker.started).toEqual(["o-2"]);
      expect(storage.messages()).toEqual([]);
      expect(log).toEqual([
        {
          level: "error",
          message: expect.any(String),
          fields: { messageId: expect.stringMatching(/^message-/), error: expect.stringContaining("invalid-order-id") },
        },
      ]);
      expect(host.status()).toMatchObject({ state: "running", received: 2 });
    },
  );

  test("one that can't be dropped either is tried again later", async () => {
    const { storage, clock, worker } = await startHost(() => DONE, { texts: ["1e5"], onCall: failing("unavailable", "delete") });
    await settle();
    storage.onCall = undefined;
    expect(storage.messages()).toHaveLength(1);
    await clock.advance(35_000);

    expect(storage.messages()).toEqual([]);
    expect(worker.started).toEqual([]);
  });
});

describe("rounds that fail", () => {
  test("handle() throws: hidden for a growing time with jitter, 1 s to 60 s; never poison, never dropped", async () => {
    const { storage, clock, worker, log } = await startHost(() => Promise.reject(new OutboxError("unavailable", "storage is down")), {
      texts: wakeUps("o-1"),
      random: () => 0.999_999,
      pollMaxMs: 100,
    });
    for (let dequeues = 1; dequeues <= 20; dequeues++) {
      await settle();
      const [message] = storage.messages();
      expect(message).toMatchObject({ text: '"o-1"', dequeueCount: dequeues });
      await clock.advance(message!.hiddenForMs + 100);
    }
    const waits = log.map(({ fields }) => fields["retryInMs"]);
    expect(waits.slice(0, 7)).toEqual([2_000, 4_000, 8_000, 16_000, 32_000, 60_000, 60_000]);
    expect(Math.max(...waits.map(Number))).toBe(60_000);
    expect(log.every(({ level, fields }) => level === "error" && fields["orderId"] === "o-1")).toBe(true);

    worker.round = () => DONE;
    await clock.advance(61_000);
    expect(storage.messages()).toEqual([]);
  });

  test("the shortest such time is 1 s, whatever the dice say", async () => {
    const { storage } = await startHost(() => Promise.reject(new Error("?")), { texts: wakeUps("o-1"), random: () => 0 });
    await settle();

    expect(storage.messages()[0]!.hiddenForMs).toBe(1_000);
  });

  test.each([{ thrown: undefined }, { thrown: "text" }, { thrown: null }, { thrown: new TypeError("x is not a function") }])(
    "whatever is thrown ($thrown), the host goes on with the other orders (G4)",
    async ({ thrown }) => {
      const { worker, host } = await startHost(
        (orderId) => {
          if (orderId === "o-1") throw thrown;
          return DONE;
        },
        { texts: wakeUps("o-1", "o-2", "o-3"), concurrency: 1 },
      );
      await settle();

      expect(worker.started).toEqual(["o-1", "o-2", "o-3"]);
      expect(host.status()).toMatchObject({ state: "running", inFlight: 0 });
    },
  );

  test("a slow order delays no other one (G4)", async () => {
    const { worker } = await startHost((orderId) => (orderId === "slow" ? new Promise<never>(() => {}) : DONE), {
      texts: wakeUps("slow", "o-2", "o-3"),
    });
    await settle();

    expect(worker.started).toEqual(["slow", "o-2", "o-3"]);
  });
});

describe("options", () => {
  test.each([
    { concurrency: 0 },
    { concurrency: 257 },
    { concurrency: 1.5 },
    { visibilityMs: 9_999 },
    { visibilityMs: 3_600_001 },
    { pollMinMs: 9 },
    { pollMinMs: 200, pollMaxMs: 199 },
    { pollMaxMs: 60_001 },
    { stopGraceMs: -1 },
    { abortGraceMs: Number.NaN },
  ])("%o is refused", (options) => {
    const { wakeUps: queue } = createMemoryStorage();
    expect(() => startWorkerHost({ worker: new FakeWorker(() => DONE), wakeUps: queue, ...options })).toThrow(
      expect.objectContaining({ code: "invalid-option", message: expect.stringContaining(Object.keys(options).at(-1)!) as unknown }),
    );
  });
});
