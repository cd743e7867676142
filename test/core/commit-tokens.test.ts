import * as fc from "fast-check";
import { describe, expect, test } from "vitest";
import {
  appendToken,
  decodeCommitReferences,
  encodeCommitReferences,
  findToken,
  KEPT_COMMIT_TOKENS,
  lastNumber,
  type CommitReference,
} from "../../src/core/commit-tokens.ts";
import { eventId, thrown } from "./support.ts";

/** The tokens of an order after `count` commits of others. */
function after(tokens: readonly string[], count: number, name = "other"): readonly string[] {
  let result = tokens;
  for (let commit = 1; commit <= count; commit++) result = appendToken(result, `${name}-${commit}`);
  return result;
}

describe("was it mine? (C2)", () => {
  test("tokens are numbered along the order, and the order remembers the last 16", () => {
    expect(lastNumber([])).toBe(0);
    expect(appendToken(appendToken([], "a"), "b")).toEqual(["1:a", "2:b"]);
    const many = after([], 40);
    expect(many).toHaveLength(KEPT_COMMIT_TOKENS);
    expect(many.at(-1)).toBe("40:other-40");
    expect(lastNumber(many)).toBe(40);
  });

  test.each([0, 1, 15])("my token is found with %d commits after it", (later) => {
    const base = after([], 5);
    expect(findToken(lastNumber(base), after(appendToken(base, "mine"), later), "mine")).toBe("mine");
  });

  test("C2: once 16 commits have followed, mine may have been pushed out: unknown, not a conflict", () => {
    const base = after([], 5);
    expect(findToken(lastNumber(base), after(appendToken(base, "mine"), 16), "mine")).toBe("unknown");
  });

  test.each([0, 1, 16])("with %d commits of others since, mine would still be there: not mine", (others) => {
    const base = after([], 5);
    expect(findToken(lastNumber(base), after(base, others), "mine")).toBe("not-mine");
    expect(findToken(0, after([], others), "mine")).toBe("not-mine");
  });

  test("with 17 commits of others since, nothing can be said", () => {
    expect(findToken(0, after([], 17), "mine")).toBe("unknown");
  });

  test("a token is compared whole", () => {
    expect(findToken(0, ["1:mine-2"], "mine")).toBe("not-mine");
    expect(findToken(0, ["1:a:b"], "a:b")).toBe("mine");
    expect(findToken(0, ["1:a:b"], "b")).toBe("not-mine");
  });

  test("property: the answer is never wrong, and known as long as at most 16 commits came in between", () => {
    fc.assert(
      fc.property(fc.nat(40), fc.nat(40), fc.boolean(), (before, later, landed) => {
        const base = after([], before, "before");
        const tokens = after(landed ? appendToken(base, "mine") : base, later, "later");
        const answer = findToken(lastNumber(base), tokens, "mine");
        if (answer === "unknown") expect(later + (landed ? 1 : 0)).toBeGreaterThan(KEPT_COMMIT_TOKENS);
        else expect(answer).toBe(landed ? "mine" : "not-mine");
      }),
    );
  });
});

describe("commit tokens of an outcome-unknown error (C3)", () => {
  const attempt = (number: number): CommitReference => ({
    token: eventId(number),
    base: number,
    events: [{ id: eventId(number + 1), sequence: number + 1, type: "shipment.instructed", time: "2026-01-05T08:00:00Z" }],
  });

  test("all attempts come back, oldest first, through text that is safe in headers and URLs", () => {
    const attempts = [attempt(1), attempt(2), { ...attempt(3), events: [] }];
    const text = encodeCommitReferences(attempts);
    expect(text).toMatch(/^[A-Za-z0-9_-]+$/);
    expect(decodeCommitReferences(text)).toEqual(attempts);
  });

  const encoded = (value: unknown): string => Buffer.from(JSON.stringify(value)).toString("base64url");

  test.each<[string, string]>([
    ["nothing", ""],
    ["a word", "hello"],
    ["null", encoded(null)],
    ["an empty list", encoded([])],
    ["a single attempt without its list", encoded(attempt(1))],
    ["null in a list", encoded([null])],
    ["a token that is no ULID", encoded([{ ...attempt(1), token: "x" }])],
    ["a token in a list", encoded([{ ...attempt(1), token: [eventId(1)] }])],
    ["a base that is a text", encoded([{ ...attempt(1), base: "1" }])],
    ["a negative base", encoded([{ ...attempt(1), base: -1 }])],
    ["no events", encoded([{ token: eventId(1), base: 1 }])],
    ["an event that is null", encoded([{ ...attempt(1), events: [null] }])],
    ["an event without sequence", encoded([{ ...attempt(1), events: [{ id: eventId(1), type: "t", time: "now" }] }])],
  ])("%s is refused with invalid-option", (_name, text) => {
    expect(thrown(() => decodeCommitReferences(text))).toMatchObject({ code: "invalid-option" });
  });

  test("property: any text decodes or is refused with invalid-option", () => {
    fc.assert(
      fc.property(
        fc.oneof(
          fc.string(),
          fc.json().map((json) => Buffer.from(json).toString("base64url")),
        ),
        (text) => {
          expect(thrown(() => decodeCommitReferences(text))).toMatchObject({ name: "OutboxError", code: "invalid-option" });
        },
      ),
    );
  });
});
