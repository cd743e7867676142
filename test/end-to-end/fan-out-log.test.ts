/** The audit of the fan-out sees what it is there for: what a kill or a lost lease excuses, and what they do not. */
import { appendFileSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, expect, test } from "vitest";
import { encodeOrderId, parseOrderId } from "../../src/core/order-id.ts";
import { auditStreams, type StreamAudit } from "../support/stream-audit.ts";
import { FanOutLog, type FanOutLine } from "./fan-out-log.ts";

const ORDER = encodeOrderId(parseOrderId("o-1"));
const EVENTS = 2;

let folder: string;
let file: string;

beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), "ordered-outbox-"));
  file = join(folder, "log");
  writeFileSync(file, "");
});

afterEach(() => rmSync(folder, { recursive: true }));

const acquired = (pid: number): FanOutLine => ({ what: "acquired", pid, order: ORDER });
const givesBack = (pid: number): FanOutLine => ({ what: "gives back", pid, order: ORDER });
const recorded = (pid: number, sequence: number): FanOutLine => ({ what: "recorded", pid, order: ORDER, finished: { mail: sequence } });
const start = (pid: number, sequence: number): FanOutLine => ({ what: "start", pid, order: ORDER, subscription: "mail", sequence });
const handled = (pid: number, sequence: number): readonly FanOutLine[] => [
  start(pid, sequence),
  { what: "handled", pid, order: ORDER, subscription: "mail", sequence },
];
const failed = (pid: number, sequence: number): readonly FanOutLine[] => [
  start(pid, sequence),
  { what: "failed", pid, order: ORDER, subscription: "mail", sequence },
];

function audit(...lines: readonly (FanOutLine | readonly FanOutLine[])[]): { readonly log: FanOutLog; readonly report: StreamAudit } {
  const log = new FanOutLog(file);
  // Line by line, as a log that grows.
  for (const line of lines.flat()) {
    appendFileSync(file, `${JSON.stringify(line)}\n`);
    log.read();
  }
  return { log, report: auditStreams(log.starts, ["mail"], [ORDER], EVENTS) };
}

const END = [handled(2, 2), recorded(2, 2), givesBack(2)].flat();

test("two processes one after another, a failure in between: nothing to complain of", () => {
  const { log, report } = audit(acquired(1), handled(1, 1), recorded(1, 1), givesBack(1), acquired(2), failed(2, 2), END);
  expect(report).toEqual({ problems: [], lost: 0, outOfOrder: 0, doubled: 0, failed: 1, repeated: 0 });
  expect([log.brokenOff, log.ghosts]).toEqual([[], []]);
});

test.each([2, 1])("G3: what ran when the holder broke off is repeated, by process %i: excused", (next) => {
  const end = [handled(next, 1), recorded(next, 1), handled(next, 2), recorded(next, 2), givesBack(next)].flat();
  const { log, report } = audit(acquired(1), handled(1, 1), acquired(next), end);
  expect(report).toMatchObject({ problems: [], doubled: 0, repeated: 1 });
  expect(log.brokenOff).toEqual([1]);
});

test("the same after the order was given back: not excused by another process", () => {
  const { report } = audit(acquired(1), handled(1, 1), givesBack(1), acquired(2), handled(2, 1), recorded(2, 1), END);
  expect(report).toMatchObject({ problems: [`mail ${ORDER} E1: handled twice, without a kill`], doubled: 1, repeated: 1 });
});

test("W2: the same after its progress write was confirmed: not excused by a kill", () => {
  const { report } = audit(acquired(1), handled(1, 1), recorded(1, 1), acquired(2), handled(2, 1), recorded(2, 1), END);
  expect(report).toMatchObject({ problems: [`mail ${ORDER} E1: handled twice, and was on record`], doubled: 1, repeated: 1 });
});

test("G3: an earlier event than the one that was running is out of order, whatever broke off", () => {
  const lines = [acquired(1), handled(1, 1), handled(1, 2), acquired(2), handled(2, 1), recorded(2, 1), END];
  expect(audit(...lines).report).toMatchObject({ problems: [`mail ${ORDER} E1: out of order, after E2`], outOfOrder: 1 });
});

test("G2: the next one before this one is handled", () => {
  const { report } = audit(acquired(2), failed(2, 1), END);
  expect(report.problems).toEqual([`mail ${ORDER} E2: E1 was failed`, `mail ${ORDER}: 1 of 2 events were not handled`]);
  expect(report).toMatchObject({ lost: 1, outOfOrder: 1 });
});

test("G3: one that is left out", () => {
  const { report } = audit(acquired(2), END);
  expect(report.problems).toEqual([`mail ${ORDER} E2: out of order, after E0`, `mail ${ORDER}: 1 of 2 events were not handled`]);
  expect(report).toMatchObject({ lost: 1, outOfOrder: 1 });
});

test("W5: a start by somebody who has lost the order", () => {
  const { log } = audit(acquired(1), acquired(2), start(1, 1), handled(2, 1), recorded(2, 1), END);
  expect(log.ghosts).toEqual([`mail ${ORDER} E1: started by 1, held by 2`]);
});
