import * as fc from "fast-check";
import { describe, expect, test } from "vitest";
import {
  assertSubscriptionName,
  eventBlobName,
  eventIdOfBlob,
  idempotencyRow,
  isReservedRow,
  ORDER_ROW,
  OUTBOX_END,
  outboxRow,
  outboxRowId,
  streamPrefix,
} from "../../src/core/names.ts";
import { encodeOrderId, parseOrderId } from "../../src/core/order-id.ts";
import { wholeNumber } from "../../src/core/options.ts";
import { eventId, thrown } from "./support.ts";

const ORDER = encodeOrderId(parseOrderId("o-1"));

describe("rows of an order (design §3)", () => {
  test("one range reads the order and its outbox, and nothing else", () => {
    const inRange = (row: string): boolean => row >= ORDER_ROW && row < OUTBOX_END;
    expect(
      [ORDER_ROW, outboxRow(eventId(1)), outboxRow("7ZZZZZZZZZZZZZZZZZZZZZZZZZ" as ReturnType<typeof eventId>)].filter(inRange),
    ).toHaveLength(3);
    expect([idempotencyRow("order"), idempotencyRow("z"), "line:1", "outbox;", "address", "n", "p"].filter(inRange)).toEqual([]);
  });

  test.each(["order", "order0", "orders", "outbox:", "outbox:x", "outbox:~", "idempotency:", "idempotency:x"])("%j is reserved", (row) => {
    expect(isReservedRow(row)).toBe(true);
  });

  test.each(["Order", "orde", "outbox;", "outboy", "line:1", "idempotency", "idempotencz:", "", "\u00E9"])(
    "%j is the application's own",
    (row) => {
      expect(isReservedRow(row)).toBe(false);
    },
  );

  test("outbox rows name their event; other rows in the range don't", () => {
    expect(outboxRowId(outboxRow(eventId(1)))).toBe(eventId(1));
    for (const row of ["order", "outbox:", "outbox:1", `outbox:${eventId(1)}x`, `x${outboxRow(eventId(1))}`])
      expect(outboxRowId(row)).toBeUndefined();
  });
});

describe("idempotency rows", () => {
  test("property: distinct keys have distinct rows that the table takes", () => {
    const key = fc.string({ unit: "grapheme", minLength: 1, maxLength: 40 }).filter((text) => text.length <= 120);
    fc.assert(
      fc.property(key, key, (one, other) => {
        expect(idempotencyRow(one)).toMatch(/^idempotency:[A-Za-z0-9_~-]+$/);
        expect(idempotencyRow(one) === idempotencyRow(other)).toBe(one === other);
      }),
    );
    expect(idempotencyRow("\u65E5".repeat(120)).length).toBeLessThanOrEqual(512);
  });

  test.each<[string, unknown]>([
    ["empty", ""],
    ["121 units", "a".repeat(121)],
    ["half a surrogate pair", "\uD83D"],
    ["a number", 5],
    ["null", null],
  ])("a key that is %s is refused", (_name, key) => {
    expect(thrown(() => idempotencyRow(key as string))).toMatchObject({ code: "invalid-option" });
  });
});

describe("blob names (W10)", () => {
  test("a stream's prefix ends with a slash, so o-1 never lists o-10", () => {
    expect(streamPrefix("mail", ORDER)).toBe("mail/o-1/");
    expect(eventBlobName("mail", encodeOrderId(parseOrderId("o-10")), eventId(1)).startsWith(streamPrefix("mail", ORDER))).toBe(false);
  });

  test("an event's name gives its id back; foreign names give none", () => {
    const prefix = streamPrefix("mail", ORDER);
    expect(eventIdOfBlob(eventBlobName("mail", ORDER, eventId(1)), prefix)).toBe(eventId(1));
    for (const name of [
      "mail/o-1/",
      "mail/o-1/readme.json",
      `mail/o-1/${eventId(1)}`,
      `mail/o-1/${eventId(1)}.json.bak`,
      `mail/o-1/x/${eventId(1)}.json`,
      `mail/o-10/${eventId(1)}.json`,
    ]) {
      expect(eventIdOfBlob(name, prefix)).toBeUndefined();
    }
  });

  test.each(["", "Mail", "1mail", "mail-", "-mail", "ma--il", "ma_il", "ma/il", "..", "mail.", "m\u00E4il", "a".repeat(51)])(
    "%j is no subscription name",
    (name) => {
      expect(thrown(() => assertSubscriptionName(name))).toMatchObject({ code: "invalid-option" });
    },
  );

  test.each(["m", "mail", "mail-2", "a1-b2-c3", "a".repeat(50)])("%j is a subscription name", (name) => {
    expect(() => assertSubscriptionName(name)).not.toThrow();
  });
});

describe("options", () => {
  const bounds = { default: 5, min: 1, max: 9 };

  test("a whole number within bounds is taken, undefined means the default", () => {
    expect(wholeNumber("tries", 1, bounds)).toBe(1);
    expect(wholeNumber("tries", 9, bounds)).toBe(9);
    expect(wholeNumber("tries", undefined, bounds)).toBe(5);
  });

  test.each<[unknown, string]>([
    [0, "tries is 0"],
    [10, "tries is 10"],
    [1.5, "tries is 1.5"],
    [Number.NaN, "tries is NaN"],
    [Number.POSITIVE_INFINITY, "tries is Infinity"],
    ["5", 'tries is "5"'],
    [null, "tries is null"],
    [{ a: 1 }, 'tries is {"a":1}'],
    [5n, "tries is"],
  ])("%s is refused with its name, value and what is allowed", (value, message) => {
    const error = thrown(() => wholeNumber("tries", value, bounds)) as Error;
    expect(error).toMatchObject({ code: "invalid-option" });
    expect(error.message).toContain(message);
    expect(error.message).toContain("1 to 9");
  });
});
