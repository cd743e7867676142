/** What each answer means, against a real server (C13). */
import { gzipSync } from "node:zlib";
import type { ServerResponse } from "node:http";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { decideRetry, RetryableError } from "../../src/core/retry.ts";
import { retryAfterMs } from "../../src/webhook/retry-after.ts";
import { ManualClock } from "../support/manual-clock.ts";
import { deliver, eventOf, failureOf, startRaw, startReceiver, webhookTo } from "./webhook-support.ts";

const DAY = 24 * 60 * 60_000;

describe("C13: redirects are not followed", () => {
  test.each([301, 302, 303, 307, 308])("%i is a failed attempt with its status; the other place gets no request", async (status) => {
    const neighbour = await startReceiver();
    const receiver = await startReceiver((response, { url }) => {
      if (url === "/landed") response.writeHead(200).end();
      else response.writeHead(status, { location: status < 305 ? "/landed" : `${neighbour.url}/landed` }).end();
    });
    const failure = await failureOf(deliver(webhookTo(receiver.url)));
    expect(failure).toMatchObject({
      name: "RetryableError",
      message: `http://127.0.0.1:${receiver.port} answered ${status} (redirects are not followed)`,
    });
    expect(receiver.received.map(({ method, url }) => [method, url])).toEqual([["POST", "/hook"]]);
    expect(neighbour.opened()).toBe(0);
  });
});

describe("statuses", () => {
  test.each([200, 201, 202, 204, 205, 206, 299])("%i: done", async (status) => {
    const receiver = await startReceiver((response) => void response.writeHead(status).end());
    await deliver(webhookTo(receiver.url));
    expect(receiver.received.length).toBe(1);
  });

  test("102 and 103 before the answer are not the answer", async () => {
    const receiver = await startReceiver((response) => {
      response.writeProcessing();
      response.writeEarlyHints({ link: "</style.css>; rel=preload" }, () => response.writeHead(500).end());
    });
    expect((await failureOf(deliver(webhookTo(receiver.url)))).message).toMatch(/answered 500$/);
  });

  test.each([
    ["101, which was not asked for", "HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\nUpgrade: x\r\n\r\n"],
    ["100 without an end", "HTTP/1.1 100 Continue\r\n\r\n"],
    ["no HTTP at all", "SSH-2.0-OpenSSH_9.7\r\n"],
    ["headers without end", `HTTP/1.1 200 OK\r\n${"x-filler: 0123456789\r\n".repeat(10_000)}`],
    ["a connection that ends before the answer", ""],
  ])("%s is a failed attempt", async (_name, bytes) => {
    const receiver = await startRaw((socket) => void socket.once("data", () => socket.end(bytes)));
    expect(await failureOf(deliver(webhookTo(`http://127.0.0.1:${receiver.port}/`)))).toBeInstanceOf(RetryableError);
  });

  test("nobody listens: a failed attempt with its code", async () => {
    const failure = await failureOf(deliver(webhookTo("http://127.0.0.1:9/")));
    expect(failure).toMatchObject({ name: "RetryableError", message: expect.stringContaining("(ECONNREFUSED)") });
  });

  test("410 switches the subscription off, with a reason", async () => {
    const receiver = await startReceiver((response) => void response.writeHead(410).end("moved to a new system\n"));
    const failure = await failureOf(deliver(webhookTo(receiver.url, { clientErrors: "retry" })));
    const reason = `http://127.0.0.1:${receiver.port} answered 410: moved to a new system`;
    expect(failure).toMatchObject({ name: "SubscriptionGoneError", message: reason });
  });

  test.each([408, 425, 429, 500, 501, 502, 503, 504, 599, 999])("%i: tried again", async (status) => {
    const receiver = await startReceiver((response) => void response.writeHead(status).end());
    expect(await failureOf(deliver(webhookTo(receiver.url)))).toMatchObject({ name: "RetryableError", retryAfterMs: 0 });
  });

  test.each([400, 401, 403, 404, 409, 413, 415, 422, 451, 499])("%i: by the policy", async (status) => {
    const receiver = await startReceiver((response) => void response.writeHead(status, { "retry-after": "7" }).end());
    const message = `http://127.0.0.1:${receiver.port} answered ${status}`;
    expect(await failureOf(deliver(webhookTo(receiver.url)))).toMatchObject({ name: "PermanentError", message });
    expect(await failureOf(deliver(webhookTo(receiver.url, { clientErrors: "dead" })))).toMatchObject({ name: "PermanentError", message });
    const again = await failureOf(deliver(webhookTo(receiver.url, { clientErrors: "retry" })));
    expect(again).toMatchObject({ name: "RetryableError", retryAfterMs: 7_000, message });
  });
});

