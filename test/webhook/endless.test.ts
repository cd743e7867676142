/** Receivers that never finish, at every stage of an attempt (C21). Deadlines run by a manual clock. */
import { spawn } from "node:child_process";
import { once } from "node:events";
import { connect, type LookupFunction, type Socket } from "node:net";
import { describe, expect, test } from "vitest";
import { RetryableError } from "../../src/core/retry.ts";
import { Connections } from "../../src/webhook/connections.ts";
import { ManualClock, settle } from "../support/manual-clock.ts";
import { deliver, eventOf, failureOf, loopbackLookup, startRaw, startReceiver, until, webhookTo } from "./webhook-support.ts";

const TIMEOUT_MS = 60_000;
const HUGE = 50_000_000;
/** What the buffers of two sockets may swallow of an answer that is not read. */
const SWALLOWED = 20_000_000;

/** Delivers, turns the clock by the whole deadline once `stuck` is true, and returns the failure. */
async function outOfTime(url: string, stuck: () => boolean, options: { event?: ReturnType<typeof eventOf>; lookup?: LookupFunction } = {}) {
  const clock = new ManualClock();
  const webhook = webhookTo(url, { timeoutMs: TIMEOUT_MS }, { clock, ...(options.lookup ? { lookup: options.lookup } : {}) });
  const failure = failureOf(deliver(webhook, options.event));
  await until(stuck);
  expect(clock.pending()).toBe(1);
  await clock.advance(TIMEOUT_MS - 1);
  expect(clock.pending()).toBe(1);
  await clock.advance(1);
  const error = await failure;
  expect(clock.pending()).toBe(0);
  return error;
}

function hasNotAnswered(origin: string): object {
  return { name: "RetryableError", message: `${origin} has not answered within ${TIMEOUT_MS} ms` };
}

describe("C21: one deadline over every stage", () => {
  test("lookup", async () => {
    let asked = 0;
    const lookup: LookupFunction = () => void (asked += 1);
    expect(await outOfTime("https://partner.example/", () => asked > 0, { lookup })).toMatchObject(
      hasNotAnswered("https://partner.example"),
    );
  });

  test("connect: the receiver's process is frozen and its queue of connections is full", async () => {
    const script =
      "const s = require('node:net').createServer().listen({port:0,host:'127.0.0.1',backlog:1},()=>console.log(s.address().port))";
    const frozen = spawn(process.execPath, ["-e", script], { stdio: ["ignore", "pipe", "inherit"] });
    const fillers: Socket[] = [];
    try {
      const [line] = (await once(frozen.stdout, "data")) as [Buffer];
      const port = Number(line);
      frozen.kill("SIGSTOP");
      for (let filler = 0; filler < 8; filler++) fillers.push(connect(port, "127.0.0.1").on("error", () => {}));
      await once(fillers[0]!, "connect");
      const failure = await outOfTime(`http://127.0.0.1:${port}/`, () => true);
      expect(failure).toMatchObject(hasNotAnswered(`http://127.0.0.1:${port}`));
    } finally {
      for (const filler of fillers) filler.destroy();
      frozen.kill("SIGKILL");
      await once(frozen, "exit");
    }
  });

  test("TLS handshake", async () => {
    let hello = 0;
    const receiver = await startRaw((socket) => void socket.on("data", ({ length }) => void (hello += length)));
    const origin = `https://receiver.example:${receiver.port}`;
    expect(await outOfTime(`${origin}/`, () => hello > 0, { lookup: loopbackLookup })).toMatchObject(hasNotAnswered(origin));
    await until(() => receiver.open().size === 0);
  });

  test("sending: nobody reads the request", async () => {
    const receiver = await startRaw((socket) => void socket.pause());
    const origin = `http://127.0.0.1:${receiver.port}`;
    const event = eventOf(JSON.stringify("x".repeat(12_000_000)));
    expect(await outOfTime(`${origin}/`, () => receiver.opened() > 0, { event })).toMatchObject(hasNotAnswered(origin));
    expect(receiver.opened()).toBe(1);
  });

  test.each([
    ["(a) accept, never answer", ""],
    ["in the middle of the status line", "HTTP/1.1 20"],
    ["in the middle of the headers", "HTTP/1.1 200 OK\r\ncontent-length: 2\r\nx-slow: "],
    ["after early hints", "HTTP/1.1 103 Early Hints\r\nlink: </a>\r\n\r\n"],
  ])("headers: %s", async (_name, bytes) => {
    let asked = 0;
    const receiver = await startRaw((socket) => {
      socket.write(bytes);
      socket.on("data", () => void (asked += 1));
    });
    const origin = `http://127.0.0.1:${receiver.port}`;
    expect(await outOfTime(`${origin}/`, () => asked > 0)).toMatchObject(hasNotAnswered(origin));
    await until(() => receiver.open().size === 0);
  });

  test("waiting for the answers of others does not make it longer, and they don't wait for it", async () => {
    const receiver = await startReceiver((response, { headers }) => {
      if (headers["x-kind"] !== "slow") response.writeHead(204).end();
    });
    const clock = new ManualClock();
    const slow = failureOf(deliver(webhookTo(receiver.url, { headers: { "x-kind": "slow" }, timeoutMs: TIMEOUT_MS }, { clock })));
    await until(() => receiver.received.length === 1);
    const quick = webhookTo(receiver.url, {}, { clock });
    for (let call = 0; call < 3; call++) await deliver(quick);
    await clock.advance(TIMEOUT_MS);
    expect(await slow).toBeInstanceOf(RetryableError);
  });
});

