/** What each call reports when the service or the network fails (facts §0: "ambiguous outcomes"). */
import { randomUUID } from "node:crypto";
import { Readable } from "node:stream";
import { text as readText } from "node:stream/consumers";
import { beforeAll, describe, expect, it } from "vitest";
import type { ErrorCode } from "../../src/core/errors.ts";
import { connectTestStorage, type TestStorage } from "../support/azurite-storage.ts";
import { always, faultyHttp, onOperation, type Fault, type FaultyHttp } from "../support/faulty-http.ts";
import { CALLS, DURATION_MS, newScene, type Scene } from "./port-calls.ts";
import { eventId, failure, newOrder, outboxEntity, present, transaction } from "../contract/harness.ts";

/** The shortest deadline there is. */
const SHORT_TIMEOUT_MS = 1_000;

const SERVER_BUSY: Fault = { status: 503, serviceCode: "ServerBusy" };
const TIMED_OUT: Fault = { status: 500, serviceCode: "OperationTimedOut" };
const THROTTLED: Fault = { status: 429, serviceCode: "TooManyRequests" };
const FORBIDDEN: Fault = { status: 403, serviceCode: "AuthorizationPermissionMismatch" };

/** Disturbs the next `times` requests of an operation. */
function disturb(http: FaultyHttp, operation: string, fault: Fault, times: number = 1): void {
  http.rule = onOperation(operation, fault, http.count(operation) + times);
}

/** A transaction's answer of 202 with a failure inside. */
const busyInside = (status: number, code: string): Fault => ({
  rewrite: (response) => ({
    ...response,
    status: 202,
    bodyAsText: [
      "--batchresponse_1",
      "Content-Type: multipart/mixed; boundary=changesetresponse_1",
      "",
      "--changesetresponse_1",
      "Content-Type: application/http",
      "Content-Transfer-Encoding: binary",
      "",
      `HTTP/1.1 ${status} x`,
      "Content-Type: application/json",
      "",
      `{"odata.error":{"code":"${code}","message":{"lang":"en-US","value":"0:The server is busy."}}}`,
      "--changesetresponse_1--",
      "--batchresponse_1--",
    ].join("\r\n"),
  }),
});

