/** Where a webhook may connect to (C37). */
import { fork } from "node:child_process";
import { once } from "node:events";
import { lookup as systemLookup, type LookupAddress } from "node:dns";
import type { LookupFunction } from "node:net";
import { fileURLToPath } from "node:url";
import { describe, expect, test } from "vitest";
import { refusedRange } from "../../src/webhook/addresses.ts";
import { createGuardedConnector } from "../../src/webhook/guarded-connector.ts";
import { ManualClock } from "../support/manual-clock.ts";
import { deliver, failureOf, startReceiver, until, webhookTo } from "./webhook-support.ts";

const NAMED = "partner.example";

/** Each lookup takes the next of the answers; the last one stays. */
function lookupOf(...answers: readonly (readonly string[])[]): { readonly lookup: LookupFunction; readonly asked: string[] } {
  const asked: string[] = [];
  return {
    asked,
    lookup: (hostname, _options, callback) => {
      const addresses = answers[Math.min(asked.length, answers.length - 1)]!;
      asked.push(hostname);
      callback(
        null,
        addresses.map((address): LookupAddress => ({ address, family: address.includes(":") ? 6 : 4 })),
      );
    },
  };
}

/** Connects to where a URL leads, as a webhook would that had not looked at it before. */
async function connectionTo(host: string, port: number): Promise<Error> {
  const { hostname } = new URL(`http://${host}:${port}/`);
  const connect = createGuardedConnector(
    { allowPrivateAddresses: false, optIn: "the option", lookup: systemLookup, ca: undefined },
    new AbortController().signal,
  );
  const { promise, resolve, reject } = Promise.withResolvers<Error>();
  const target = { hostname: hostname.replace(/^\[|\]$/g, ""), host: hostname, protocol: "http:", port: String(port) };
  connect(target, (error, socket) => {
    socket?.destroy();
    if (error === null) reject(new Error("connected"));
    else resolve(error);
  });
  return promise;
}

describe("C37: refused when it is defined and at connect time, for good, unless opted in", () => {
  test.each([
    "127.0.0.1",
    "0x7f000001",
    "2130706433",
    "017700000001",
    "127.1",
    "0.0.0.0",
    "localhost",
    "LOCALHOST.",
    "partner.localhost",
    "[::1]",
    "[::]",
    "[::ffff:127.0.0.1]",
    "[::ffff:7f00:1]",
    "[::127.0.0.1]",
    "[64:ff9b::7f00:1]",
  ])("a receiver on this machine at %s gets no connection", async (host) => {
    const receiver = await startReceiver();
    expect(() => webhookTo(`http://${host}:${receiver.port}/`, { allowPrivateAddresses: false })).toThrow(
      /^invalid-option: webhook partner: url: \S+ (is not a public address \(\w+\)|is this machine): allowed only with webhook partner: allowPrivateAddresses$/,
    );
    expect((await connectionTo(host, receiver.port)).message).toMatch(
      /(is not a public address \(\w+\)|is this machine); only the option lets the webhook connect to it$/,
    );
    expect(receiver.opened()).toBe(0);
  });

  test.each([
    ["169.254.169.254", "linkLocal"],
    ["[::ffff:169.254.169.254]", "linkLocal"],
    ["[::ffff:a9fe:a9fe]", "linkLocal"],
    ["10.0.0.5", "private"],
    ["168.63.129.16", "platform"],
    ["[fd00:ec2::254]", "uniqueLocal"],
  ])("%s", async (host, range) => {
    const expected = `is not a public address (${range})`;
    expect(() => webhookTo(`https://${host}/`, { allowPrivateAddresses: false })).toThrow(expected);
    expect((await connectionTo(host, 443)).message).toContain(expected);
  });

  test.each([[["10.0.0.5"]], [["127.0.0.1"]], [["3ffe::1", "127.0.0.1"]], [["fe80::1%eth0"]]])(
    "a name with the addresses %j",
    async (addresses) => {
      const receiver = await startReceiver();
      const { lookup } = lookupOf(addresses);
      const webhook = webhookTo(`http://${NAMED}:${receiver.port}/`, { allowPrivateAddresses: false }, { lookup });
      const failure = await failureOf(deliver(webhook));
      expect(failure).toMatchObject({ name: "PermanentError", message: expect.stringContaining(`${NAMED} is ${addresses.at(-1)}, which`) });
      expect(failure.message).toMatch(/; only webhook partner: allowPrivateAddresses lets the webhook connect to it$/);
      expect(receiver.opened()).toBe(0);
    },
  );

  test("a name that is public when it is checked and private afterwards: one lookup for a connection, its address is the one connected to", async () => {
    const receiver = await startReceiver();
    // An address of the internet that nobody has.
    const { lookup, asked } = lookupOf(["3ffe::1"], ["127.0.0.1"]);
    const clock = new ManualClock();
    const webhook = webhookTo(`http://${NAMED}:${receiver.port}/`, { allowPrivateAddresses: false, timeoutMs: 1_000 }, { lookup, clock });
    const first = failureOf(deliver(webhook));
    await until(() => asked.length > 0);
    await clock.advance(1_000);
    expect(await first).toHaveProperty("name", "RetryableError");
    expect([asked, receiver.opened()]).toEqual([[NAMED], 0]);
    expect(
      await failureOf(deliver(webhookTo(`http://${NAMED}:${receiver.port}/`, { allowPrivateAddresses: false }, { lookup }))),
    ).toHaveProperty("name", "PermanentError");
    expect([asked, receiver.opened()]).toEqual([[NAMED, NAMED], 0]);
  });

  test("a redirect to such an address is not followed either", async () => {
    const inside = await startReceiver();
    const receiver = await startReceiver((response) => void response.writeHead(302, { location: inside.url }).end());
    expect(await failureOf(deliver(webhookTo(receiver.url)))).toHaveProperty("name", "RetryableError");
    expect(inside.opened()).toBe(0);
  });

  test("opted in: local receivers by literal and by name", async () => {
    const receiver = await startReceiver();
    const { lookup } = lookupOf(["127.0.0.1"]);
    await deliver(webhookTo(`http://0x7f000001:${receiver.port}/`));
    await deliver(webhookTo(`http://${NAMED}:${receiver.port}/`, {}, { lookup }));
    expect(receiver.received.length).toBe(2);
  });

  test("a name without addresses, or that can't be looked up, is a failed attempt like any other", async () => {
    const unknown: LookupFunction = (_hostname, _options, callback) =>
      callback(Object.assign(new Error("no such name"), { code: "ENOTFOUND" }), []);
    for (const lookup of [lookupOf([]).lookup, unknown]) {
      const failure = await failureOf(deliver(webhookTo(`https://${NAMED}/`, { allowPrivateAddresses: false }, { lookup })));
      expect(failure).toHaveProperty("name", "RetryableError");
    }
  });
});

