import { existsSync, readdirSync, readFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { beforeAll, describe, expect, test } from "vitest";
import { eventBytes, decodeEventBytes, type StoredEvent } from "../../src/core/event.ts";
import { rawJson } from "../../src/core/json.ts";
import { encodeOrderId, parseOrderId } from "../../src/core/order-id.ts";
import { encodeWakeUp } from "../../src/core/wake-up.ts";
import type { CommitOptions } from "../../src/producer/order-change.ts";
import { createOutbox, type Outbox } from "../../src/producer/outbox.ts";
import { TRICKY_ORDER_IDS } from "../core/support.ts";
import { connectTestStorage, type TestStorage } from "../support/azurite-storage.ts";
import { expectDense, failure, orderKey, steps, workflow, type TestWorkflow } from "./support.ts";

let storage: TestStorage;
let outbox: Outbox<TestWorkflow>;
beforeAll(async () => {
  storage = await connectTestStorage();
  outbox = createOutbox({ workflow, storage });
});

let orders = 0;
const newOrder = (): string => `document-${(orders += 1)}`;

async function commitDocuments(orderId: string, texts: readonly string[], options: CommitOptions = {}): Promise<void> {
  await outbox.commit(
    orderId,
    () => ({ state: { commits: 1 }, events: texts.map((text) => ({ type: "document" as const, data: rawJson(text) })) }),
    options,
  );
}

/** The events of an order as the relay will read them, spilled ones too. */
async function storedEvents(orderId: string): Promise<readonly (StoredEvent & { readonly spilled: boolean })[]> {
  const { outbox: entities, unreadable } = await storage.orders.readOutbox(orderKey(orderId));
  expect(unreadable).toEqual([]);
  return Promise.all(
    entities.map(async ({ text, payloadBlob }) => {
      const bytes = payloadBlob === undefined ? eventBytes(text ?? "") : (await storage.blobs.read("payloads", payloadBlob))?.bytes;
      return { ...decodeEventBytes(bytes ?? expect.fail(`payload ${payloadBlob} is missing`)), spilled: payloadBlob !== undefined };
    }),
  );
}

const quoted = (text: string): string => `"${text}"`;
/** A text whose pairs start at every odd or every even position, so that one of them meets every cut. */
const pairs = (count: number, shift: number): string => "a".repeat(shift) + "\u{1F600}".repeat(count);

describe("C26: payloads of any size come back byte for byte", () => {
  test.each<[string, string, boolean]>([
    ["32,000 units", "a".repeat(32_000), false],
    ["32,768 units", "a".repeat(32_768), false],
    ["32,769 units", "a".repeat(32_769), false],
    ["37,913 units", "a".repeat(37_913), false],
    ["16,385 emoji", pairs(16_385, 0), false],
    ["16,385 emoji, shifted by one", pairs(16_385, 1), false],
    ["100,000 emoji, shifted by one", pairs(100_000, 1), false],
    ["20,000 accents, 40,000 bytes", "\u00E9".repeat(20_000), false],
    ["an inline text at its limit, all escapes", '\\"'.repeat(150_000), false],
    ["900 KB", "a".repeat(900_000), true],
    ["1.1 MB", "a".repeat(1_100_000), true],
    ["5 MB of Japanese", "\u6CE8".repeat(1_700_000), true],
  ])("C26: %s", async (_name, text, spilled) => {
    const orderId = newOrder();
    await commitDocuments(orderId, [quoted(text)]);
    const [event] = await storedEvents(orderId);
    expect(event?.dataText === quoted(text)).toBe(true);
    expect(event?.spilled).toBe(spilled);
  });

  test("C26: a state of the same sizes comes back, split where it must be", async () => {
    for (const note of ["a".repeat(32_769), pairs(16_385, 0), pairs(16_385, 1), "\u00E9".repeat(20_000)]) {
      const orderId = newOrder();
      await outbox.commit(orderId, () => ({ state: { commits: 1, note }, events: [] }));
      expect((await outbox.read(orderId))?.state).toEqual({ commits: 1, note });
    }
  });

  test("C26: a transaction of many big events fits, the rest is spilled, in order", async () => {
    const orderId = newOrder();
    const texts = Array.from({ length: 20 }, (_, index) => quoted(String(index).padEnd(100_000, "\u6CE8")));
    await commitDocuments(orderId, texts);
    const events = await storedEvents(orderId);
    expect(events.map(({ dataText }) => dataText)).toEqual(texts);
    expect(new Set(events.map(({ spilled }) => spilled))).toEqual(new Set([true, false]));
    expectDense(await storage.orders.readOutbox(orderKey(orderId)), 20);
  });

  test("C26: refused before any write: more than an entity for the state", async () => {
    const orderId = newOrder();
    await failure(
      outbox.commit(orderId, () => ({ state: { commits: 1, note: "a".repeat(1_100_000) }, events: [] })),
      "too-large",
    );
    expect(await outbox.read(orderId)).toBeUndefined();
  });
});

/** EPCIS documents from the field, if they lie beside the repository; they are not part of it. */
const DOCUMENTS = process.env["ORDERED_OUTBOX_TEST_DOCUMENTS"] ?? fileURLToPath(new URL("../../../shared/data/epcis", import.meta.url));

function documents(): readonly (readonly [name: string, bytes: Uint8Array])[] {
  if (!existsSync(DOCUMENTS)) return [];
  return readdirSync(DOCUMENTS)
    .filter((name) => /\.json(?:ld)?$/.test(name))
    .map((name) => [name, readFileSync(`${DOCUMENTS}/${name}`)] as const);
}

/** In the manner of EPCIS: a list of nested events, indented, with offsets, exact numbers and members in an order of their own. */
function generatedDocument(): Uint8Array {
  const event = (index: number): unknown => ({
    type: "ObjectEvent",
    eventTime: "2005-04-03T20:33:31.116-06:00",
    eventTimeZoneOffset: "-06:00",
    epcList: [`urn:epc:id:sgtin:0614141.107346.${2017 + index}`],
    action: "OBSERVE",
    bizStep: "shipping",
    "example:myField": { "@value": "caf\u00E9 \u{1F4E6}", nested: [[index], { data: ',"data":' }] },
  });
  const text = JSON.stringify(
    { "@context": ["https://example.org"], type: "EPCISDocument", epcisBody: { eventList: [0, 1, 2].map(event) } },
    undefined,
    2,
  );
  return eventBytes(text.replace('"shipping"', '"shipping",\r\n\t"quantity" : 10.0, "serial":9007199254740993'));
}

describe("documents of the trade come back byte for byte", () => {
  test.each([["a generated document", generatedDocument()] as const, ...documents()])("%s", async (_name, bytes) => {
    const orderId = newOrder();
    await outbox.commit(orderId, () => ({ state: { commits: 1 }, events: [{ type: "document", data: rawJson(bytes) }] }));
    const [event] = await storedEvents(orderId);
    expect(Buffer.from(event?.dataText ?? "", "utf8").equals(bytes)).toBe(true);
    expect(() => JSON.parse(event?.text ?? "") as unknown).not.toThrow();
  });
});

describe("every OrderId goes through the account (C07, C23)", () => {
  test("C07: commit, read and own rows of ids that look alike never meet", async () => {
    const ids = TRICKY_ORDER_IDS;
    for (const [index, orderId] of ids.entries()) {
      await outbox.commit(orderId, () => ({
        state: { commits: index },
        events: [
          { type: "step", data: { n: index } },
          { type: "document", data: "x".repeat(400_000) },
        ],
        entities: [{ action: "insert", rowKey: "line:1", properties: { index } }],
      }));
    }
    for (const [index, orderId] of ids.entries()) {
      expect(await outbox.read(orderId)).toMatchObject({ orderId, state: { commits: index }, sequence: 2 });
      expect((await outbox.readEntity(orderId, "line:1"))?.properties).toEqual({ index });
      const [small, big] = await storedEvents(orderId);
      expect({ orderId: small?.orderId, data: small?.dataText, spilled: big?.spilled }).toEqual({
        orderId,
        data: `{"n":${index}}`,
        spilled: true,
      });
    }
  });

  test("C23: the wake-up of each id is received as it was sent", async () => {
    const own = await connectTestStorage();
    const producer = createOutbox({ workflow, storage: own });
    const texts: string[] = [];
    for (const orderId of TRICKY_ORDER_IDS) await producer.commit(orderId, steps(1));
    for (let batch = await own.wakeUps.receive(32, 60_000); batch.length > 0; batch = await own.wakeUps.receive(32, 60_000))
      texts.push(...batch.map(({ text }) => text));
    expect(texts.toSorted()).toEqual(TRICKY_ORDER_IDS.map((orderId) => encodeWakeUp(parseOrderId(orderId))).toSorted());
  });

  test("the longest key fits the table and the blob names", async () => {
    const orderId = "\u6CE8".repeat(128);
    expect(encodeOrderId(parseOrderId(orderId))).toHaveLength(512);
    await commitDocuments(orderId, [quoted("x".repeat(400_000))], { idempotencyKey: "\u6CE8".repeat(120) });
    expect((await storedEvents(orderId))[0]?.orderId).toBe(orderId);
  });
});