describe("Retry-After", () => {
  const NOW = Date.UTC(2026, 0, 1);
  const zone = process.env["TZ"];

  beforeAll(() => {
    // Not GMT, so that a date without a zone can't be right by chance.
    process.env["TZ"] = "Asia/Tokyo";
  });

  afterAll(() => {
    if (zone === undefined) delete process.env["TZ"];
    else process.env["TZ"] = zone;
  });

  test.each([
    ["seconds", "120", 120_000],
    ["seconds with blanks around", " 5\t", 5_000],
    ["zero", "0", 0],
    ["an HTTP date", "Thu, 01 Jan 2026 00:02:00 GMT", 120_000],
    ["the form of RFC 850", "Thursday, 01-Jan-26 00:02:00 GMT", 120_000],
    ["the form of asctime, which is GMT without saying so", "Thu Jan  1 00:02:00 2026", 120_000],
    ["a date in the past", "Wed, 31 Dec 2025 23:59:59 GMT", 0],
    ["a year", String(365 * 24 * 60 * 60), 7 * DAY],
    ["a date in ten years", "Tue, 01 Jan 2036 00:00:00 GMT", 7 * DAY],
    ["a number of 400 digits", "9".repeat(400), 7 * DAY],
    ["a negative number", "-5", 0],
    ["a fraction", "1.5", 0],
    ["a hexadecimal number", "0x10", 0],
    ["an ISO date, which the header does not have", "2026-01-02T00:00:00Z", 0],
    ["a date of no calendar", "Thu, 45 Jan 2026 00:02:00 GMT", 0],
    ["words with a number that a lenient parser takes for a year", "in 2030", 0],
    ["nothing", "", 0],
    ["no header", undefined, 0],
  ])("%s", (_name, header, expected) => {
    expect(retryAfterMs(header, NOW)).toBe(expected);
  });

  test.each([
    [429, "120", 120_000],
    [503, "Thu, 01 Jan 2026 00:02:00 GMT", 120_000],
    [503, ["30", "60"], 30_000],
  ])("of a %i with %j becomes the wait of the event", async (status, header, expected) => {
    const receiver = await startReceiver((response) => void response.setHeader("retry-after", header).writeHead(status).end());
    const webhook = webhookTo(receiver.url, {}, { clock: new ManualClock(NOW) });
    const failure = await failureOf(deliver(webhook));
    expect(decideRetry(webhook.retry, 1, failure, 0)).toEqual({ kind: "park", delayMs: expected });
  });
});

