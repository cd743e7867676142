import { describe, expect, test } from "vitest";
import { z } from "zod";
import { defineWebhook, defineWorkflow, isOutboxError, webhooksFromSettings } from "../../src/index.ts";
import { deliver, eventOf, SECRET, secretOf, startReceiver } from "./webhook-support.ts";

const workflow = defineWorkflow({ name: "shop", state: z.unknown(), events: { shipped: z.unknown(), returned: z.unknown() } });
const good = { name: "partner", url: "https://partner.example/hook", secret: SECRET };
const HIDDEN = "h1dden-value";

/** The text of the refusal, in which what may be a key must not be. */
function refusalOf(define: () => unknown): string {
  try {
    define();
  } catch (error) {
    expect(isOutboxError(error, "invalid-option")).toBe(true);
    const { message } = error as Error;
    expect(message).not.toContain(HIDDEN);
    return message;
  }
  throw new Error("not refused");
}

const short = `whsec_${Buffer.alloc(23, HIDDEN).toString("base64")}`;
const long = `whsec_${Buffer.alloc(65, HIDDEN).toString("base64")}`;
const BAD_SECRETS: readonly (readonly [string, unknown])[] = [
  ["empty", ""],
  ["no prefix", SECRET.slice("whsec_".length)],
  ["23 bytes", short],
  ["65 bytes", long],
  ["other characters in it", `whsec_${HIDDEN} ${SECRET.slice(6)}`],
  ["base64url", `whsec_${Buffer.alloc(32, 0xff).toString("base64url")}`],
  ["no padding", SECRET.replace("=", "")],
  ["blanks around", ` ${SECRET} `],
  ["not a text", 5],
];
const BAD_URLS: readonly (readonly [string, unknown, RegExp])[] = [
  ["no URL", HIDDEN, /url is no URL/],
  ["nothing", undefined, /url is no URL/],
  ["C37: user and password", `https://user:${HIDDEN}@partner.example/`, /user or password/],
  ["C37: a user", `https://${HIDDEN}@partner.example/`, /user or password/],
  ["C37: file:", `file:///${HIDDEN}`, /scheme file: https: is allowed/],
  ["javascript:", `javascript:${HIDDEN}`, /scheme javascript: https: is allowed/],
  ["http: without opt-in", `http://partner.example/${HIDDEN}`, /http: only with webhook partner: allowHttp/],
];

describe("defineWebhook refuses", () => {
  test.each(BAD_URLS)("a URL: %s", (_name, url, expected) => {
    expect(refusalOf(() => defineWebhook(workflow, { ...good, url: url as string }))).toMatch(expected);
  });

  test.each(BAD_SECRETS)("a secret: %s", (_name, secret) => {
    const message = "invalid-option: webhook partner: secret is no secret of Standard Webhooks: ";
    expect(refusalOf(() => defineWebhook(workflow, { ...good, secret: secret as string }))).toContain(message);
  });

  test.each<[string, Readonly<Record<string, unknown>>, RegExp]>([
    ["no secret", { secret: undefined }, /either webhook partner: secret or webhook partner: secrets/],
    ["both", { secrets: [SECRET] }, /either .* not both/],
    ["no secrets", { secret: undefined, secrets: [] }, /secrets must be/],
    ["three secrets", { secret: undefined, secrets: [SECRET, SECRET, SECRET] }, /secrets must be/],
    ["a bad second secret", { secret: undefined, secrets: [SECRET, short] }, /secrets\[1\] is no secret/],
    ["a short deadline", { timeoutMs: 999 }, /timeoutMs is 999: a whole number from 1000 to 120000 is allowed \(default 15000\)/],
    ["a long deadline", { timeoutMs: 120_001 }, /timeoutMs is 120001/],
    ["a long answer", { maxResponseBytes: 65_537 }, /maxResponseBytes is 65537/],
    ["a policy", { clientErrors: "skip" }, /clientErrors is "skip": "dead" or "retry" is allowed/],
    ["a flag", { allowHttp: "true" }, /allowHttp is "true": true or false/],
    ["another flag", { allowPrivateAddresses: 1 }, /allowPrivateAddresses is 1: true or false/],
    ["a header's name", { headers: { "x y": HIDDEN } }, /headers is "x y": names of HTTP headers/],
    ["a header of its own", { headers: { "Webhook-Id": HIDDEN } }, /headers is "Webhook-Id": the webhook sets this header/],
    ["the connection's headers", { headers: { Host: HIDDEN } }, /headers is "Host": the webhook sets this header/],
    ["a header twice", { headers: { a: "1", A: HIDDEN } }, /headers is "A": a header is allowed once/],
    ["a header with a line break", { headers: { "x-key": `${HIDDEN}\r\nx: y` } }, /the value of x-key must be printable ASCII/],
    [
      "a handler shorter than its request",
      { timeoutMs: 20_000, retry: { timeoutMs: 20_000 } },
      /retry\.timeoutMs is 20000: more than the 20000/,
    ],
    ["the same for one type", { retryByType: { shipped: { timeoutMs: 500 } } }, /retry\.timeoutMs is 500/],
    ["a concurrency", { concurrency: 0 }, /concurrency is 0/],
  ])("%s", (_name, options, expected) => {
    expect(refusalOf(() => defineWebhook(workflow, { ...good, ...options }))).toMatch(expected);
  });

  test("an event type that the workflow does not declare", () => {
    // @ts-expect-error it does not compile either
    expect(() => defineWebhook(workflow, { ...good, events: ["lost"] })).toThrow("unknown-event-type");
  });
});

