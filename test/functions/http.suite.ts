/** The operations API over real HTTP, tried with what it must refuse. */
import { writeFileSync } from "node:fs";
import { request } from "node:http";
import { join } from "node:path";
import { json } from "node:stream/consumers";
import { afterAll, beforeAll, beforeEach, describe, expect, test } from "vitest";
import { z } from "zod";
import { defineWorkflow } from "../../src/core/workflow.ts";
import { encodeOrderId, parseOrderId } from "../../src/core/order-id.ts";
import { encodeWakeUp } from "../../src/core/wake-up.ts";
import { createOutbox } from "../../src/producer/outbox.ts";
import { connectStorage, type ConnectedStorage } from "../../src/storage/connect.ts";
import { startAzurite, type Azurite } from "../support/azurite.ts";
import { FUNCTION_KEY } from "./host/http-front.ts";
import { readLog, startHost, type Host } from "./host/start-host.ts";
import { startStorageProxy, type StorageProxy } from "./host/storage-proxy.ts";
import { SETUP_MS, type UnpackedApp } from "./host/unpacked-app.ts";

/** The shipment workflow without its schemas, to commit what a handler's schema refuses: a dead letter at once. */
const loose = defineWorkflow({
  name: "shipment",
  state: z.object({ status: z.string() }),
  events: { "order.purchased": z.unknown(), "shipment.instructed": z.unknown() },
});

const STRANGE_IDS = ["a/b", "a%2Fb", "..", "100%", "?&=#+", "日本", "📦", " x ", "1e5"];
const READS = ["status", "orders", "dead-letters", "verify"];
const READS_OF_ORDER = ["order", "explain", "verify"];
const CHANGES = ["redrive", "discard", "pause", "resume", "wake"];
const METHODS = ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"];
const SECRET = "a-payload-that-is-nobodys-business";

interface Answer {
  readonly status: number;
  readonly headers: Headers;
  readonly body: Record<string, unknown>;
}

