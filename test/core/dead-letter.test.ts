/** Groups of errors: what differs between two failures of one kind is left out of them. */
import { describe, expect, test } from "vitest";
import { errorGroup, MAX_ERROR_GROUP_LENGTH } from "../../src/core/dead-letter.ts";
import { encodeOrderId, parseOrderId } from "../../src/core/order-id.ts";
import { printable } from "../../src/core/errors.ts";

const group = (reason: string, orderId = "o-1"): string => errorGroup(reason, parseOrderId(orderId));

describe("errorGroup", () => {
  test.each([
    ["a number", "Error: timeout after 30 s, line 503", "Error: timeout after # s, line #"],
    ["an HTTP status stays", "http://10.0.0.7:8080 answered 422: line 3", "http://#:# answered 422: line #"],
    [
      "an HTTP status in other words",
      "status 503, Status: 404, status code 401, HTTP/1.1 500, status=409",
      "status 503, Status: 404, status code 401, HTTP/# 500, status=409",
    ],
    [
      "what is no HTTP status",
      "answered 600, answered 4040, status 404.5, answered 200-300, status 12 404",
      "answered #, answered #, status #, answered #-#, status # #",
    ],
    ["a number with a point", "took 1.5 of 1,000.25", "took # of #"],
    ["a time", "due 2026-01-01T00:00:00.000Z, was 2026-01-01 10:11:12+09:00", "due #, was #"],
    ["a day", "not before 2026-01-01", "not before #"],
    ["a ULID", "event 01JZ0000000000000000000001 refused", "event # refused"],
    ["a UUID", "request 6b5a6f0e-9e0b-4c57-a4bb-2f0cbb3ad0e6 failed", "request # failed"],
    ["a digest", "commit deadbeef12 and 0x1f", "commit # and #"],
    ["a quoted text", `no carrier "DHL" or 'UPS'`, "no carrier … or …"],
    ["apostrophes are no quotes", "can't reach it, doesn't answer", "can't reach it, doesn't answer"],
    ["a word of letters from a to f", "decade facade", "decade facade"],
    ["line breaks", " one\n  two ", "one two"],
    ["nothing", "", ""],
  ])("%s", (_name, reason, expected) => {
    expect(group(reason)).toBe(expected);
  });

  test.each(["o-1", "100", "alpha", "ship/2026 #1", "é📦", "a\nb", "(x)[y]{z}.*+?^$|\\", 'quo"ted'])(
    "the order's own id %j in whatever form it stands",
    (orderId) => {
      const key = encodeOrderId(parseOrderId(orderId));
      for (const form of [orderId, printable(orderId), key, encodeURIComponent(orderId)]) {
        expect(group(`order ${form} refused: https://x/${form}/lines`, orderId)).toBe("order # refused: https://x/#/lines");
      }
    },
  );

  test("orders whose errors name them fall into one group, whatever their ids are", () => {
    const ids = ["alpha", "b-7", "100", "01JZ0000000000000000000001"];
    expect(new Set(ids.map((orderId) => group(`order ${orderId} has no carrier`, orderId))).size).toBe(1);
  });

  test("what a receiver refuses with another status is another group, whoever it is about", () => {
    const answers = [401, 404, 422].flatMap((status) =>
      ["100", "200"].map((id) => group(`https://x.example answered ${status}: order ${id}`, id)),
    );
    expect([...new Set(answers)]).toEqual([401, 404, 422].map((status) => `https://x.example answered ${status}: order #`));
  });

  test("an id is not cut out of a longer word", () => {
    expect(group("alphabet is no alpha", "alpha")).toBe("alphabet is no #");
  });

  test("a group is one printable line that can be given back as it is shown", () => {
    const text = group(`\u001b[2J\n${"long ".repeat(100)}`);
    expect(text).not.toMatch(/[\u0000-\u001f]/);
    expect(text.length).toBeLessThanOrEqual(MAX_ERROR_GROUP_LENGTH + 1);
    expect(text).toBe(text.trim());
  });
});
