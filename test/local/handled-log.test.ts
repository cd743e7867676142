import { appendFileSync } from "node:fs";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, expect, test } from "vitest";
import { HandledLogReader, HandledLogWriter } from "../../src/local/handled-log.ts";
import { encodeRecord, type HandledRecord } from "../../src/local/handled-record.ts";

let folder: string;
let path: string;
let reader: HandledLogReader;
let writer: HandledLogWriter;

beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), "handled-log-test-"));
  path = join(folder, "handled.ndjson");
  reader = await HandledLogReader.open(path);
  writer = new HandledLogWriter(path);
});

afterEach(async () => {
  writer.close();
  await reader.close();
  await rm(folder, { recursive: true });
});

function record(sequence: number): HandledRecord {
  return { subscription: "s", worker: "w", orderId: "Łódź\n", id: `id-${sequence}`, sequence, type: "t", time: "now", dataDigest: "d" };
}

test("each call reads what was appended since the last one, in order, from all writers", async () => {
  const other = new HandledLogWriter(path);
  writer.append(record(1));
  other.append(record(2));
  expect(await reader.readNew()).toEqual([record(1), record(2)]);
  expect(await reader.readNew()).toEqual([]);
  writer.append(record(3));
  other.close();
  expect(await reader.readNew()).toEqual([record(3)]);
  expect(reader.torn).toBe(0);
});

test("more than one read buffer", async () => {
  const records = Array.from({ length: 5_000 }, (_, index) => record(index));
  for (const one of records) writer.append(one);
  expect(await reader.readNew()).toEqual(records);
});

test("a record is read once it is complete", async () => {
  const text = encodeRecord(record(1));
  appendFileSync(path, text.slice(0, 20));
  expect(await reader.readNew()).toEqual([]);
  appendFileSync(path, text.slice(20));
  expect(await reader.readNew()).toEqual([record(1)]);
  expect(reader.torn).toBe(0);
});

test("G3: a record torn by a kill spoils no other", async () => {
  writer.append(record(1));
  appendFileSync(path, encodeRecord(record(2)).slice(0, 20));
  writer.append(record(3));
  expect(await reader.readNew()).toEqual([record(1), record(3)]);
  expect(reader.torn).toBe(1);
});

test("a record torn at the very end counts too", async () => {
  appendFileSync(path, encodeRecord(record(1)).slice(0, 20));
  expect(await reader.readNew()).toEqual([]);
  expect(reader.torn).toBe(1);
});