export function httpSuite(appOf: () => UnpackedApp): void {
  describe("the operations API", () => {
    let azurite: Azurite;
    let storage: ConnectedStorage;
    let proxy: StorageProxy;
    let host: Host;
    /** With App Service authentication on. */
    let authenticated: Host;
    let logFile: string;

    beforeAll(async () => {
      azurite = await startAzurite();
      storage = connectStorage({ connectionString: azurite.connectionString });
      await storage.createResources();
      proxy = await startStorageProxy(azurite.connectionString);
      logFile = join(appOf().scratch, "http.log");
      writeFileSync(logFile, "");
      const start = (settings: Readonly<Record<string, string>>): Promise<Host> =>
        startHost({ appFolder: appOf().folder, logFile, settings: { AzureWebJobsStorage: proxy.connectionString, ...settings } });
      [host, authenticated] = await Promise.all([start({}), start({ WEBSITE_AUTH_ENABLED: "True" })]);
      for (const id of STRANGE_IDS) {
        await commit(id, "order.purchased");
        await host.invoke("wakeUps", encodeWakeUp(parseOrderId(id)));
      }
    }, SETUP_MS);

    beforeEach(() => {
      proxy.forget();
      writeFileSync(logFile, "");
    });

    afterAll(async () => {
      await host?.kill();
      await authenticated?.kill();
      await proxy?.[Symbol.asyncDispose]();
      await azurite?.stop();
    }, SETUP_MS);

    async function commit(orderId: string, type: "order.purchased" | "shipment.instructed"): Promise<void> {
      const outbox = createOutbox({ workflow: loose, storage });
      await outbox.commit(orderId, () => ({ state: { status: "awaiting-instruction" }, events: [{ type, data: { note: SECRET } }] }));
    }

    /** Its only event is a dead letter that blocks the stream. */
    async function blockedOrder(orderId: string): Promise<string> {
      await commit(orderId, "shipment.instructed");
      await host.invoke("wakeUps", encodeWakeUp(parseOrderId(orderId)));
      proxy.forget();
      return orderId;
    }

    async function call(path: string, init: RequestInit = {}, on: Host = host): Promise<Answer> {
      const headers = new Headers(init.headers);
      if (!headers.has("x-functions-key")) headers.set("x-functions-key", FUNCTION_KEY);
      const response = await fetch(`${on.url}/operations/${path}`, { ...init, headers });
      const text = await response.text();
      return { status: response.status, headers: response.headers, body: text === "" ? {} : (JSON.parse(text) as Answer["body"]) };
    }

    const post = (path: string, body: unknown, headers: Readonly<Record<string, string>> = {}, on: Host = host): Promise<Answer> =>
      call(path, { method: "POST", body: JSON.stringify(body), headers: { "content-type": "application/json", ...headers } }, on);

    /** A problem document with this status, and no request that could have changed anything. */
    function expectRefusal({ status, headers, body }: Answer, expected: number): void {
      expect([status, headers.get("content-type")]).toEqual([expected, "application/problem+json"]);
      expect(body).toMatchObject({ type: "about:blank", status: expected, title: expect.any(String), detail: expect.any(String) });
      expect(proxy.writes()).toEqual([]);
    }

    test.each(READS)("GET %s answers, and changes nothing", async (path) => {
      const { status, headers } = await call(path);
      expect([status, headers.get("content-type"), headers.get("cache-control")]).toEqual([200, "application/json", "no-store"]);
      expect(proxy.seen.length).toBeGreaterThan(0);
      expect(proxy.writes()).toEqual([]);
    });

    test("GET orders tells the orders of each state, and whether these are all", async () => {
      const blocked = await blockedOrder("blocked");
      await commit("unrelayed", "order.purchased");
      for (const [state, orderId] of [
        ["blocked", blocked],
        ["unrelayed", "unrelayed"],
      ]) {
        const { status, body } = await call(`orders?state=${state}`);
        expect(status).toBe(200);
        const listed = expect.objectContaining({ orderId, backlog: 1, head: expect.objectContaining({ state }) });
        expect(body).toEqual({ orders: expect.arrayContaining([listed]), complete: true });
      }
      const { status, body } = await call("orders?state=missing");
      expect([status, body]).toEqual([200, { orders: [], complete: true }]);
    });

    test.each(STRANGE_IDS.flatMap((id) => READS_OF_ORDER.map((path) => [path, id])))("GET %s of order %j", async (path, id) => {
      const { status, body } = await call(`${path}?order=${encodeURIComponent(id)}`);
      expect(status).toBe(200);
      if (path === "order") expect(body).toMatchObject({ orderId: id, sequence: 1, timeline: [{ state: "Sent" }] });
      expect(proxy.writes()).toEqual([]);
    });

    test.each(READS_OF_ORDER)("GET %s of an order that nobody knows is 404", async (path) => {
      expectRefusal(await call(`${path}?order=nobody`), 404);
    });

    test.each([
      ["order", "a parameter is missing"],
      ["order?order=", "empty"],
      ["order?order=a&order=b", "twice"],
      ["order?order=a&orders=b", "unknown"],
      ["order?order=%ff", "no UTF-8"],
      ["order?order=100%", "a bare percent sign"],
      [`order?order=${"x".repeat(129)}`, "too long"],
      ["orders?state=lost", "no such state"],
      ["orders?subscription=a/b", "no name of a subscription"],
      ["dead-letter?order=a&subscription=audit-log&event=1", "no event id"],
      ["dead-letters?olderThanMs=1e3", "no digits"],
      ["status?verbose=1", "takes none"],
    ])("GET %s is 400: %s", async (path) => {
      expectRefusal(await call(path), 400);
    });

    test("every other method of every path is 405, and says which one is right", async () => {
      for (const [path, right] of [
        ...[...READS, ...READS_OF_ORDER].map((name) => [name, "GET"]),
        ...CHANGES.map((name) => [name, "POST"]),
      ]) {
        for (const method of METHODS.filter((each) => each !== right)) {
          const answer = await call(path!, { method });
          expect([method, path, answer.status, answer.headers.get("allow")]).toEqual([method, path, 405, right]);
          if (method !== "HEAD") expectRefusal(answer, 405);
        }
      }
      expect(proxy.seen).toEqual([]);
    });

    test.each(["", "nothing", "order/100", "status/..%2f..", "Constructor", "__proto__"])("the path %j is 404", async (path) => {
      expectRefusal(await call(path, { method: "POST" }), 404);
    });

    test("without a key the host lets nobody in", async () => {
      for (const path of [...READS, ...CHANGES, "nothing"]) {
        const { status } = await call(path, { method: CHANGES.includes(path) ? "POST" : "GET", headers: { "x-functions-key": "guessed" } });
        expect([path, status]).toEqual([path, 401]);
      }
      expect(proxy.seen).toEqual([]);
    });

    describe.each(CHANGES)("POST %s", (path) => {
      const good = { order: "a/b", subscription: "audit-log", reason: "because" };

      test.each([undefined, "text/plain", "application/x-www-form-urlencoded", "application/json; charset=utf-16", "application/jsonp"])(
        "with content type %s is 415",
        async (type) => {
          const headers: Record<string, string> = type === undefined ? {} : { "content-type": type };
          expectRefusal(await call(path, { method: "POST", body: Buffer.from(JSON.stringify(good)), headers }), 415);
        },
      );

      test.each([[""], ["{"], ['{"reason":"\xff"}']])("with the body %j is 400", async (body) => {
        const headers = { "content-type": "application/json" };
        expectRefusal(await call(path, { method: "POST", body: Buffer.from(body, "latin1"), headers }), 400);
      });

      test.each([
        ["no reason", { ...good, reason: undefined }],
        ["an empty reason", { ...good, reason: "" }],
        ["a reason that is too long", { ...good, reason: "x".repeat(501) }],
        ["an unknown member", { ...good, orders: ["a"] }],
        ["an order that is a number", { ...good, order: 100 }],
        ["an order that is too long", { ...good, order: "x".repeat(129) }],
        ["a dry run that is no boolean", { ...good, dryRun: "false" }],
        ["a list", [good]],
        ["null", null],
      ])("with %s is 422", async (_what, body) => {
        expectRefusal(await post(path, body), 422);
      });

      test("of 1 MB is 413, whether or not its length is declared", async () => {
        const big = { ...good, reason: "x".repeat(1_000_000) };
        expectRefusal(await post(path, big), 413);
        const { port } = new URL(host.url);
        const chunked = request({
          port,
          method: "POST",
          path: `/api/operations/${path}`,
          headers: { "content-type": "application/json", "x-functions-key": FUNCTION_KEY },
        });
        const answered = new Promise<number>((resolve, reject) => {
          chunked.on("response", (response) => void json(response).then(() => resolve(response.statusCode!), reject)).on("error", reject);
        });
        for (let sent = 0; sent < 16; sent++) chunked.write("x".repeat(65_536));
        chunked.end();
        expect(await answered).toBe(413);
        expect(proxy.writes()).toEqual([]);
      });

      test("with forged principal headers is 403 while App Service authentication is off", async () => {
        const principal = Buffer.from(JSON.stringify({ claims: [] })).toString("base64");
        expectRefusal(
          await post(path, good, {
            "x-ms-client-principal": principal,
            "x-ms-client-principal-name": "boss",
            "x-ms-client-principal-id": "1",
          }),
          403,
        );
        expectRefusal(await post(path, good, { "x-ms-client-principal-name": "boss" }), 403);
      });

      test.each([
        ["no principal", {}],
        ["a name alone", { "x-ms-client-principal-name": "boss", "x-ms-client-principal-id": "1" }],
        ["a principal that is no JSON", { "x-ms-client-principal": "bm8=", "x-ms-client-principal-id": "1" }],
        ["a principal without an id", { "x-ms-client-principal": Buffer.from('{"claims":[]}').toString("base64") }],
      ])("with %s is 401 while App Service authentication is on", async (_what, headers: Readonly<Record<string, string>>) => {
        expectRefusal(await post(path, good, headers, authenticated), 401);
      });
    });

    test("G6: with App Service authentication on, the actor in the audit log is the principal, and nobody else can be named", async () => {
      const principal = {
        "x-ms-client-principal": Buffer.from('{"auth_typ":"aad","claims":[]}').toString("base64"),
        "x-ms-client-principal-id": "00000000-aaaa",
        "x-ms-client-principal-name": "ann@example.com",
      };
      expectRefusal(await post("wake", { order: "a/b", reason: "r", actor: "boss" }, principal, authenticated), 422);
      expect((await post("wake", { order: "a/b", reason: "r" }, principal, authenticated)).status).toBe(200);
      expect(await actors()).toContain("ann@example.com (00000000-aaaa)");
    });

    test("G6: with it off, what is known is the key; a stated name is marked", async () => {
      expect((await post("wake", { order: "a/b", reason: "r" })).status).toBe(200);
      expect((await post("wake", { order: "a/b", reason: "r", actor: "bob\nforged" })).status).toBe(200);
      expect(await actors()).toEqual(expect.arrayContaining(["function key", "function key, as bob\\u000aforged (unverified)"]));
    });

    async function actors(): Promise<readonly string[]> {
      const found: string[] = [];
      for await (const { name } of storage.blobs.list("audit", "")) {
        const { bytes } = (await storage.blobs.read("audit", name))!;
        found.push((JSON.parse(Buffer.from(bytes).toString("utf8")) as { actor: string }).actor);
      }
      return found;
    }

    test("C12, F4: a dead letter is shown, tried, redriven in place once; who comes later with another wish is told", async () => {
      const order = await blockedOrder("dead/1");
      const at = `order=${encodeURIComponent(order)}`;
      const listed = await call(`dead-letters?${at}`);
      expect(listed.body).toMatchObject({ letters: [{ orderId: order, subscription: "audit-log", policy: "block" }] });
      const [{ id }] = listed.body["letters"] as [{ id: string }];
      const shown = await call(`dead-letter?${at}&subscription=audit-log&event=${id}`);
      expect(shown.body).toMatchObject({ letter: { id }, eventText: expect.stringContaining(SECRET) });
      expect((await call(`explain?${at}`)).body).toMatchObject({ verdict: { code: "blocked-dead-letter" }, stuck: true });

      expect((await post("redrive", { order, reason: "fixed", dryRun: true })).body).toMatchObject({
        results: [{ outcome: "would-record" }],
      });
      expect(proxy.writes()).toEqual([]);
      expect((await post("redrive", { order, reason: "fixed" })).body).toMatchObject({ results: [{ outcome: "recorded" }] });
      expect(await post("redrive", { order, reason: "fixed" })).toMatchObject({
        status: 200,
        body: { results: [{ outcome: "already-decided" }] },
      });
      proxy.forget();
      const refused = await post("discard", { order, reason: "no" });
      expectRefusal(refused, 409);
      expect(refused.body).toMatchObject({ results: [{ outcome: "already-decided", decision: { action: "redrive" } }] });
    });

    test("F4: bulk by filter, and a discard that the worker carries out", async () => {
      const order = await blockedOrder("dead-2");
      expectRefusal(await post("redrive", { filter: {}, order, reason: "r" }), 422);
      expectRefusal(await post("redrive", { reason: "r" }), 422);
      expectRefusal(await post("redrive", { pendingOf: "audit-log", reason: "r" }), 422);
      expectRefusal(await post("discard", { order, outOfOrder: true, reason: "r" }), 422);
      expectRefusal(await post("discard", { order: "nobody", reason: "r" }), 404);
      const { body } = await post("discard", {
        filter: { subscription: "audit-log", youngerThanMs: 3_600_000, errorText: "no such error" },
        reason: "r",
      });
      expect(body).toEqual({ results: [], left: 0 });
      expect((await post("discard", { order, reason: "worthless" })).body).toMatchObject({ results: [{ outcome: "recorded" }] });
      await host.invoke("wakeUps", encodeWakeUp(parseOrderId(order)));
      expect((await call(`order?order=${order}`)).body).toMatchObject({ timeline: [{ state: "Discarded" }] });
    });

    test("F5: pause and resume, each told what it did", async () => {
      await blockedOrder("paused-order");
      const target = { subscription: "audit-log", order: "paused-order", reason: "r" };
      expect((await post("pause", { ...target, dryRun: true })).body).toMatchObject({ outcome: "would-pause" });
      expect(proxy.writes()).toEqual([]);
      expect((await post("pause", target)).body).toMatchObject({ outcome: "paused" });
      expect((await post("pause", target)).body).toMatchObject({ outcome: "already-paused" });
      expect((await post("resume", target)).body).toMatchObject({ outcome: "resumed" });
      expect((await post("resume", target)).body).toMatchObject({ outcome: "not-paused" });
    });

    test("F5: what storage knows nothing of is refused, unless it is forced", async () => {
      const target = { subscription: "audit-log", order: "order-to-come", reason: "r" };
      expectRefusal(await post("pause", target), 404);
      expectRefusal(await post("wake", { order: "order-to-come", reason: "r", dryRun: true }), 404);
      expect((await post("pause", { ...target, force: true })).body).toMatchObject({ outcome: "paused" });
    });

    test("W7: a dry wake sends nothing", async () => {
      expect((await post("wake", { order: "a/b", reason: "r", dryRun: true })).body).toEqual({ orderId: "a/b", outcome: "would-wake" });
      expect(proxy.writes()).toEqual([]);
    });

    test("storage that is down is 503, to be tried later", async () => {
      proxy.down = true;
      try {
        const answer = await call("status");
        expect([answer.status, answer.headers.get("retry-after"), answer.body["code"]]).toEqual([503, "30", "unavailable"]);
      } finally {
        proxy.down = false;
      }
    });

    test("no payload reaches the log", async () => {
      await blockedOrder("dead-3");
      await call(`explain?order=dead-3`);
      await post("redrive", { order: "dead-3", reason: "r" });
      const log = readLog(logFile);
      expect(log.length).toBeGreaterThan(0);
      expect(log.filter(({ text }) => text.includes(SECRET))).toEqual([]);
      expect((await storage.leases.read(encodeOrderId(parseOrderId("dead-3"))))?.state).toBe("free");
    });
  });
}
