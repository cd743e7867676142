/** What goes over the wire: the committed bytes, signed anew for every attempt (C19). */
import { readdirSync, readFileSync } from "node:fs";
import { AsyncLocalStorageContextManager } from "@opentelemetry/context-async-hooks";
import { CompositePropagator, W3CBaggagePropagator, W3CTraceContextPropagator } from "@opentelemetry/core";
import { context, propagation, trace, TraceFlags } from "@opentelemetry/api";
import { Webhook } from "standardwebhooks";
import { afterEach, describe, expect, test, vi } from "vitest";
import { eventBytes, type StoredEvent } from "../../src/core/event.ts";
import { ManualClock } from "../support/manual-clock.ts";
import {
  deliver,
  eventOf,
  failureOf,
  loopbackLookup,
  SECRET,
  secretOf,
  startReceiver,
  startTlsReceiver,
  webhookTo,
  type Received,
} from "./webhook-support.ts";

const MINUTE = 60_000;
const TRICKY = '{"id":9007199254740993,"total":1.0,"note":"caf\u00E9 \u2028 \u{1F4E6}","b":1,"a":2}';

afterEach(() => {
  vi.useRealTimers();
});

/** As a receiver does it that uses the library: by the raw bytes, with its tolerance of 300 s. Throws what the library throws. */
function verifyByLibrary(secret: string, { body, headers }: Received): void {
  new Webhook(secret).verify(body, headers as Record<string, string>, { jsonParse: false });
}

describe("C19: bytes, identity, signature", () => {
  test("attempts at 0 s, +6 min and +12 min, the secret rotated in between", async () => {
    const receiver = await startReceiver();
    const clock = new ManualClock(Date.UTC(2026, 0, 1, 12, 0, 0, 999));
    vi.useFakeTimers({ toFake: ["Date"], now: clock.now() });
    const event = eventOf(TRICKY);
    await deliver(webhookTo(receiver.url, { secret: secretOf("a") }, { clock }), event);
    await clock.advance(6 * MINUTE);
    const rotated = webhookTo(receiver.url, { secrets: [secretOf("b"), secretOf("a")] }, { clock });
    await deliver(rotated, event);
    await clock.advance(6 * MINUTE);
    await deliver(rotated, event);

    const [first, second, third] = receiver.received as [Received, Received, Received];
    for (const { method, url, headers, body } of receiver.received) {
      expect([method, url, headers["content-type"]]).toEqual(["POST", "/hook", "application/cloudevents+json; charset=utf-8"]);
      expect(headers["webhook-id"]).toBe(event.id);
      expect(body.equals(eventBytes(event.text))).toBe(true);
      expect(body.includes(TRICKY)).toBe(true);
    }
    verifyByLibrary(secretOf("a"), first);
    vi.setSystemTime(clock.now() - 6 * MINUTE);
    expect(() => verifyByLibrary(secretOf("a"), first)).toThrow("timestamp too old");
    verifyByLibrary(secretOf("a"), second);
    verifyByLibrary(secretOf("b"), second);
    expect(() => verifyByLibrary(secretOf("c"), second)).toThrow("No matching signature");
    vi.setSystemTime(clock.now());
    verifyByLibrary(secretOf("b"), third);
    expect([first, second, third].map(({ headers }) => Number(headers["webhook-timestamp"]))).toEqual([
      1_767_268_800, 1_767_269_160, 1_767_269_520,
    ]);
  });

  test.each([
    ["numbers, U+2028 and an emoji", TRICKY],
    ["a string of every plane", '"\\u0000 \\ud83d\\udce6 \u{10FFFF} \uFEFF \u0085"'],
    ["a large payload", JSON.stringify("\u{1F4E6}".repeat(250_000))],
    ...documents(),
  ])("%s arrives byte for byte and verifies", async (_name, dataText) => {
    const receiver = await startReceiver();
    const event = eventOf(dataText);
    await deliver(webhookTo(receiver.url), event);
    const [received] = receiver.received as [Received];
    verifyByLibrary(SECRET, received);
    expect(received.body.equals(Buffer.from(event.text))).toBe(true);
    expect(received.body.subarray(-Buffer.byteLength(dataText) - 1, -1).equals(Buffer.from(dataText))).toBe(true);
  });

  test("over TLS, to a receiver that its name and a trusted certificate prove", async () => {
    const receiver = await startTlsReceiver();
    const event = eventOf();
    await deliver(webhookTo(receiver.url, {}, { lookup: loopbackLookup, ca: receiver.ca }), event);
    expect(receiver.received[0]!.body.toString()).toBe(event.text);
  });

  test.each([
    ["an untrusted certificate", (url: string) => url, false],
    ["another name than the certificate's", (url: string) => url.replace("receiver.", "other."), true],
  ])("nothing is sent to %s; it is tried again", async (_name, change, trusted) => {
    const receiver = await startTlsReceiver();
    const webhook = webhookTo(change(receiver.url), {}, { lookup: loopbackLookup, ...(trusted ? { ca: receiver.ca } : {}) });
    const failure = await failureOf(deliver(webhook));
    expect(failure).toMatchObject({ name: "RetryableError", message: expect.stringMatching(/SELF_SIGNED|ALTNAME/) });
    expect(receiver.received).toEqual([]);
  });

  test("headers of one's own go with every attempt", async () => {
    const receiver = await startReceiver();
    await deliver(webhookTo(receiver.url, { headers: { Authorization: "Bearer 123", "x-empty": "" } }));
    expect(receiver.received[0]!.headers).toMatchObject({ authorization: "Bearer 123", "x-empty": "", "accept-encoding": "identity" });
  });
});

