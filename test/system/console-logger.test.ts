import { describe, expect, test } from "vitest";
import { createConsoleLogger, type ConsoleLoggerOptions } from "../../src/system/console-logger.ts";
import type { LogFields } from "../../src/core/logger.ts";

const NOW = Date.UTC(2026, 10, 30, 12, 0, 0, 5);

function lines(options: ConsoleLoggerOptions, log: (logger: ReturnType<typeof createConsoleLogger>) => void): readonly string[] {
  const written: string[] = [];
  log(createConsoleLogger({ ...options, write: (line) => written.push(line), now: () => NOW }));
  return written;
}

const HOSTILE = "o-1\n2026-11-30T12:00:00.000Z ERROR forged\u001b[2J\r\u2028\u202e level=error";

describe("lines for people", () => {
  test("time, level, message, fields; words as they are, other texts in quotes; undefined fields left out", () => {
    const fields: LogFields = { orderId: "o-1", count: 3, ok: true, none: undefined, text: 'two words" x=1', empty: "" };
    expect(lines({}, (logger) => logger.info("it happened", fields))).toEqual([
      '2026-11-30T12:00:00.005Z INFO  "it happened" orderId=o-1 count=3 ok=true text="two words\\" x=1" empty=""\n',
    ]);
  });

  test("an order id can't forge a line, a field or a terminal sequence", () => {
    const [line] = lines({}, (logger) => logger.warn(HOSTILE, { orderId: HOSTILE }));
    for (const character of "\n\r\u001b\u2028\u202e") expect(line!.slice(0, -1)).not.toContain(character);
    expect(line).toMatch(/ orderId="[^"]*"\n$/);
  });

  test("a message can't imitate fields, nor end its quotes", () => {
    const message = `no order x orderId=o-2 "level=error\\`;
    const [line] = lines({}, (logger) => logger.warn(message, { orderId: "o-1" }));
    const [, quoted, rest] = /^\S+ WARN {2}("(?:[^"\\]|\\.)*")(.*)\n$/.exec(line!) ?? [];
    expect([JSON.parse(quoted!), rest]).toEqual([message, " orderId=o-1"]);
  });

  test("two ids that differ never look alike", () => {
    const ids = ["o\n1", String.raw`o\n1`, String.raw`o\u000a1`, String.raw`o\\n1`];
    expect(new Set(ids.flatMap((orderId) => lines({}, (logger) => logger.warn("m", { orderId })))).size).toBe(ids.length);
  });

  test("the name of a field can't be two", () => {
    const [line] = lines({}, (logger) => logger.warn("m", { "a=1 b": 2 }));
    expect(line).toMatch(/ "m" "a=1 b"=2\n$/);
  });
});

describe("JSON lines", () => {
  test("one object a line, with time, level and message first", () => {
    const [line] = lines({ json: true }, (logger) => logger.error("it failed", { orderId: "é📦", count: 3, none: undefined }));
    expect(line).toBe('{"time":"2026-11-30T12:00:00.005Z","level":"error","message":"it failed","orderId":"é📦","count":3}\n');
  });

  test("a hostile text stays inside its own field and inside its line", () => {
    const [line] = lines({ json: true }, (logger) => logger.info("m", { orderId: HOSTILE }));
    expect(line!.indexOf("\n")).toBe(line!.length - 1);
    expect(JSON.parse(line!)).toEqual({
      time: expect.any(String),
      level: "info",
      message: "m",
      orderId: HOSTILE,
    });
  });

  test("a field can't take over time, level or message", () => {
    const [line] = lines({ json: true }, (logger) => logger.info("m", { level: "error", message: "forged", time: "never" }));
    expect(JSON.parse(line!)).toEqual({ time: "2026-11-30T12:00:00.005Z", level: "info", message: "m" });
  });
});

test("debug entries only when they are asked for", () => {
  expect(lines({}, (logger) => logger.debug("m"))).toEqual([]);
  expect(lines({ verbose: true }, (logger) => logger.debug("m"))).toHaveLength(1);
});
