import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { readInput } from "../../src/local/input.ts";
import { UsageError } from "../../src/local/usage-error.ts";

const GOOD = '{"orderId":"100","type":"shipment.delivered","time":"2026-01-05T08:00:00Z","data":{"late":false}}';

let folder: string;
beforeAll(async () => void (folder = await mkdtemp(join(tmpdir(), "input-test-"))));
afterAll(() => rm(folder, { recursive: true }));

async function inputFile(content: string | Uint8Array): Promise<string> {
  const file = join(folder, "events.ndjson");
  await writeFile(file, content);
  return file;
}

function line(change: Record<string, unknown>): string {
  return JSON.stringify({ ...(JSON.parse(GOOD) as object), ...change });
}

describe("a file that can be used", () => {
  test("each line is one commit, in the order of the file", async () => {
    const file = await inputFile(`${GOOD}\n${line({ orderId: "b" })}\n${line({ type: "order.approved", data: {} })}\n`);
    expect(await readInput(file)).toEqual([
      {
        orderId: "100",
        events: [{ type: "shipment.delivered", time: "2026-01-05T08:00:00Z", dataText: '{"late":false}' }],
        origin: `${file}:1`,
      },
      {
        orderId: "b",
        events: [{ type: "shipment.delivered", time: "2026-01-05T08:00:00Z", dataText: '{"late":false}' }],
        origin: `${file}:2`,
      },
      { orderId: "100", events: [{ type: "order.approved", time: "2026-01-05T08:00:00Z", dataText: "{}" }], origin: `${file}:3` },
    ]);
  });

  test("C6: data keeps its bytes", async () => {
    const data = '{ "big": 12345678901234567890, "price": 1.0, "name": "\\u00e9 é", "late" : true }';
    const [commit] = await readInput(await inputFile(GOOD.replace('{"late":false}', data)));
    expect(commit?.events[0]?.dataText).toBe(data);
  });

  test.each([
    ["no line break at the end", GOOD],
    ["Windows line breaks", `${GOOD}\r\n`],
    ["a byte order mark", `\uFEFF${GOOD}\n`],
    ["empty lines", `\n${GOOD}\n  \n\n`],
  ])("%s", async (_, content) => {
    expect(await readInput(await inputFile(content))).toHaveLength(1);
  });
});

describe("a file that can't be used is refused with file and line", () => {
  test.each<[string, string | Uint8Array, RegExp]>([
    ["no JSON", "{", /not JSON/],
    ["half a line", GOOD.slice(0, 50), /not JSON/],
    ["a byte order mark in the middle", `\uFEFF${GOOD}`, /not JSON/],
    ["no object", "[]", /does not match/],
    ["not UTF-8", Buffer.concat([Buffer.from(GOOD.slice(0, -2)), Buffer.from([0xff, 0x7d, 0x7d])]), /not UTF-8/],
    ["no orderId", line({ orderId: undefined }), /orderId: is missing/],
    ["no type", line({ type: undefined }), /type: /],
    ["no time", line({ time: undefined }), /time: /],
    ["no data", line({ data: undefined }), /data: is missing/],
    ["a numeric orderId", line({ orderId: 100 }), /Quote numeric ids/],
    ["an empty orderId", line({ orderId: "" }), /at least one character/],
    ["a long orderId", line({ orderId: "x".repeat(129) }), /129 UTF-16 units/],
    ["half a surrogate pair as orderId", line({ orderId: "\uD800" }), /half of a surrogate pair/],
    ["an unknown type", line({ type: "shipment.lost" }), /unknown event type "shipment.lost"/],
    ["the name of an object's method as type", line({ type: "toString" }), /unknown event type/],
    ["a time without zone", line({ time: "2026-01-05T08:00:00" }), /ISO 8601/],
    ["a time that does not exist", line({ time: "2026-02-30T08:00:00Z" }), /ISO 8601/],
    ["data that doesn't match its schema", line({ data: { late: "no" } }), /data of shipment.delivered does not match/],
    ["data that is no object", line({ data: [] }), /data of shipment.delivered does not match/],
    ["an extra member", line({ note: 1 }), /note/],
    ["a member twice", GOOD.replace('"data"', '"data":1,"data"'), /appears twice/],
  ])("%s", async (_, bad, message) => {
    const file = await inputFile(Buffer.concat([Buffer.from(`${GOOD}\n`), Buffer.from(bad), Buffer.from(`\n${GOOD}\n`)]));
    const error: unknown = await readInput(file).catch((reason: unknown) => reason);
    expect(error).toBeInstanceOf(UsageError);
    expect((error as UsageError).message).toMatch(message);
    expect((error as UsageError).message).toContain(`${file}:2: `);
  });

  test.each([
    ["empty", ""],
    ["nothing but line breaks", "\n\r\n"],
  ])("%s", async (_, content) => {
    const file = await inputFile(content);
    await expect(readInput(file)).rejects.toThrow(`${file} holds no events`);
  });

  test("a file that isn't there", async () => {
    const file = join(folder, "none.ndjson");
    await expect(readInput(file)).rejects.toThrow(`can't read ${file}`);
  });
});
