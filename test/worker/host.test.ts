import { afterEach, describe, expect, test } from "vitest";
import { OutboxError } from "../../src/core/errors.ts";
import type { LogFields, Logger } from "../../src/core/logger.ts";
import { parseOrderId, type OrderId } from "../../src/core/order-id.ts";
import type { WakeUpQueue } from "../../src/core/ports.ts";
import { encodeWakeUp } from "../../src/core/wake-up.ts";
import type { WorkerHostOptions } from "../../src/worker/host-options.ts";
import { startWorkerHost, type WorkerHost } from "../../src/worker/host.ts";
import type { RoundResult, Worker } from "../../src/worker/round-result.ts";
import { ManualClock, settle } from "../support/manual-clock.ts";
import { createMemoryStorage, type MemoryStorage, type PortCall } from "../support/memory-storage.ts";

const DONE: RoundResult = { status: "done", retryInMs: 0, handled: 1, problems: [] };
const JOINED: RoundResult = { status: "joined", retryInMs: 0, handled: 0, problems: [] };
const taken = (retryInMs: number): RoundResult => ({ status: "taken", retryInMs, handled: 0, problems: [] });
const left = (retryInMs: number): RoundResult => ({ status: "left", retryInMs, handled: 0, problems: ["mail: E1 failed"] });

type Round = (orderId: string, signal: AbortSignal) => RoundResult | Promise<RoundResult>;

/** Answers every round as it is told and counts what runs. */
class FakeWorker implements Worker {
  round: Round;
  readonly started: string[] = [];
  running = 0;
  mostRunning = 0;
  stopped = false;

  constructor(round: Round) {
    this.round = round;
  }

  async handle(orderId: string, options: { readonly signal?: AbortSignal } = {}): Promise<RoundResult> {
    this.started.push(orderId);
    this.running += 1;
    this.mostRunning = Math.max(this.mostRunning, this.running);
    try {
      return await this.round(orderId, options.signal!);
    } finally {
      this.running -= 1;
    }
  }

  stopStarting(): void {
    this.stopped = true;
  }
}

interface Entry {
  readonly level: keyof Logger;
  readonly message: string;
  readonly fields: LogFields;
}

function recordingLogger(entries: Entry[]): Logger {
  const at =
    (level: keyof Logger) =>
    (message: string, fields: LogFields = {}): void =>
      void entries.push({ level, message, fields });
  return { debug: at("debug"), info: at("info"), warn: at("warn"), error: at("error") };
}

interface Setup {
  readonly clock: ManualClock;
  readonly storage: MemoryStorage;
  readonly worker: FakeWorker;
  readonly host: WorkerHost;
  readonly log: readonly Entry[];
}

const started: Array<{ readonly host: WorkerHost; readonly clock: ManualClock }> = [];

/** A host on a memory queue that holds `texts` already; nothing has been received yet. */
async function start(
  round: Round,
  {
    texts = [],
    queue = (real) => real,
    onCall,
    ...options
  }: Partial<WorkerHostOptions> & {
    readonly texts?: readonly string[];
    readonly queue?: (real: WakeUpQueue) => WakeUpQueue;
    readonly onCall?: MemoryStorage["onCall"];
  } = {},
): Promise<Setup> {
  const clock = new ManualClock();
  const storage = createMemoryStorage(clock);
  for (const text of texts) await storage.wakeUps.send(text, 0);
  storage.forgetCalls();
  storage.onCall = onCall;
  const worker = new FakeWorker(round);
  const log: Entry[] = [];
  const host = startWorkerHost({
    worker,
    wakeUps: queue(storage.wakeUps),
    clock,
    random: () => 0.5,
    logger: recordingLogger(log),
    ...options,
  });
  started.push({ host, clock });
  return { clock, storage, worker, host, log };
}

/** Whatever a test did: a stopped host leaves no timer behind. */
afterEach(async () => {
  for (const { host, clock } of started.splice(0)) {
    const stopped = host.stop({ abortNow: true });
    await clock.advance(600_000);
    await stopped;
    expect(clock.pending()).toBe(0);
  }
});

function wakeUps(...orderIds: readonly string[]): string[] {
  return orderIds.map((orderId) => encodeWakeUp(parseOrderId(orderId)));
}

function methods(storage: MemoryStorage, method: string): readonly PortCall[] {
  return storage.calls.filter((call) => call.port === "wakeUps" && call.method === method);
}

/** Throws for every call of these queue methods. */
function failing(code: "unavailable" | "not-found" | "forbidden", ...names: readonly string[]): MemoryStorage["onCall"] {
  return ({ port, method }) => {
    if (port === "wakeUps" && names.includes(method)) throw new OutboxError(code, `${method} failed`);
  };
}