describe("trace context", () => {
  const OWN = "00-11111111111111111111111111111111-2222222222222222-01";

  afterEach(() => {
    context.disable();
    propagation.disable();
  });

  async function sent(event: StoredEvent): Promise<Received["headers"]> {
    const receiver = await startReceiver();
    await deliver(webhookTo(receiver.url), event);
    return receiver.received[0]!.headers;
  }

  function register(): void {
    context.setGlobalContextManager(new AsyncLocalStorageContextManager().enable());
    propagation.setGlobalPropagator(
      new CompositePropagator({ propagators: [new W3CTraceContextPropagator(), new W3CBaggagePropagator()] }),
    );
  }

  test("of the active span, with its state; baggage stays here", async () => {
    register();
    const span = { traceId: "a".repeat(32), spanId: "b".repeat(16), traceFlags: TraceFlags.SAMPLED };
    const active = propagation.setBaggage(
      trace.setSpanContext(context.active(), span),
      propagation.createBaggage({ customer: { value: "42" } }),
    );
    const headers = await context.with(active, () => sent(eventOf("1", OWN)));
    expect(headers).toMatchObject({ traceparent: `00-${"a".repeat(32)}-${"b".repeat(16)}-01` });
    expect(headers).not.toHaveProperty("baggage");
  });

  test("without an active span: the event's own", async () => {
    register();
    expect(await sent(eventOf("1", OWN))).toMatchObject({ traceparent: OWN });
  });

  test("without OpenTelemetry: the event's own, or none", async () => {
    expect(await sent(eventOf("1", OWN))).toMatchObject({ traceparent: OWN });
    expect(await sent(eventOf("1"))).not.toHaveProperty("traceparent");
  });

  test("the event's own state goes with the event's own parent, and never with another", async () => {
    const event = { ...eventOf("1", OWN), tracestate: "vendor=1" };
    expect(await sent(event)).toMatchObject({ traceparent: OWN, tracestate: "vendor=1" });
    expect(await sent({ ...eventOf("1"), tracestate: "vendor=1" })).not.toHaveProperty("tracestate");
    register();
    const span = { traceId: "a".repeat(32), spanId: "b".repeat(16), traceFlags: TraceFlags.SAMPLED };
    const headers = await context.with(trace.setSpanContext(context.active(), span), () => sent(event));
    expect(headers).toMatchObject({ traceparent: `00-${"a".repeat(32)}-${"b".repeat(16)}-01` });
    expect(headers).not.toHaveProperty("tracestate");
  });
});

/** JSON documents of the field from a directory of one's own, and in any case two in the manner of EPCIS. */
function documents(): [name: string, text: string][] {
  const directory = process.env["ORDERED_OUTBOX_TEST_DOCUMENTS"];
  const found = directory === undefined ? [] : readdirSync(directory).filter((name) => /\.json(?:ld)?$/.test(name));
  return [
    ["an indented EPCIS-like document", epcisLike("\r\n", 3)],
    ["an EPCIS-like document of 2,000 events", epcisLike("\n", 2_000)],
    ...found.map((name): [string, string] => [name, readFileSync(`${directory}/${name}`, "utf8")]),
  ];
}

/** Nested events with offsets, exact numbers, contexts and doubled members, laid out by hand. */
function epcisLike(lineBreak: string, count: number): string {
  const event = (index: number): string =>
    [
      '    {"type": "ObjectEvent", "eventTime": "2013-06-08T14:58:56.591+02:00", "eventTimeZoneOffset" : "+02:00",',
      `\t"epcList": ["urn:epc:id:sgtin:0614141.107346.${2018 + index}"], "quantity": 200.00, "serial": 9007199254740993${index},`,
      '     "example:note": "caf\u00E9 \u2028 \u{1F4E6} \\/ \\u00e9", "readPoint": {"id": "urn:epc:id:sgln:0614141.07346.1234"}, "a": -0, "a": 1E+2}',
    ].join(lineBreak);
  const events = Array.from({ length: count }, (_, index) => event(index)).join(`,${lineBreak}`);
  return `{${lineBreak}  "@context": ["https://example.org/epcis", {"example": "https://example.org/"}],${lineBreak}  "type": "EPCISDocument",  "eventList": [${lineBreak}${events}]}`;
}