describe("faults", () => {
  let healthy: TestStorage;
  beforeAll(async () => {
    healthy = await connectTestStorage();
  });

  // Every test has a connection of its own, so that tests may run at the same time: most of them wait for a deadline.
  const connect = async (
    callTimeoutMs?: number,
  ): Promise<{ readonly http: FaultyHttp; readonly storage: TestStorage; readonly scene: Scene }> => {
    const http = faultyHttp();
    const { prefix } = healthy;
    const storage = await connectTestStorage({ httpClient: http, prefix, ...(callTimeoutMs === undefined ? {} : { callTimeoutMs }) });
    return { http, storage, scene: await newScene(healthy) };
  };

  describe.concurrent.each(CALLS)("%s of %s", (operation, name, call) => {
    const lasting: ReadonlyArray<readonly [name: string, code: ErrorCode, fault: Fault]> = [
      ["a broken connection", "unavailable", "refuse-before"],
      ["503 ServerBusy", "unavailable", SERVER_BUSY],
      ["500 OperationTimedOut", "unavailable", TIMED_OUT],
      ["429", "unavailable", THROTTLED],
      ["403", "forbidden", FORBIDDEN],
    ];
    it.each(lasting)(`${name}: %s that lasts is %s`, async (_name, code, fault) => {
      const { http, storage, scene } = await connect();
      http.rule = always(operation, fault);
      await failure(call(storage, scene), code);
    });

    it(`C8: ${name} ends with timeout when the service never answers`, async () => {
      const { http, storage, scene } = await connect(SHORT_TIMEOUT_MS);
      http.rule = always(operation, "hang-until-abort");
      await failure(call(storage, scene), "timeout");
    });

    it(`C8: ${name} ends with aborted when the caller gives up, and keeps the reason`, async () => {
      const { http, storage, scene } = await connect();
      const controller = new AbortController();
      const reason = new Error("the host stops");
      http.rule = (seen) => {
        if (seen.operation !== operation) return "pass";
        queueMicrotask(() => controller.abort(reason));
        return "hang-until-abort";
      };
      const error = await failure(call(storage, scene, { signal: controller.signal }), "aborted");
      expect(error.cause).toBe(reason);
    });

    it(`${name} sends nothing once the caller has given up`, async () => {
      const { http, storage, scene } = await connect();
      const before = http.seen.length;
      await failure(call(storage, scene, { signal: AbortSignal.abort() }), "aborted");
      expect(http.seen.length).toBe(before);
    });

    it(`${name} repeats after one broken connection, unless a repeat could harm (W2, W5)`, async () => {
      const { http, storage, scene } = await connect();
      disturb(http, operation, "refuse-before");
      const before = http.count(operation);
      const repeats = !["orders.commit", "leases.renew", "leases.writeMetadata"].includes(name);
      await call(storage, scene).catch(() => {});
      expect(http.count(operation)).toBe(before + (repeats ? 2 : 1));
    });
  });

  describe("a response that was lost after the service did as told", () => {
    it("C2, C03: commit of a new order is unavailable after one request: the producer asks what became of it", async () => {
      const { http, storage } = await connect();
      const commit = transaction(newOrder());
      disturb(http, "table Transaction", "lose-response");
      await failure(storage.orders.commit(commit), "unavailable");
      expect(http.count("table Transaction")).toBe(1);
      expect((await storage.orders.readOrder(commit.order))?.commitTokens).toEqual(commit.entity.commitTokens);
    });

    it("C2, C03: so is a commit at an etag", async () => {
      const { http, storage, scene } = await connect();
      const { order, orderEtag } = scene;
      const entity = { sequence: 3, lastEventId: eventId(3), state: "{}", commitTokens: ["mine"] };
      disturb(http, "table Transaction", "lose-response");
      await failure(storage.orders.commit(transaction(order, { etag: orderEtag, entity, outbox: [outboxEntity(3)] })), "unavailable");
      expect((await storage.orders.readOrder(order))?.commitTokens).toEqual(["mine"]);
    });

    it("W11: deleteOutbox is fine, of one and of many", async () => {
      const { http, storage, scene } = await connect();
      const { order } = scene;
      disturb(http, "table Transaction", "lose-response");
      await storage.orders.deleteOutbox(order, [eventId(1), eventId(2)]);
      expect((await storage.orders.readOutbox(order)).outbox).toEqual([]);
      const other = await newScene(storage);
      disturb(http, "table DeleteEntity", "lose-response");
      await storage.orders.deleteOutbox(other.order, [eventId(1)]);
      expect((await storage.orders.readOutbox(other.order)).outbox).toHaveLength(1);
    });

    it("W7: send makes two messages", async () => {
      const http = faultyHttp();
      const { wakeUps } = await connectTestStorage({ httpClient: http });
      disturb(http, "queue SendMessage", "lose-response");
      await wakeUps.send('"o-1"', 0);
      expect(await wakeUps.receive(32, 30_000)).toHaveLength(2);
    });

    it("C33: hide reports not-found, delete false", async () => {
      const http = faultyHttp();
      const { wakeUps } = await connectTestStorage({ httpClient: http });
      await wakeUps.send('"o-1"', 0);
      await wakeUps.send('"o-2"', 0);
      const [first, second] = await wakeUps.receive(2, 30_000);
      disturb(http, "queue UpdateMessage", "lose-response");
      await failure(wakeUps.hide(present(first).receipt, '"o-1"', 60_000), "not-found");
      disturb(http, "queue DeleteMessage", "lose-response");
      expect(await wakeUps.delete(present(second).receipt)).toBe(false);
    });

    it("receive finds nothing: the messages come back when their time is over", async () => {
      const http = faultyHttp();
      const { wakeUps } = await connectTestStorage({ httpClient: http });
      await wakeUps.send('"o-1"', 0);
      disturb(http, "queue ReceiveMessages", "lose-response");
      expect(await wakeUps.receive(1, 30_000)).toEqual([]);
    });

    it("C28: create of a blob or lease blob reports already-exists", async () => {
      const { http, storage } = await connect();
      disturb(http, "blob PutBlob", "lose-response");
      await failure(storage.blobs.create("events", randomUUID(), new Uint8Array(1), {}), "already-exists");
      disturb(http, "blob PutBlob", "lose-response");
      await failure(storage.leases.create(newOrder()), "already-exists");
    });

    it("W11: writeMetadata of a blob reports precondition-failed", async () => {
      const { http, storage, scene } = await connect();
      const { blob, blobEtag } = scene;
      disturb(http, "blob SetBlobMetadata", "lose-response");
      await failure(storage.blobs.writeMetadata("events", blob, { a: "1" }, blobEtag), "precondition-failed");
      expect((await storage.blobs.read("events", blob))?.metadata).toEqual({ a: "1" });
    });

    it("W2: writeMetadata of a lease blob is reported as it is, unavailable, and not repeated", async () => {
      const { http, storage, scene } = await connect();
      const { order, leaseId, leaseEtag } = scene;
      disturb(http, "blob SetBlobMetadata", "lose-response");
      const before = http.count("blob SetBlobMetadata");
      await failure(storage.leases.writeMetadata(order, { round: "r" }, { leaseId, etag: leaseEtag }), "unavailable");
      expect(http.count("blob SetBlobMetadata")).toBe(before + 1);
      expect((await storage.leases.read(order))?.metadata).toEqual({ round: "r" });
    });

    it("W2: writeMetadata of a lease blob is repeated when the service was too busy to do it", async () => {
      const { http, storage, scene } = await connect();
      const { order, leaseId, leaseEtag } = scene;
      disturb(http, "blob SetBlobMetadata", SERVER_BUSY, 2);
      await storage.leases.writeMetadata(order, { round: "r" }, { leaseId, etag: leaseEtag });
      expect((await storage.leases.read(order))?.metadata).toEqual({ round: "r" });
    });

    it("C18: acquire is fine, renew unavailable, release quiet", async () => {
      const { http, storage, scene } = await connect();
      const { order, leaseId } = scene;
      disturb(http, "blob LeaseRenew", "lose-response");
      await failure(storage.leases.renew(order, leaseId), "unavailable");
      disturb(http, "blob LeaseRelease", "lose-response");
      await storage.leases.release(order, leaseId);
      const { etag } = present(await storage.leases.read(order));
      disturb(http, "blob LeaseAcquire", "lose-response");
      const id = randomUUID();
      await storage.leases.acquire(order, { id, durationMs: DURATION_MS, etag });
      await storage.leases.renew(order, id);
    });

    it("W11: delete of blobs is fine, of one and of many", async () => {
      const { http, storage, scene } = await connect();
      const first = scene;
      const second = await newScene(storage);
      disturb(http, "blob DeleteBlob", "lose-response");
      await storage.blobs.delete("events", [first.blob]);
      disturb(http, "blob BlobBatch", "lose-response");
      await storage.blobs.delete("events", [first.blob, second.blob]);
      expect(await storage.blobs.read("events", second.blob)).toBeUndefined();
    });
  });

  describe("inside a transaction's answer", () => {
    it.each([
      [503, "ServerBusy"],
      [500, "OperationTimedOut"],
    ])("C03: a 202 with an inner %d %s is unavailable", async (status, code) => {
      const { http, storage } = await connect();
      disturb(http, "table Transaction", busyInside(status, code), 1);
      const error = await failure(storage.orders.commit(transaction(newOrder())), "unavailable");
      expect(error).toMatchObject({ details: { status, serviceCode: code, operationIndex: 0 } });
    });
  });

  describe("W10: empty pages", () => {
    it("readOutbox goes on after pages without rows", async () => {
      const { http, storage, scene } = await connect();
      const { order } = scene;
      const emptyPage: Fault = {
        status: 200,
        headers: {
          "content-type": "application/json",
          "x-ms-continuation-nextpartitionkey": order,
          "x-ms-continuation-nextrowkey": "order",
        },
        body: '{"value":[]}',
      };
      let pages = 0;
      http.rule = ({ operation, request }) => {
        if (operation !== "table QueryEntities") return "pass";
        pages += 1;
        if (pages <= 2) return emptyPage;
        // The token is ours: the service would not know it.
        request.url = request.url.replace(/&Next(?:Partition|Row)Key=[^&]*/gi, "");
        return "pass";
      };
      const answer = await storage.orders.readOutbox(order);
      expect(pages).toBe(3);
      expect(answer.order?.sequence).toBe(2);
      expect(answer.outbox).toHaveLength(2);
    });

    it("readOutbox over several pages leaves out what was committed after the first", async () => {
      const { http, storage, scene } = await connect();
      const { order, orderEtag } = scene;
      const page = (rows: readonly object[], next?: string): Fault => ({
        status: 200,
        headers: {
          "content-type": "application/json",
          ...(next === undefined ? {} : { "x-ms-continuation-nextpartitionkey": order, "x-ms-continuation-nextrowkey": next }),
        },
        body: JSON.stringify({ value: rows }),
      });
      const row = (rowKey: string, sequence: number, more: object): object => ({
        PartitionKey: order,
        RowKey: rowKey,
        "odata.etag": orderEtag,
        "sequence@odata.type": "Edm.Int64",
        sequence: String(sequence),
        ...more,
      });
      const entity = row("order", 2, { lastEventId: eventId(2), deleted: false, state: "{}", commitTokens: "[]" });
      const event = (number: number): object => row(`outbox:${eventId(number)}`, number, { event: "{}" });
      const first = http.count("table QueryEntities") + 1;
      http.rule = ({ operation, nth }) => {
        if (operation !== "table QueryEntities") return "pass";
        return nth === first ? page([entity, event(1)], "x") : page([event(2), event(3)]);
      };
      const answer = await storage.orders.readOutbox(order);
      expect(answer.outbox.map(({ sequence }) => sequence)).toEqual([1, 2]);
    });

    it("list goes on after pages without blobs", async () => {
      const { http, storage, scene } = await connect();
      const { blob } = scene;
      // The emulator's markers are names to go on after.
      const marker = blob.slice(0, -1);
      const emptyPage: Fault = {
        status: 200,
        headers: { "content-type": "application/xml" },
        body: `<?xml version="1.0" encoding="utf-8"?><EnumerationResults ServiceEndpoint="x" ContainerName="x"><Blobs></Blobs><NextMarker>${marker}</NextMarker></EnumerationResults>`,
      };
      let pages = 0;
      http.rule = ({ operation }) => {
        if (operation !== "blob ListBlobs") return "pass";
        pages += 1;
        return pages <= 2 ? emptyPage : "pass";
      };
      const names = (await Array.fromAsync(storage.blobs.list("events", blob))).map(({ name }) => name);
      expect(pages).toBe(3);
      expect(names).toEqual([blob]);
    });
  });

  it("W11: a blob that a batch could not delete is deleted by itself", async () => {
    const { http, storage, scene } = await connect();
    const first = scene;
    const second = await newScene(storage);
    const busyWithSecond: Fault = {
      rewrite: async (response) => {
        const text = await readText(response.readableStreamBody ?? Readable.from([]));
        const lastAccepted = text.lastIndexOf("202 Accepted");
        expect(lastAccepted).toBeGreaterThan(text.indexOf("202 Accepted"));
        const body = `${text.slice(0, lastAccepted)}503 Server Busy${text.slice(lastAccepted + "202 Accepted".length)}`;
        return { ...response, readableStreamBody: Readable.from([Buffer.from(body)]) };
      },
    };
    disturb(http, "blob BlobBatch", busyWithSecond, 1);
    const before = http.count("blob DeleteBlob");
    await storage.blobs.delete("events", [first.blob, second.blob]);
    expect(http.count("blob DeleteBlob")).toBe(before + 1);
  });
});