describe("C21: the status decides, the body is bounded", () => {
  const head = (status: number): string => `HTTP/1.1 ${status} X\r\ncontent-type: text/html\r\ntransfer-encoding: chunked\r\n\r\n`;
  const drip = (status: number) => (socket: Socket) => {
    socket.on("error", () => {});
    socket.once("data", () => {
      socket.write(head(status));
      const timer = setInterval(() => socket.write("1\r\nx\r\n"), 50);
      socket.once("close", () => clearInterval(timer));
    });
  };
  const hang = (status: number) => (socket: Socket) => {
    socket.once("data", () => socket.write(`HTTP/1.1 ${status} X\r\ncontent-length: 100\r\n\r\nhalf`));
  };

  test.each([
    ["(b) 200, then one byte every 50 ms for ever", drip(200), undefined],
    ["500, then one byte every 50 ms for ever", drip(500), /answered 500/],
    ["200 and a body that stops in the middle", hang(200), undefined],
    ["500 and a body that stops in the middle", hang(500), /answered 500: half$/],
  ])("%s: a second later it is over", async (_name, onConnection, expected) => {
    const receiver = await startRaw(onConnection);
    const clock = new ManualClock();
    const outcome = deliver(webhookTo(`http://127.0.0.1:${receiver.port}/`, {}, { clock })).then(
      () => undefined,
      (error: unknown) => error as Error,
    );
    // The deadline, and the wait for the body that begins with the status.
    await until(() => clock.pending() === 2);
    await clock.advance(1_000);
    const failure = await outcome;
    if (expected === undefined) expect(failure).toBeUndefined();
    else expect(failure).toMatchObject({ name: "RetryableError", message: expect.stringMatching(expected) });
    expect(clock.pending()).toBe(0);
    await until(() => receiver.open().size === 0);
  });

  test.each([
    ["(c) 200", 200],
    ["(d) 500", 500],
  ])("%s with 50 MB: little of it is taken, its connection ends", async (_name, status) => {
    let written = 0;
    const receiver = await startRaw((socket) => {
      socket.once("data", () => {
        socket.write(`HTTP/1.1 ${status} X\r\ncontent-length: ${HUGE}\r\n\r\n`);
        const chunk = Buffer.alloc(100_000, "<p>sorry</p>");
        const more = (): void => {
          while (written < HUGE && !socket.destroyed) {
            written += chunk.length;
            if (!socket.write(chunk)) return void socket.once("drain", more);
          }
        };
        more();
      });
    });
    // The clock stands still: nothing here waits for a deadline.
    const delivery = deliver(webhookTo(`http://127.0.0.1:${receiver.port}/`, {}, { clock: new ManualClock() }));
    if (status === 200) await delivery;
    else expect((await failureOf(delivery)).message).toMatch(/answered 500: (?:<p>sorry<\/p>){16}<p>sorry…$/);
    await until(() => receiver.open().size === 0);
    expect(written).toBeLessThan(SWALLOWED);
    // Nor is it made again on nobody's behalf.
    await settle();
    expect(receiver.opened()).toBe(1);
  });

  test("(e) reset after the whole request was taken: a failed attempt, delivered twice with the same id", async () => {
    const receiver = await startReceiver((response, _request, index) => {
      if (index === 0) response.socket?.resetAndDestroy();
      else response.writeHead(200).end();
    });
    const webhook = webhookTo(receiver.url);
    const event = eventOf();
    const failure = await failureOf(deliver(webhook, event));
    expect(failure).toMatchObject({ name: "RetryableError", message: expect.stringContaining("(ECONNRESET)") });
    await deliver(webhook, event);
    expect(receiver.received.map(({ headers, body }) => [headers["webhook-id"], body.toString()])).toEqual([
      [event.id, event.text],
      [event.id, event.text],
    ]);
  });
});