describe("what becomes of a wake-up", () => {
  test.each([DONE, JOINED])("$status: it is used up", async (result) => {
    const { storage, host } = await start(() => result, { texts: wakeUps("o-1", "o-2") });
    await settle();

    expect(storage.messages()).toEqual([]);
    expect(storage.callCounts()).toMatchObject({ "wakeUps.delete": 2 });
    expect(host.status()).toMatchObject({ state: "running", inFlight: 0, received: 2, handled: 2 * result.handled });
  });

  test.each([
    { name: "taken", result: taken(30_000), hiddenForMs: 30_000 },
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
    const { storage } = await start(() => result, { texts });
    await settle();

    expect(storage.messages()).toEqual([{ text: texts[0], hiddenForMs, dequeueCount: 1 }]);
  });

  test("it comes back when its time has come, and is used up once the order is done", async () => {
    const { storage, clock, worker } = await start(() => left(20_000), { texts: wakeUps("o-1") });
    await settle();
    worker.round = () => DONE;
    await clock.advance(26_000);

    expect(worker.started).toEqual(["o-1", "o-1"]);
    expect(storage.messages()).toEqual([]);
  });

  test("problems of a round are logged with the order", async () => {
    const { log } = await start(() => left(20_000), { texts: wakeUps("o-1") });
    await settle();

    expect(log).toEqual([
      { level: "warn", message: expect.any(String), fields: { orderId: "o-1", status: "left", problems: 1, first: "mail: E1 failed" } },
    ]);
  });

  test("a delete that finds nothing is no error, one that fails is a warning: the message comes back and finds nothing to do (C33)", async () => {
    const { storage, clock, worker, log } = await start(() => DONE, {
      texts: wakeUps("o-1"),
      queue: (real) => ({ ...real, delete: async () => false }),
    });
    await settle();
    expect(log).toEqual([]);

    const failed = await start(() => DONE, { texts: wakeUps("o-1"), onCall: failing("unavailable", "delete") });
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

describe("many wake-ups for one contended order (C10, W6)", () => {
  const THIRTY = wakeUps(...Array.from({ length: 30 }, () => "o-1"));

  test("30 wake-ups leave one hidden copy, which hops alone: no busy loop, no poison", async () => {
    const { storage, clock, worker, log } = await start(() => taken(30_000), { texts: THIRTY });
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
    const { storage } = await start((orderId) => (orderId === "o-1" ? taken(30_000) : left(40_000)), {
      texts: [...THIRTY, ...wakeUps("o-10")],
    });
    await settle();

    expect(storage.messages().map(({ text }) => text)).toEqual(['"o-1"', '"o-10"']);
  });

  test("one that has to come sooner is kept beside the later one", async () => {
    let retryInMs = 60_000;
    const { storage } = await start(() => taken((retryInMs /= 2)), { texts: wakeUps("o-1", "o-1"), concurrency: 1 });
    await settle();

    expect(storage.messages().map(({ hiddenForMs }) => hiddenForMs)).toEqual([15_000, 30_000]);
  });

  test("the hidden copy that comes back before its time is not given up for itself", async () => {
    const early = (real: WakeUpQueue): WakeUpQueue => ({ ...real, hide: (receipt, text) => real.hide(receipt, text, 1_000) });
    const { storage, clock, worker } = await start(() => taken(60_000), { texts: wakeUps("o-1"), queue: early });
    await clock.advance(20_000);

    expect(worker.started.length).toBeGreaterThan(2);
    expect(storage.messages()).toHaveLength(1);
    expect(methods(storage, "delete")).toEqual([]);
  });

  test("a copy counts only once the queue has taken it: if hiding fails, the next one is hidden in its place", async () => {
    let failures = 0;
    const { storage } = await start(() => taken(30_000), {
      texts: wakeUps("o-1", "o-1", "o-1"),
      onCall: ({ method }) => {
        if (method === "hide" && failures++ === 0) throw new OutboxError("unavailable", "hide failed");
      },
    });
    await settle();

    expect(methods(storage, "hide")).toHaveLength(2);
    expect(methods(storage, "delete")).toHaveLength(1);
    // The first is still hidden by its receipt and comes back then.
    expect(storage.messages().map(({ hiddenForMs }) => hiddenForMs)).toEqual([30_000, 30_000]);
  });

  test("a copy that is due no longer stands in for a new one", async () => {
    const { storage, clock } = await start(() => taken(5_000), { texts: wakeUps("o-1"), pollMinMs: 20_000, pollMaxMs: 20_000 });
    await settle();
    await clock.advance(10_000);
    await storage.wakeUps.send('"o-1"', 0);
    await clock.advance(10_000);

    // The new one and the due one arrive together; one of them is kept.
    expect(storage.messages()).toEqual([{ text: '"o-1"', hiddenForMs: 5_000, dequeueCount: expect.any(Number) }]);
  });
});

describe("texts of wake-ups (C23)", () => {
  const IDS = ["o-1", "abcd", "1234", "12345678901234567890", "1e5", "é📦", `<a>&"`, "x".repeat(128), "📦".repeat(64), "a\r\nb\u0001", " "];

  test.each(IDS)("%j wakes the right order", async (orderId) => {
    const { worker } = await start(() => DONE, { texts: wakeUps(orderId) });
    await settle();

    expect(worker.started).toEqual([orderId]);
  });

  test.each(["o-1", "abcd", "1234", "0012"])("a bare %s of another producer wakes the right order", async (text) => {
    const { worker } = await start(() => DONE, { texts: [text] });
    await settle();

    expect(worker.started).toEqual([text]);
  });

  test.each(["", "1e5", "12345678901234567890", "true", "null", `{"orderId":"o-1"}`, `["o-1"]`, `"${"x".repeat(129)}"`, `"\\ud800"`])(
    "%j names no order: dropped and logged with its message id, the others go on",
    async (text) => {
      const { storage, worker, log, host } = await start(() => DONE, { texts: [text, ...wakeUps("o-2")] });
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
    const { storage, clock, worker } = await start(() => DONE, { texts: ["1e5"], onCall: failing("unavailable", "delete") });
    await settle();
    storage.onCall = undefined;
    expect(storage.messages()).toHaveLength(1);
    await clock.advance(35_000);

    expect(storage.messages()).toEqual([]);
    expect(worker.started).toEqual([]);
  });
});

describe("a wake-up in the hands of a round (C33)", () => {
  test("it stays hidden from others through a round of 5 minutes and is deleted with the newest receipt", async () => {
    const round = Promise.withResolvers<RoundResult>();
    const { storage, clock, worker } = await start(() => round.promise, { texts: wakeUps("o-1"), visibilityMs: 30_000 });
    for (let second = 0; second < 300; second++) {
      await clock.advance(1_000);
      expect(await storage.wakeUps.receive(32, 1_000)).toEqual([]);
    }
    expect(methods(storage, "hide")).toHaveLength(30);
    expect(worker.started).toEqual(["o-1"]);

    round.resolve(DONE);
    await settle();
    expect(storage.messages()).toEqual([]);
    expect(methods(storage, "delete")).toHaveLength(1);
  });

  test("a renewal still under way at the end of the round is waited for: its receipt is the one that counts", async () => {
    const round = Promise.withResolvers<RoundResult>();
    const answer = Promise.withResolvers<void>();
    const { storage, clock } = await start(() => round.promise, { texts: wakeUps("o-1") });
    storage.onCall = ({ method }) => (method === "hide" ? { after: () => answer.promise } : undefined);
    await clock.advance(10_000);
    round.resolve(DONE);
    await settle();
    expect(methods(storage, "hide")).toHaveLength(1);
    expect(methods(storage, "delete")).toEqual([]);

    answer.resolve();
    await settle();
    expect(storage.messages()).toEqual([]);
  });

  test("somebody else has it by now: the round goes on, the message is left alone", async () => {
    const round = Promise.withResolvers<RoundResult>();
    let signal: AbortSignal | undefined;
    const { storage, clock, host } = await start((_orderId, given) => ((signal = given), round.promise), { texts: wakeUps("o-1") });
    await settle();
    clock.skipMonotonic(30_001); // A frozen process: its timers fire late.
    const [stolen] = await storage.wakeUps.receive(1, 3_600_000);
    expect(stolen).toMatchObject({ text: '"o-1"', dequeueCount: 2 });
    await clock.advance(120_000);

    expect(methods(storage, "hide")).toHaveLength(1);
    expect(host.status().inFlight).toBe(1);
    expect(signal!.aborted).toBe(false);

    round.resolve(DONE);
    await settle();
    expect(methods(storage, "delete")).toEqual([]);
    expect(await storage.wakeUps.delete(stolen!.receipt)).toBe(true);
  });

  test("a renewal that fails otherwise is repeated at the next third, in time", async () => {
    const round = Promise.withResolvers<RoundResult>();
    const { storage, clock, worker, log } = await start(() => round.promise, { texts: wakeUps("o-1") });
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

  test("a renewal whose answer is lost costs a repeated round at worst, never the wake-up", async () => {
    const round = Promise.withResolvers<RoundResult>();
    const { storage, clock, worker } = await start(() => round.promise, { texts: wakeUps("o-1") });
    await settle();
    storage.onCall = ({ method }) => (method === "hide" ? "lose-response" : undefined);
    await clock.advance(10_000);
    storage.onCall = undefined;
    await clock.advance(10_000);
    round.resolve(left(5_000));
    await settle();
    expect(storage.messages()).toHaveLength(1);
    worker.round = () => DONE;
    await clock.advance(30_000);

    expect(worker.started).toEqual(["o-1", "o-1"]);
    expect(storage.messages()).toEqual([]);
  });

  test.each([
    { result: DONE, messages: 0 },
    { result: left(20_000), messages: 1 },
  ])("the same wake-up delivered twice joins nothing and loses nothing: the round ends $result.status", async ({ result, messages }) => {
    const round = Promise.withResolvers<RoundResult>();
    const { storage, clock, worker, host } = await start(() => round.promise, { texts: wakeUps("o-1") });
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

describe("rounds that fail", () => {
  test("handle() throws: hidden for a growing time with jitter, 1 s to 60 s; never poison, never dropped", async () => {
    const { storage, clock, worker, log } = await start(() => Promise.reject(new OutboxError("unavailable", "storage is down")), {
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
    const { storage } = await start(() => Promise.reject(new Error("?")), { texts: wakeUps("o-1"), random: () => 0 });
    await settle();

    expect(storage.messages()[0]!.hiddenForMs).toBe(1_000);
  });

  test.each([{ thrown: undefined }, { thrown: "text" }, { thrown: null }, { thrown: new TypeError("x is not a function") }])(
    "whatever is thrown ($thrown), also before the first await, the host goes on with the other orders (G4)",
    async ({ thrown }) => {
      const { worker, host } = await start(
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
    const { worker } = await start((orderId) => (orderId === "slow" ? new Promise<never>(() => {}) : DONE), {
      texts: wakeUps("slow", "o-2", "o-3"),
    });
    await settle();

    expect(worker.started).toEqual(["slow", "o-2", "o-3"]);
  });
});

describe("the poll loop", () => {
  test("never more orders in flight than allowed, and no more received than can start (H1)", async () => {
    const rounds: Array<() => void> = [];
    const orders = Array.from({ length: 40 }, (_, index) => `o-${index}`);
    const { storage, clock, worker, host } = await start(() => new Promise((resolve) => rounds.push(() => resolve(DONE))), {
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
    expect(Math.max(...methods(storage, "receive").map(({ args }) => Number(args[0])))).toBe(3);
    expect(clock.monotonic()).toBe(0);
  });

  test("asks for 32 messages at most", async () => {
    const { storage, worker } = await start(() => DONE, {
      texts: wakeUps(...Array.from({ length: 100 }, (_, index) => `o-${index}`)),
      concurrency: 256,
    });
    await settle();

    expect(new Set(methods(storage, "receive").map(({ args }) => args[0]))).toEqual(new Set([32]));
    expect(worker.started).toHaveLength(100);
  });

  test.each([
    { random: 0, gaps: [100, 100, 100, 100, 100, 100, 100, 100] },
    { random: 0.5, gaps: [150, 250, 450, 850, 1_650, 2_550, 2_550, 2_550] },
    { random: 0.999_999, gaps: [200, 400, 800, 1_600, 3_200, 5_000, 5_000, 5_000] },
  ])("an empty queue is asked in growing pauses, between pollMinMs and pollMaxMs (dice $random)", async ({ random, gaps }) => {
    const { storage, clock } = await start(() => DONE, { random: () => random });
    await settle();
    for (const [index, gap] of gaps.entries()) {
      expect(methods(storage, "receive")).toHaveLength(index + 1);
      await clock.advance(gap - 1);
      expect(methods(storage, "receive")).toHaveLength(index + 1);
      await clock.advance(1);
    }
  });

  test("any message makes the pauses short again", async () => {
    const { storage, clock, worker } = await start(() => DONE);
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
    const { storage, clock, host, worker } = await start(() => round.promise, { texts: wakeUps("o-1", "o-2"), concurrency: 1 });
    for (let second = 0; second < 600; second++) {
      await clock.advance(1_000);
      expect(host.status().sinceLastPollMs).toBeLessThanOrEqual(5_000);
    }
    expect(methods(storage, "receive")).toHaveLength(1);
    expect(host.status().lastPollAt).toBe(clock.now() - host.status().sinceLastPollMs);

    round.resolve(DONE);
    await settle();
    expect(worker.started).toEqual(["o-1", "o-2"]); // At once, not at the next look.
  });

  test("C33 the queue is down for 20 s while 10 wake-ups arrive: logged once, few calls, recovers by itself, all are handled", async () => {
    const { storage, clock, worker, host, log } = await start(() => DONE);
    await settle();
    storage.forgetCalls();
    storage.onCall = failing("unavailable", "receive", "hide", "delete");
    for (let arrived = 0; arrived < 10; arrived++) {
      await storage.wakeUps.send(encodeWakeUp(`o-${arrived}` as OrderId), 0);
      await clock.advance(2_000);
      expect(host.status().sinceLastPollMs).toBeLessThanOrEqual(30_000);
    }
    expect(methods(storage, "receive").length).toBeLessThan(10);
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
    const { storage, clock, worker, log } = await start(() => DONE, { random: () => 0.999_999 });
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
    const { storage, clock, worker } = await start(() => left(2_000), {
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

describe("stop in two stages (C32)", () => {
  test("1: nothing new is received or started, a running handler finishes, its wake-up is deleted", async () => {
    const round = Promise.withResolvers<RoundResult>();
    let signal: AbortSignal | undefined;
    const { storage, clock, worker, host } = await start((_orderId, given) => ((signal = given), round.promise), { texts: wakeUps("o-1") });
    await settle();
    storage.forgetCalls();
    const stopped = host.stop();
    await storage.wakeUps.send('"o-2"', 0);
    await clock.advance(24_000);
    expect(worker.stopped).toBe(true);
    expect(signal!.aborted).toBe(false);
    expect(host.status()).toMatchObject({ state: "stopping", inFlight: 1 });
    expect(methods(storage, "hide")).toHaveLength(2); // Its message is still renewed.

    round.resolve(DONE);
    expect(await stopped).toEqual({ aborted: 0, left: [] });
    expect(host.status()).toMatchObject({ state: "stopped", inFlight: 0, handled: 1 });
    expect(methods(storage, "receive")).toEqual([]);
    expect(storage.messages().map(({ text }) => text)).toEqual(['"o-2"']);
    expect(clock.pending()).toBe(0);
  });

  test("2: a handler that honours the abort signal ends, its wake-up is given back", async () => {
    const honours: Round = (_orderId, signal) => new Promise((resolve) => signal.addEventListener("abort", () => resolve(left(0))));
    const { storage, clock, host } = await start(honours, { texts: wakeUps("o-1") });
    await settle();
    const stopped = host.stop();
    await clock.advance(25_000);

    expect(await stopped).toEqual({ aborted: 1, left: [] });
    expect(storage.messages()).toEqual([{ text: '"o-1"', hiddenForMs: 1_000, dequeueCount: 1 }]);
    expect(clock.pending()).toBe(0);
  });

  test("2: a round that throws because of the signal is no error for the log", async () => {
    const throws: Round = (_orderId, signal) =>
      new Promise((_resolve, reject) => signal.addEventListener("abort", () => reject(signal.reason as Error)));
    const { clock, host, log } = await start(throws, { texts: wakeUps("o-1") });
    await settle();
    const stopped = host.stop();
    await clock.advance(25_000);

    expect(await stopped).toEqual({ aborted: 1, left: [] });
    expect(log.map(({ level, fields }) => [level, fields["error"]])).toEqual([["info", "aborted: the worker host stops"]]);
  });

  test("3: one that ignores it is reported and left; its wake-up comes back to others, and nothing is done to it any more", async () => {
    const round = Promise.withResolvers<RoundResult>();
    const { storage, clock, host } = await start((orderId) => (orderId === "stuck" ? round.promise : DONE), {
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
    const honours: Round = (_orderId, signal) => new Promise((resolve) => signal.addEventListener("abort", () => resolve(left(0))));
    const { clock, host } = await start(honours, { texts: wakeUps("o-1") });
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
    const { storage, worker, host } = await start(() => DONE, {
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
    const { clock, host } = await start(() => DONE, { onCall: () => new Promise<never>(() => {}) });
    await settle();
    const stopped = host.stop();
    await clock.advance(30_000);

    expect(await stopped).toEqual({ aborted: 0, left: [] });
  });

  test("an idle host stops at once, also while it waits for a queue that is down; further stops and disposal get the same report", async () => {
    const { clock, host } = await start(() => DONE, { onCall: failing("unavailable", "receive") });
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
