import * as fc from "fast-check";
import { describe, expect, test } from "vitest";
import { decodeEvent, decodeEventBytes, encodeEvent, eventBytes, type EventHead } from "../../src/core/event.ts";
import { parseOrderId } from "../../src/core/order-id.ts";
import { anyOrderId, eventId, thrown } from "./support.ts";

const HEAD: EventHead = {
  id: eventId(1),
  orderId: parseOrderId("o-1"),
  sequence: 7,
  type: "shipment.instructed",
  source: "/shipment",
  time: "2026-01-05T08:00:00Z",
};

const anyHead: fc.Arbitrary<EventHead> = fc.record({
  id: fc.nat().map(eventId),
  orderId: anyOrderId,
  sequence: fc.integer({ min: 1, max: Number.MAX_SAFE_INTEGER }),
  type: fc.oneof(fc.constant("a.b"), fc.constant(',"data":'), fc.string({ minLength: 1 })),
  source: fc.oneof(fc.constant("/shipment"), fc.constant('","data":1,"x":"')),
  time: fc.constant("2026-01-05T08:00:00Z"),
});

/** JSON texts with white space, repeated keys and number spellings that `JSON.stringify` would not write. */
const anyJsonText = fc.oneof(
  fc.json(),
  fc.jsonValue().map((value) => JSON.stringify(value, undefined, 2)),
  fc.constantFrom(
    "9007199254740993",
    "1.0",
    "1e5",
    "-0",
    ' {"a" : 1 , "a":2}\r\n',
    '"\u2028\u{1F4E6}"',
    '{"x":",\\"data\\":"}',
    '[{"data":{"data":1}}]',
  ),
);

describe("event bytes are final at commit (design §3, C19)", () => {
  test("the text is a CloudEvents 1.0 event in structured JSON, data last", () => {
    const traceparent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
    expect(encodeEvent({ ...HEAD, traceparent }, '{"n":1}')).toBe(
      '{"specversion":"1.0","id":"01JZ0000000000000000000001","source":"/shipment","type":"shipment.instructed","subject":"o-1",' +
        '"time":"2026-01-05T08:00:00Z","sequence":"7","traceparent":"00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",' +
        '"datacontenttype":"application/json","data":{"n":1}}',
    );
    expect(decodeEvent(encodeEvent({ ...HEAD, traceparent }, "1"))).toMatchObject({ ...HEAD, traceparent });
    expect(decodeEvent(encodeEvent(HEAD, "1"))).not.toHaveProperty("traceparent");
  });

  test.each([
    ["big integers and number spellings", '{"id":9007199254740993,"total":1.0,"e":1e5,"m":-0,"b":1,"a":2}'],
    ["line separators", '"\u2028\u2029"'],
    ["emoji and accents of both kinds", '"caf\u00E9 cafe\u0301 \u{1F4E6}"'],
    ["white space around and inside", ' \r\n\t{ "a" : [ 1 , 2 ] } \n'],
    ["repeated keys", '{"a":1,"a":2}'],
    ["strings that look like our own member", String.raw`{"note":",\"data\":","x":"\",\"data\":{}}"}`],
    ["members called data", '{"data":{"data":[{"data":1}]},"data":2}'],
    ["a closing brace at the end", "{}"],
    ["null", "null"],
    ["a key like __proto__", '{"__proto__":{"polluted":true}}'],
  ])("C19, C26: %s come back byte for byte", (_name, dataText) => {
    const text = encodeEvent(HEAD, dataText);
    const event = decodeEventBytes(eventBytes(text));
    expect(event.dataText).toBe(dataText);
    expect(event.text).toBe(text);
    expect(JSON.parse(text)).toMatchObject({ specversion: "1.0", sequence: "7" });
  });

  test("a byte order mark inside the bytes is kept, not swallowed", () => {
    const bytes = eventBytes(`\uFEFF${encodeEvent(HEAD, "1")}`);
    expect(thrown(() => decodeEventBytes(bytes))).toMatchObject({ code: "corrupt" });
  });

  test("property: head and data text of any event come back, whatever is in them", () => {
    fc.assert(
      fc.property(anyHead, anyJsonText, (head, dataText) => {
        const text = encodeEvent(head, dataText);
        expect(decodeEventBytes(eventBytes(text))).toEqual({ ...head, text, dataText });
      }),
      { numRuns: 500 },
    );
  });
});