describe("kept connections", () => {
  test("closed by the receiver between two calls: the next call makes a new one", async () => {
    const receiver = await startReceiver();
    const webhook = webhookTo(receiver.url);
    await deliver(webhook);
    for (const socket of receiver.open()) socket.end();
    await until(() => receiver.open().size === 0);
    await deliver(webhook);
    expect([receiver.received.length, receiver.opened()]).toEqual([2, 2]);
  });

  test("closed by the receiver while the next request is on its way: a failed attempt, sent once, and no event is lost", async () => {
    const receiver = await startReceiver((response, _request, index) => {
      if (index === 1) response.socket?.end();
      else response.writeHead(204).end();
    });
    const webhook = webhookTo(receiver.url);
    await deliver(webhook);
    expect(await failureOf(deliver(webhook))).toBeInstanceOf(RetryableError);
    expect([receiver.received.length, receiver.opened()]).toEqual([2, 1]);
    await deliver(webhook);
    expect([receiver.received.length, receiver.opened()]).toEqual([3, 2]);
  });
});

test("a connection that was ended while its answer came in is not kept, one in order is", async () => {
  const connections = new Connections("http://127.0.0.1:9", {
    allowPrivateAddresses: true,
    optIn: "-",
    lookup: loopbackLookup,
    ca: undefined,
  });
  const ended = connections.take();
  await ended.end();
  connections.keep(ended);
  const next = connections.take();
  expect(next).not.toBe(ended);
  connections.keep(next);
  expect(connections.take()).toBe(next);
  await connections.close();
});

describe("a closed webhook", () => {
  test("ends its calls and takes no more; both are failed attempts that may be made elsewhere", async () => {
    const receiver = await startRaw((socket) => void socket.resume());
    const clock = new ManualClock();
    const webhook = webhookTo(`http://127.0.0.1:${receiver.port}/`, {}, { clock });
    const failure = failureOf(deliver(webhook));
    await until(() => receiver.opened() > 0);
    await webhook[Symbol.asyncDispose]();
    expect(await failure).toBeInstanceOf(RetryableError);
    expect(await failureOf(deliver(webhook))).toHaveProperty("message", "the webhook is closed");
    expect(clock.pending()).toBe(0);
    await until(() => receiver.open().size === 0);
  });
});

describe("the worker's signal", () => {
  test("ends an attempt with its own reason, and the connection with it", async () => {
    const receiver = await startRaw((socket) => void socket.resume());
    const clock = new ManualClock();
    const stop = new AbortController();
    const failure = failureOf(deliver(webhookTo(`http://127.0.0.1:${receiver.port}/`, {}, { clock }), eventOf(), stop.signal));
    await until(() => receiver.opened() > 0);
    const reason = new Error("the lease is lost");
    stop.abort(reason);
    expect(await failure).toBe(reason);
    expect(clock.pending()).toBe(0);
    await until(() => receiver.open().size === 0);
  });

  test("aborted before the attempt: nothing is sent", async () => {
    const receiver = await startReceiver();
    const reason = new Error("stopping");
    expect(await failureOf(deliver(webhookTo(receiver.url), eventOf(), AbortSignal.abort(reason)))).toBe(reason);
    expect(receiver.opened()).toBe(0);
  });
});
