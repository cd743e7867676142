import { createHmac } from "node:crypto";
import { Webhook } from "standardwebhooks";
import * as fc from "fast-check";
import { describe, expect, test } from "vitest";
import { verifyWebhook, type ReceivedHeaders, type WebhookRefusal } from "../../src/index.ts";
import { SECRET, secretOf } from "./webhook-support.ts";

const NOW = Date.UTC(2026, 0, 1, 12, 0, 0, 500);
const SECONDS = Math.floor(NOW / 1_000);
const TEXT = '{"id":9007199254740993,"note":"caf\u00E9 \u2028 \u{1F4E6} \uFEFF"}';
const BODY = Buffer.from(TEXT);

/** Signed by the library, as a foreign sender would. */
function signed(secret = SECRET, seconds = SECONDS, text = TEXT): Record<string, string> {
  return {
    "webhook-id": "evt-1",
    "webhook-timestamp": String(seconds),
    "webhook-signature": new Webhook(secret).sign("evt-1", new Date(seconds * 1_000), text),
  };
}

function verdict(headers: ReceivedHeaders, body: Uint8Array | string = BODY, secrets: string | readonly string[] = SECRET): string {
  const result = verifyWebhook(secrets, headers, body, { nowMs: NOW });
  return result.ok ? "ok" : result.reason;
}

describe("verifyWebhook accepts", () => {
  test("what the library signs; id, time and text are those that were signed", () => {
    expect(verifyWebhook(SECRET, signed(), BODY, { nowMs: NOW })).toEqual({
      ok: true,
      id: "evt-1",
      timestampMs: SECONDS * 1_000,
      text: TEXT,
    });
  });

  test("every form of headers and body", () => {
    expect(verdict(new Headers(signed()))).toBe("ok");
    expect(verdict(Object.fromEntries(Object.entries(signed()).map(([name, value]) => [name, [value]])))).toBe("ok");
    expect(verdict(signed(), TEXT)).toBe("ok");
    expect(verdict(signed(), new Uint8Array(BODY))).toBe("ok");
  });

  test("either secret of a rotation, at either side, in either order", () => {
    const [old, next] = [secretOf("o"), secretOf("n")];
    expect([verdict(signed(old), BODY, [next, old]), verdict(signed(next), BODY, [next, old])]).toEqual(["ok", "ok"]);
    const both = { ...signed(old), "webhook-signature": `${signed(next)["webhook-signature"]} ${signed(old)["webhook-signature"]}` };
    expect([verdict(both, BODY, old), verdict(both, BODY, next), verdict(both)]).toEqual(["ok", "ok", "bad-signature"]);
  });

  test.each([
    [-300, "ok"],
    [-301, "too-old"],
    [300, "ok"],
    [301, "too-new"],
    [-1_000_000_000, "too-old"],
  ])("%i s away: %s", (away, expected) => {
    expect(verdict(signed(SECRET, SECONDS + away))).toBe(expected);
  });

  test("by a tolerance and a clock of one's own", () => {
    const headers = signed(SECRET, Math.floor(Date.now() / 1_000));
    expect(verifyWebhook(SECRET, headers, BODY).ok).toBe(true);
    expect(verifyWebhook(SECRET, signed(SECRET, SECONDS - 2), BODY, { nowMs: NOW, toleranceMs: 1_000 })).toEqual({
      ok: false,
      reason: "too-old",
    });
    expect(verifyWebhook(SECRET, signed(), BODY, { nowMs: Number.NaN })).toEqual({ ok: false, reason: "too-old" });
  });
});

