/** Reads the commits of `--input`: one JSON object a line, one commit a line, committed in the order of the file. */
import { readFile } from "node:fs/promises";
import { z } from "zod";
import { describeError, OutboxError, printable } from "../core/errors.ts";
import { parseOrderId } from "../core/order-id.ts";
import { validate } from "../core/schema.ts";
import { isShipmentEventType, shipmentWorkflow } from "../shipment/workflow.ts";
import { jsonMembers } from "./json-members.ts";
import type { Plan, PlannedCommit } from "./plan.ts";
import { UsageError } from "./usage-error.ts";

const lineSchema = z.strictObject({
  orderId: z.unknown().refine((value) => value !== undefined, "is missing"),
  type: z.string(),
  time: z.iso.datetime({ offset: true, error: "must be an ISO 8601 date and time with a zone, like 2026-01-05T08:00:00Z" }),
  data: z.unknown().refine((value) => value !== undefined, "is missing"),
});

const LINE_FEED = 0x0a;

/** @throws {UsageError} naming file and line of the first thing that is wrong; nothing has been started by then */
export async function readInput(file: string): Promise<Plan> {
  let bytes: Buffer;
  try {
    bytes = await readFile(file);
  } catch (cause) {
    throw new UsageError(`can't read ${file}: ${describeError(cause)}`);
  }
  const commits: PlannedCommit[] = [];
  let line = 0;
  for (let start = 0; start < bytes.length;) {
    const lineFeed = bytes.indexOf(LINE_FEED, start);
    const end = lineFeed < 0 ? bytes.length : lineFeed;
    const origin = `${file}:${++line}`;
    try {
      const text = decodeLine(bytes.subarray(start, end), line);
      if (text.trim() !== "") commits.push({ ...(await parseLine(text)), origin });
    } catch (error) {
      throw new UsageError(
        `${origin}: ${error instanceof OutboxError || error instanceof UsageError ? error.message : describeError(error)}`,
      );
    }
    start = end + 1;
  }
  if (commits.length === 0) throw new UsageError(`${file} holds no events: one {"orderId","type","time","data"} a line is expected`);
  return commits;
}

function decodeLine(bytes: Uint8Array, line: number): string {
  try {
    // Only the first line may begin with a byte order mark; elsewhere it is no JSON.
    return new TextDecoder("utf-8", { fatal: true, ignoreBOM: line > 1 }).decode(bytes);
  } catch {
    throw new UsageError("not UTF-8");
  }
}

async function parseLine(text: string): Promise<PlannedCommit> {
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch (cause) {
    throw new UsageError(`not JSON: ${printable((cause as Error).message)}`);
  }
  const { orderId, type, time, data } = await validate(lineSchema, value, "the line", "invalid-event");
  if (!isShipmentEventType(type)) {
    throw new UsageError(
      `unknown event type ${printable(JSON.stringify(type))}: one of ${Object.keys(shipmentWorkflow.events).join(", ")} is expected`,
    );
  }
  await validate(shipmentWorkflow.events[type], data, `the data of ${type}`, "invalid-event");
  const dataText = jsonMembers(text)?.get("data");
  if (dataText === undefined) throw new UsageError("a member appears twice");
  return { orderId: parseOrderId(orderId), events: [{ type, time, dataText }] };
}