describe("C37: ranges", () => {
  test.each([
    "1.1.1.1",
    "168.63.129.15",
    "9.255.255.255",
    "11.0.0.0",
    "172.15.0.1",
    "172.32.0.1",
    "2606:4700::1111",
    "::ffff:1.1.1.1",
    "3ffe::1",
  ])("%s is open", (address) => {
    expect(refusedRange(address)).toBeUndefined();
  });

  test.each([
    ["0.0.0.0", "unspecified"],
    ["0.1.2.3", "unspecified"],
    ["127.255.255.254", "loopback"],
    ["10.0.0.0", "private"],
    ["172.16.0.1", "private"],
    ["172.31.255.255", "private"],
    ["192.168.1.1", "private"],
    ["169.254.0.1", "linkLocal"],
    ["100.64.0.1", "carrierGradeNat"],
    ["100.100.100.200", "carrierGradeNat"],
    ["192.0.0.192", "reserved"],
    ["198.18.0.1", "reserved"],
    ["224.0.0.1", "multicast"],
    ["240.0.0.1", "reserved"],
    ["255.255.255.255", "broadcast"],
    ["168.63.129.16", "platform"],
    ["::ffff:168.63.129.16", "platform"],
    ["::", "unspecified"],
    ["::1", "loopback"],
    ["::ffff:10.0.0.5", "private"],
    ["::10.0.0.5", "private"],
    ["::a00:5", "unassigned"],
    ["fe80::1", "linkLocal"],
    ["fe80::1%eth0", "linkLocal"],
    ["fec0::1", "deprecatedSiteLocal"],
    ["fc00::1", "uniqueLocal"],
    ["fd12:3456::1", "uniqueLocal"],
    ["ff02::1", "multicast"],
    ["64:ff9b::a00:5", "rfc6052"],
    ["64:ff9b:1::1", "rfc6052"],
    ["2002:a00:5::", "6to4"],
    ["2001:0:1::1", "teredo"],
    ["2001:db8::1", "reserved"],
    ["4000::1", "unassigned"],
    ["localhost", "no address"],
    ["", "no address"],
  ])("%s is not (%s)", (address, range) => {
    expect(refusedRange(address)).toBe(range);
  });
});

test("proxies of the environment are not used, and idle connections hold no process open", async () => {
  const receiver = await startReceiver((response) => void response.writeHead(200, { "keep-alive": "timeout=600" }).end("ok"));
  const proxy = await startReceiver();
  const proxyUrl = `http://127.0.0.1:${proxy.port}`;
  const sender = fork(fileURLToPath(new URL("./fixtures/sender.ts", import.meta.url)), [receiver.url], {
    env: { ...process.env, NODE_USE_ENV_PROXY: "1", HTTP_PROXY: proxyUrl, http_proxy: proxyUrl, ALL_PROXY: proxyUrl, NO_PROXY: "" },
  });
  // It does not close its webhook and does not exit by itself.
  expect(await once(sender, "exit")).toEqual([0, null]);
  expect([receiver.received.length, proxy.opened()]).toEqual([2, 0]);
});