describe("defineWebhook", () => {
  test("is a subscription: filter, predicate, retries, concurrency", () => {
    const when = ({ orderId }: { orderId: string }): boolean => orderId === "o-1";
    const webhook = defineWebhook(workflow, { ...good, events: ["shipped"], when, concurrency: 3, retry: { onDead: "skip" } });
    expect(webhook).toMatchObject({ name: "partner", workflow, concurrency: 3, retry: { onDead: "skip", timeoutMs: 60_000 } });
    const event = eventOf();
    expect([webhook.wants(event), webhook.wants({ ...event, type: "returned" })]).toEqual([true, false]);
    expect(webhook.wants({ ...event, orderId: "o-2" as typeof event.orderId })).toBe(false);
  });

  test("the handler has more time than its request", () => {
    expect(defineWebhook(workflow, { ...good, timeoutMs: 120_000 }).retry.timeoutMs).toBe(125_000);
  });
});

describe("webhooksFromSettings", () => {
  const setting = (suffix: string): string => `ORDERED_OUTBOX_WEBHOOK_SHOP_MAIL${suffix}`;
  const minimal = { [setting("_URL")]: good.url, [setting("_SECRET")]: SECRET };

  test("none, and other settings are nobody's business", () => {
    expect(webhooksFromSettings(workflow, {})).toEqual([]);
    expect(webhooksFromSettings(workflow, { PATH: "/bin", ORDERED_OUTBOX_ACCOUNT: "x", ORDERED_OUTBOX_WEBHOOK_A_URL: undefined })).toEqual(
      [],
    );
  });

  test("an empty setting counts as missing: it is the default, or a webhook that was taken out", () => {
    const suffixes = ["_SECRET_OLD", "_EVENTS", "_TIMEOUT_MS", "_CLIENT_ERRORS", "_CONCURRENCY", "_ON_DEAD", "_MAX_RESPONSE_BYTES"];
    const flags = ["_ALLOW_PRIVATE_ADDRESSES", "_ALLOW_HTTP"];
    const empty = Object.fromEntries([...suffixes, ...flags].map((suffix) => [setting(suffix), ""]));
    const [webhook, ...others] = webhooksFromSettings(workflow, { ...minimal, ...empty, ORDERED_OUTBOX_WEBHOOK_OLD_URL: "" });
    expect(others).toEqual([]);
    expect(webhook).toMatchObject({ name: "shop-mail", concurrency: undefined, retry: { onDead: "block", timeoutMs: 60_000 } });
    expect(webhook!.wants(eventOf())).toBe(true);
  });

  test("several, in the order of their names", () => {
    const other = { ORDERED_OUTBOX_WEBHOOK_ERP2_SECRET: SECRET, ORDERED_OUTBOX_WEBHOOK_ERP2_URL: good.url };
    const nested = { ORDERED_OUTBOX_WEBHOOK_A_SECRET_OLD_URL: good.url, ORDERED_OUTBOX_WEBHOOK_A_SECRET_OLD_SECRET: SECRET };
    const webhooks = webhooksFromSettings(workflow, { ...minimal, ...other, ...nested });
    expect(webhooks.map(({ name }) => name)).toEqual(["a-secret-old", "erp2", "shop-mail"]);
    expect(webhooks.every(({ retry }) => retry.onDead === "block")).toBe(true);
  });

  test("every setting arrives", async () => {
    const receiver = await startReceiver((response) => void response.writeHead(404).end("0123456789"));
    const [webhook] = webhooksFromSettings(workflow, {
      [setting("_URL")]: receiver.url,
      [setting("_SECRET")]: secretOf("b"),
      [setting("_SECRET_OLD")]: secretOf("a"),
      [setting("_EVENTS")]: "returned, shipped",
      [setting("_TIMEOUT_MS")]: "90000",
      [setting("_CLIENT_ERRORS")]: "retry",
      [setting("_CONCURRENCY")]: "7",
      [setting("_ON_DEAD")]: "skip",
      [setting("_MAX_RESPONSE_BYTES")]: "4",
      [setting("_ALLOW_PRIVATE_ADDRESSES")]: "true",
      [setting("_ALLOW_HTTP")]: "true",
    });
    await using own = webhook!;
    expect(own).toMatchObject({ concurrency: 7, retry: { onDead: "skip", timeoutMs: 95_000 } });
    const event = eventOf();
    expect([own.wants(event), own.wants({ ...event, type: "lost" })]).toEqual([true, false]);
    await expect(deliver(own, event)).rejects.toMatchObject({
      name: "RetryableError",
      message: expect.stringMatching(/answered 404: 0123$/),
    });
    expect(String(receiver.received[0]!.headers["webhook-signature"]).split(" ").length).toBe(2);
  });

  test.each<[string, Readonly<Record<string, string>>, string]>([
    [
      "an unknown suffix",
      { [setting("_RETRIES")]: "3" },
      `setting ${setting("_RETRIES")} is unknown: ORDERED_OUTBOX_WEBHOOK_<NAME> with one of _URL, `,
    ],
    ["a misspelt one", { [setting("_SECRETS")]: HIDDEN }, `setting ${setting("_SECRETS")} is unknown`],
    ["small letters", { ORDERED_OUTBOX_WEBHOOK_shop_URL: good.url }, "setting ORDERED_OUTBOX_WEBHOOK_shop_URL is unknown"],
    ["no name", { ORDERED_OUTBOX_WEBHOOK_URL: good.url }, "setting ORDERED_OUTBOX_WEBHOOK_URL is unknown"],
    ["a long name that is none", { [`ORDERED_OUTBOX_WEBHOOK_${"A".repeat(5_000)}-_URL`]: good.url }, "is unknown"],
    ["two underscores", { ORDERED_OUTBOX_WEBHOOK_A__B_URL: good.url }, "setting ORDERED_OUTBOX_WEBHOOK_A__B_URL is unknown"],
    ["a long name", { [`ORDERED_OUTBOX_WEBHOOK_${"A".repeat(51)}_URL`]: good.url }, "at most 50 characters"],
    ["no URL", { ORDERED_OUTBOX_WEBHOOK_A_SECRET: SECRET }, "setting ORDERED_OUTBOX_WEBHOOK_A_URL is missing"],
    ["no secret", { ORDERED_OUTBOX_WEBHOOK_A_URL: good.url }, "setting ORDERED_OUTBOX_WEBHOOK_A_SECRET is missing"],
    ["a bad URL", { [setting("_URL")]: HIDDEN }, `setting ${setting("_URL")} is no URL`],
    ["http:", { [setting("_URL")]: `http://a/${HIDDEN}` }, `http: only with setting ${setting("_ALLOW_HTTP")}`],
    [
      "a receiver on this machine",
      { [setting("_URL")]: `http://127.0.0.1:8080/${HIDDEN}`, [setting("_ALLOW_HTTP")]: "true" },
      `setting ${setting("_URL")}: 127.0.0.1 is not a public address (loopback): allowed only with setting ${setting("_ALLOW_PRIVATE_ADDRESSES")}`,
    ],
    [
      "a receiver on this machine by its name",
      { [setting("_URL")]: `https://localhost/${HIDDEN}` },
      `localhost is this machine: allowed only with setting ${setting("_ALLOW_PRIVATE_ADDRESSES")}`,
    ],
    ["a bad secret", { [setting("_SECRET")]: short }, `setting ${setting("_SECRET")} is no secret`],
    [
      "a bad secret beside the old one",
      { [setting("_SECRET")]: short, [setting("_SECRET_OLD")]: SECRET },
      `setting ${setting("_SECRET")} is no secret`,
    ],
    ["a bad old secret", { [setting("_SECRET_OLD")]: short }, `setting ${setting("_SECRET_OLD")} is no secret`],
    [
      "an unknown event",
      { [setting("_EVENTS")]: "shipped,lost" },
      `setting ${setting("_EVENTS")} holds "lost", which workflow shop does not declare: shipped, returned are`,
    ],
    ["an empty URL", { [setting("_URL")]: "" }, `setting ${setting("_URL")} is missing`],
    ["an empty secret", { [setting("_SECRET")]: "" }, `setting ${setting("_SECRET")} is missing`],
    ["a list of events without any", { [setting("_EVENTS")]: "," }, `setting ${setting("_EVENTS")} holds ""`],
    ["a number", { [setting("_TIMEOUT_MS")]: "15s" }, `setting ${setting("_TIMEOUT_MS")} is "15s": a whole number from 1000`],
    ["a number in another notation", { [setting("_TIMEOUT_MS")]: "1e4" }, `setting ${setting("_TIMEOUT_MS")} is "1e4"`],
    ["a number out of bounds", { [setting("_MAX_RESPONSE_BYTES")]: "65537" }, `setting ${setting("_MAX_RESPONSE_BYTES")} is 65537`],
    ["a concurrency", { [setting("_CONCURRENCY")]: "0" }, `setting ${setting("_CONCURRENCY")} is 0`],
    ["a flag", { [setting("_ALLOW_PRIVATE_ADDRESSES")]: "yes" }, `setting ${setting("_ALLOW_PRIVATE_ADDRESSES")} is "yes": true or false`],
    ["a policy", { [setting("_CLIENT_ERRORS")]: "no" }, `setting ${setting("_CLIENT_ERRORS")} is "no"`],
    ["another policy", { [setting("_ON_DEAD")]: "drop" }, `setting ${setting("_ON_DEAD")} is "drop": block or skip`],
  ])("refuses %s, by the setting's name", (_name, settings, expected) => {
    expect(refusalOf(() => webhooksFromSettings(workflow, { ...minimal, ...settings }))).toContain(expected);
  });
});