describe("what operators read of an answer", () => {
  const answered = async (answer: (response: ServerResponse) => void, options: Parameters<typeof webhookTo>[1] = {}, path = "") => {
    const receiver = await startReceiver((response) => answer(response));
    const failure = await failureOf(deliver(webhookTo(`${receiver.url}${path}`, options), eventOf()));
    return failure.message.replace(`http://127.0.0.1:${receiver.port} `, "");
  };

  test("the first 200 characters, with nothing that could forge a line", async () => {
    const text = await answered(
      (response) => void response.writeHead(500).end(`\u001B[2J bad\r\n2026 INFO all is well \u202E${"x".repeat(4_000)}`),
    );
    expect(text).toMatch(/^answered 500: \\u001b\[2J bad\\u000d\\u000a2026 INFO all is well \\u202ex+…$/);
    expect(text.length).toBe("answered 500: ".length + 201);
  });

  test("invalid UTF-8 is no problem", async () => {
    expect(await answered((response) => void response.writeHead(400).end(Buffer.from([0x66, 0xff, 0xfe, 0x6f])))).toBe(
      "answered 400: f\uFFFD\uFFFDo",
    );
  });

  test("a packed answer is not unpacked", async () => {
    const bomb = gzipSync(Buffer.alloc(5_000_000));
    expect(await answered((response) => void response.writeHead(500, { "content-encoding": "gzip" }).end(bomb))).toBe(
      "answered 500: a body in gzip",
    );
    const receiver = await startReceiver((response) => void response.writeHead(200, { "content-encoding": "gzip" }).end(bomb));
    await deliver(webhookTo(receiver.url));
  });

  test("no more than `maxResponseBytes`", async () => {
    const answer = (response: ServerResponse): void => void response.writeHead(500).end("0123456789");
    expect(await answered(answer, { maxResponseBytes: 4 })).toBe("answered 500: 0123");
    expect(await answered(answer, { maxResponseBytes: 0 })).toBe("answered 500");
  });

  test.each([
    ["the path", "Cannot POST /services/T000-B000-XYZ"],
    ["a part of it", "no hook T000-B000-XYZ"],
    ["the query", "Cannot POST /hook/services/T000-B000-XYZ?code=c0de%2Fof-a-function"],
    ["the query as it was written", "bad code c0de%2Fof-a-function"],
    ["the query as it was read", "bad code c0de/of-a-function"],
    ["a header", "unknown: Bearer T0PS3CRET-token"],
    ["a part of it", "unknown token T0PS3CRET-token"],
    ["another header", '{"x-key":"k3y-of-the-partner"}'],
  ])("never a key that a receiver repeats: %s", async (_name, echo) => {
    const text = await answered(
      (response) => void response.writeHead(404).end(echo),
      { headers: { authorization: "Bearer T0PS3CRET-token", "x-key": "k3y-of-the-partner", "x-short": "no" } },
      "/services/T000-B000-XYZ?code=c0de%2Fof-a-function",
    );
    expect(text).toMatch(/^answered 404: .*\[removed\]/);
    expect(text).not.toMatch(/T0PS3CRET|k3y-of|T000-B000|c0de/);
  });

  // As sent: /hook/s3rvices/ab%2Fb-c%3D%3Dd?code=two+w%C3%B6rds+%26+%F0%9F%93%A6, and the header "<K3Y>/"of'them&me.
  test.each([
    ["decoded", "no hook ab/b-c==d here", "no hook [removed] here"],
    ["small letters of escapes", "no hook ab%2fb-c%3d%3dd here", "no hook [removed] here"],
    ["capitals", "NO HOOK AB%2FB-C%3D%3DD HERE", "NO HOOK [removed] HERE"],
    ["escaped once more", "no hook ab%252Fb-c%253d%25253Dd here", "no hook [removed] here"],
    ["more escaped than it was sent", "no hook %41%62%2Fb%2dc%3D%3D%64 here", "no hook [removed] here"],
    [
      "the whole path, in HTML",
      "Cannot POST /hook/s3rvices/ab%2Fb-c%3D%3Dd?code=two+w%C3%B6rds+&amp;+&#x1F4E6;!",
      "Cannot POST [removed]!",
    ],
    ["the whole path, in JSON", '{"path":"\\/hook\\/s3rvices\\/ab%2Fb-c%3D%3Dd"}', '{"path":"\\/hook\\/[removed]\\/[removed]"}'],
    ["a query, decoded", "bad code two wörds & \u{1F4E6}.", "bad code [removed]."],
    ["a query with plus signs for blanks", "bad code two+w%c3%b6rds+%26+%f0%9f%93%a6.", "bad code [removed]."],
    ["a query with escapes for blanks", "bad code two%20w%C3%B6rds%20%26%20%F0%9F%93%A6.", "bad code [removed]."],
    ["a query in HTML", "bad code two w&#246;rds &amp; &#128230;.", "bad code [removed]."],
    ["a query in HTML in HTML", "bad code two w&amp;#246;rds &amp;amp; &amp;#x01f4e6;.", "bad code [removed]."],
    ["a query in JSON", '{"code":"two w\\u00f6rds \\u0026 \\ud83d\\uDCE6"}', '{"code":"[removed]"}'],
    ["a header in other letters", "unknown <k3y>/\"OF'THEM&ME", "unknown [removed]"],
    ["a header in HTML", "unknown &lt;K3Y&gt;&#x2F;&quot;of&#39;them&AMP;me", "unknown [removed]"],
    ["a header in JSON in JSON", "unknown <K3Y>\\/\\\\\\\"of'them&me", "unknown [removed]"],
    ["a header in a URL", "unknown %3CK3Y%3E%2F%22of'them%26me", "unknown [removed]"],
    ["twice, one after the other", "ab/b-c==dab%2Fb-c==d, ab/b-c==d", "[removed][removed], [removed]"],
    ["behind what looks like the beginning of an escape", "100%ab/b-c==d \\ab/b-c==d &#ab/b-c==d", "100%[removed] \\[removed] &#[removed]"],
    ["something else that is escaped", "100%25 &amp; more: a\\/b, two w\u00F6rds, k3y", "100%25 &amp; more: a\\/b, two w\u00F6rds, k3y"],
    ["what is no character", "&#9999999; &#xD800; %C3 %ZZ ab/b-c==d", "&#9999999; &#xD800; %C3 %ZZ [removed]"],
  ])("a key in another spelling: %s", async (_name, echo, shown) => {
    const text = await answered(
      (response) => void response.writeHead(404).end(echo),
      { headers: { "x-key": "<K3Y>/\"of'them&me" } },
      "/s3rvices/ab%2Fb-c%3D%3Dd?code=two+w%C3%B6rds+%26+%F0%9F%93%A6",
    );
    expect(text).toBe(`answered 404: ${shown}`);
  });

  test("a long key in a long answer full of escapes", async () => {
    const key = "k%".repeat(2_000);
    const echo = `${"%25".repeat(5_000)}${"&amp;".repeat(5_000)}${"\\".repeat(10_000)}`;
    const text = await answered((response) => void response.writeHead(404).end(`${key} ${echo}`), {
      headers: { "x-key": key },
      maxResponseBytes: 65_536,
    });
    expect(text).toMatch(/^answered 404: \[removed\] %25%25/);
  });
});