describe("hostile event texts are corrupt, never a crash", () => {
  const text = encodeEvent(HEAD, '{"n":1}');

  test.each([
    ["nothing", ""],
    ["no JSON", "hello"],
    ["an event of somebody else", '{"specversion":"1.0","id":"1","source":"/","type":"t","data":{}}'],
    ["data only", '{"data":{}}'],
    ["no data", '{"specversion":"1.0"}'],
    ["a head that is no object", '[1,"data":2}'],
    ["a text without its end", text.slice(0, -2)],
    ["a text without its beginning", text.slice(1)],
    ["another specversion", text.replace("1.0", "0.3")],
    ["an id that is no ULID", text.replace("01JZ0000000000000000000001", "1")],
    ["a sequence that is a number", text.replace('"7"', "7")],
    ["sequence 0", text.replace('"7"', '"0"')],
    ["a padded sequence", text.replace('"7"', '"07"')],
    ["a negative sequence", text.replace('"7"', '"-7"')],
    ["a sequence beyond the integers of JavaScript", text.replace('"7"', '"9007199254740993"')],
    ["an empty subject", text.replace('"o-1"', '""')],
    ["a subject of 129 units", text.replace("o-1", "a".repeat(129))],
    ["a subject with half a surrogate pair", text.replace("o-1", String.raw`\ud83d`)],
    ["a subject that is a number", text.replace('"o-1"', "1")],
    ["no type", text.replace('"type"', '"typ"')],
    ["no source", text.replace('"source"', '"src"')],
    ["no time", text.replace('"time"', '"t"')],
  ])("%s", (_name, hostile) => {
    expect(hostile).not.toBe(text);
    expect(thrown(() => decodeEvent(hostile))).toMatchObject({ code: "corrupt" });
  });

  test("bytes that are no UTF-8", () => {
    expect(thrown(() => decodeEventBytes(Uint8Array.of(0x7b, 0xff, 0x7d)))).toMatchObject({ code: "corrupt" });
    const cut = eventBytes(encodeEvent(HEAD, '"\u{1F4E6}"'));
    expect(thrown(() => decodeEventBytes(cut.slice(0, -4)))).toMatchObject({ code: "corrupt" });
  });

  test("property: any text, and any damage to an event, decodes or is corrupt", () => {
    const damaged = fc
      .tuple(fc.nat(text.length), fc.nat(8), fc.string({ maxLength: 4 }))
      .map(([at, length, patch]) => text.slice(0, at) + patch + text.slice(at + length));
    const attributes = fc.record(
      {
        specversion: fc.constant("1.0"),
        id: fc.constant(eventId(1)),
        sequence: fc.constant("1"),
        type: fc.anything(),
        source: fc.anything(),
        subject: fc.anything(),
        time: fc.anything(),
        data: fc.anything(),
      },
      { requiredKeys: [] },
    );
    const otherEvents = attributes.map((value) => {
      try {
        return JSON.stringify(value);
      } catch {
        return "{}";
      }
    });
    fc.assert(
      fc.property(fc.oneof(fc.string(), fc.json(), damaged, otherEvents), (hostile) => {
        try {
          const event = decodeEvent(hostile);
          expect(hostile).toContain(event.dataText);
          expect(Number.isSafeInteger(event.sequence)).toBe(true);
        } catch (error) {
          expect(error).toMatchObject({ name: "OutboxError", code: "corrupt" });
        }
      }),
      { numRuns: 1_000 },
    );
  });

  test("property: any bytes decode or are corrupt", () => {
    fc.assert(
      fc.property(fc.uint8Array({ maxLength: 200 }), (bytes) => {
        expect(thrown(() => decodeEventBytes(bytes))).toMatchObject({ code: "corrupt" });
      }),
    );
  });
});