describe("verifyWebhook refuses, and does not throw", () => {
  const changed = (name: string, value: unknown): ReceivedHeaders => ({ ...signed(), [name]: value as string });

  test.each<[string, ReceivedHeaders, Uint8Array | string, WebhookRefusal]>([
    ["no headers", {}, BODY, "missing-header"],
    ["headers that are none", undefined as unknown as ReceivedHeaders, BODY, "missing-header"],
    ["no id", changed("webhook-id", undefined), BODY, "missing-header"],
    ["an empty id", changed("webhook-id", ""), BODY, "missing-header"],
    ["no timestamp", changed("webhook-timestamp", undefined), BODY, "missing-header"],
    ["no signature", changed("webhook-signature", undefined), BODY, "missing-header"],
    ["a header twice", changed("webhook-signature", ["v1,a", "v1,b"]), BODY, "missing-header"],
    ["a header of another type", changed("webhook-id", 5), BODY, "missing-header"],
    ["a timestamp with something behind it", changed("webhook-timestamp", `${SECONDS}abc`), BODY, "bad-timestamp"],
    ["a timestamp in ms", changed("webhook-timestamp", String(NOW)), BODY, "bad-timestamp"],
    ["a timestamp of 400 digits", changed("webhook-timestamp", "9".repeat(400)), BODY, "bad-timestamp"],
    ["a negative timestamp", changed("webhook-timestamp", "-1"), BODY, "bad-timestamp"],
    ["another time", changed("webhook-timestamp", String(SECONDS + 1)), BODY, "bad-signature"],
    ["another id", changed("webhook-id", "evt-2"), BODY, "bad-signature"],
    ["another body", signed(), Buffer.from(TEXT.replace("993", "992")), "bad-signature"],
    ["an empty body", signed(), "", "bad-signature"],
    ["a body that was serialised anew", signed(), JSON.stringify(JSON.parse(TEXT)), "bad-signature"],
    ["a body with a byte order mark that was not signed", signed(), Buffer.from(`\uFEFF${TEXT}`), "bad-signature"],
    ["a body without its byte order mark", signed(SECRET, SECONDS, `\uFEFF${TEXT}`), BODY, "bad-signature"],
    ["another secret's", signed(secretOf("x")), BODY, "bad-signature"],
    ["a short signature", changed("webhook-signature", "v1,"), BODY, "bad-signature"],
    ["a long signature", changed("webhook-signature", `${signed()["webhook-signature"]}x`), BODY, "bad-signature"],
    ["no version", changed("webhook-signature", signed()["webhook-signature"]!.slice(3)), BODY, "bad-signature"],
    ["another version", changed("webhook-signature", signed()["webhook-signature"]!.replace("v1", "v2")), BODY, "bad-signature"],
    ["letters of two bytes", changed("webhook-signature", "\u00E9".repeat(47)), BODY, "bad-signature"],
    [
      "the right one behind 16 others",
      changed("webhook-signature", `${"v1,x ".repeat(16)}${signed()["webhook-signature"]}`),
      BODY,
      "bad-signature",
    ],
    ["a body that is not UTF-8", signed(), Buffer.from([0xff, 0xfe]), "bad-body"],
    ["a body that only a tolerant decoder takes for the signed one", signed(SECRET, SECONDS, "\uFFFD"), Buffer.from([0xff]), "bad-body"],
    ["half a surrogate pair", signed(), "\uD83D", "bad-body"],
    ["a body of another type", signed(), 5 as unknown as string, "bad-body"],
  ])("%s", (_name, headers, body, expected) => {
    expect(verdict(headers, body)).toBe(expected);
  });

  test.each([[""], ["whsec_"], ["whsec_AAAA"], [[]], [[SECRET, "x"]], [undefined], [null], [5]])("the secrets %j", (secrets) => {
    expect(verifyWebhook(secrets as string, signed(), BODY, { nowMs: NOW })).toEqual({ ok: false, reason: "bad-secret" });
  });

  test("any garbage", () => {
    const text = fc.oneof(fc.string({ unit: "binary" }), fc.constantFrom("v1,", "v1,=", "1767268800", "evt-1"));
    fc.assert(
      fc.property(text, text, text, fc.uint8Array(), (id, timestamp, signature, body) => {
        const headers = { "webhook-id": id, "webhook-timestamp": timestamp, "webhook-signature": signature };
        expect(verifyWebhook(SECRET, headers, body, { nowMs: NOW }).ok).toBe(false);
      }),
    );
  });
});

test("its signatures are those of the specification, by another implementation of HMAC", () => {
  const key = Buffer.from(SECRET.slice("whsec_".length), "base64");
  const signature = createHmac("sha256", key).update(`evt-1.${SECONDS}.`).update(BODY).digest("base64");
  expect(verdict({ ...signed(), "webhook-signature": `v1,${signature}` })).toBe("ok");
});
