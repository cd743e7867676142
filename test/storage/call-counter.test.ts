import { describe, expect, it } from "vitest";
import { createHttpHeaders } from "@azure/core-rest-pipeline";
import {
  CallCounter,
  NO_CALLS,
  addCounts,
  operationOf,
  priceClassOf,
  subtractCounts,
  type PriceClass,
  type StorageService,
} from "../../src/storage/call-counter.ts";
import { connectTestStorage } from "../support/azurite-storage.ts";
import { faultyHttp, onOperation } from "../support/faulty-http.ts";
import { newOrder } from "../contract/harness.ts";

const TABLE: readonly Row[] = [
  ["table", "POST", "/$batch", "Transaction", "table"],
  ["table", "GET", "/orders(PartitionKey='o-1',RowKey='order')", "ReadEntity", "table"],
  ["table", "GET", "/orders(PartitionKey='a()',RowKey='b()')", "ReadEntity", "table"],
  ["table", "GET", "/orders()?$filter=PartitionKey%20eq%20'o-1'", "QueryEntities", "table"],
  ["table", "DELETE", "/orders(PartitionKey='o-1',RowKey='x')", "DeleteEntity", "table"],
  ["table", "POST", "/orders", "InsertEntity", "table"],
  ["table", "PUT", "/orders(PartitionKey='o-1',RowKey='x')", "PutEntity", "table"],
  ["table", "POST", "/Tables", "CreateTable", "table"],
  ["table", "GET", "/Tables", "Other", "table"],
  ["table", "PATCH", "/orders(PartitionKey='o-1',RowKey='x')", "Other", "table"],
  ["queue", "PUT", "/wake-ups", "CreateQueue", "queue"],
  ["queue", "PUT", "/wake-ups?comp=metadata", "Other", "queue"],
  ["queue", "POST", "/wake-ups/messages?visibilitytimeout=60", "SendMessage", "queue"],
  ["queue", "GET", "/wake-ups/messages?numofmessages=32", "ReceiveMessages", "queue"],
  ["queue", "GET", "/wake-ups/messages?peekonly=true", "Other", "queue"],
  ["queue", "PUT", "/wake-ups/messages/1-2-3?popreceipt=x", "UpdateMessage", "queue"],
  ["queue", "DELETE", "/wake-ups/messages/1-2-3?popreceipt=x", "DeleteMessage", "queue"],
  ["queue", "DELETE", "/wake-ups/messages", "Other", "queue"],
  ["blob", "PUT", "/events/mail/o-1/E.json", "PutBlob", "blob write"],
  ["blob", "PUT", "/events/mail/o-1/E.json?timeout=30", "PutBlob", "blob write"],
  ["blob", "GET", "/events/mail/o-1/E.json", "GetBlob", "blob read"],
  ["blob", "HEAD", "/leases/o-1", "GetBlobProperties", "blob other"],
  ["blob", "DELETE", "/events/mail/o-1/E.json", "DeleteBlob", "blob free"],
  ["blob", "PUT", "/leases/o-1?comp=metadata", "SetBlobMetadata", "blob other"],
  ["blob", "PUT", "/leases/o-1?comp=lease acquire", "LeaseAcquire", "blob other"],
  ["blob", "PUT", "/leases/o-1?comp=lease renew", "LeaseRenew", "blob other"],
  ["blob", "PUT", "/leases/o-1?comp=lease release", "LeaseRelease", "blob other"],
  ["blob", "PUT", "/leases/o-1?comp=lease break", "LeaseBreak", "blob other"],
  ["blob", "GET", "/events?restype=container&comp=list&prefix=mail%2Fo-1%2F", "ListBlobs", "blob list"],
  ["blob", "POST", "/events?restype=container&comp=batch", "BlobBatch", "blob other"],
  ["blob", "PUT", "/events?restype=container", "CreateContainer", "blob list"],
  ["blob", "GET", "/?restype=account&comp=properties", "GetAccountInformation", "blob other"],
  ["blob", "PUT", "/events/x?comp=tier", "Other", "blob other"],
];
type Row = readonly [service: StorageService, method: string, target: string, operation: string, price: PriceClass];

describe("operationOf", () => {
  const hosts = ["https://account.example.net", "http://127.0.0.1:10000/devstoreaccount1"];
  const rows = hosts.flatMap((host) => TABLE.map((row) => [host, ...row] as const));
  it.each(rows)("%s: %s %s %s is %s, billed as %s", (host, service, method, target, operation, price) => {
    const [path, action] = target.split(" ");
    const headers = createHttpHeaders(action === undefined ? {} : { "x-ms-lease-action": action });
    expect(operationOf(service, { method, url: `${host}${path}`, headers })).toBe(operation);
    expect(priceClassOf(service, operation)).toBe(price);
  });
});

describe("counts", () => {
  it("count, and are kept apart by reset", () => {
    const counter = new CallCounter();
    counter.count("blob", "PutBlob");
    const before = counter.snapshot();
    counter.count("blob", "PutBlob");
    counter.count("table", "Transaction");
    expect(before).toEqual({ total: 1, byOperation: { "blob PutBlob": 1 }, byPriceClass: { "blob write": 1 } });
    const added = subtractCounts(counter.snapshot(), before);
    expect(added).toEqual({
      total: 2,
      byOperation: { "blob PutBlob": 1, "table Transaction": 1 },
      byPriceClass: { "blob write": 1, table: 1 },
    });
    expect(addCounts(before, added)).toEqual(counter.snapshot());
    expect(subtractCounts(before, before)).toEqual(NO_CALLS);
    counter.reset();
    expect(counter.snapshot()).toEqual(NO_CALLS);
  });

  it("see every request of a connection, SDK retries included", async () => {
    const http = faultyHttp();
    const storage = await connectTestStorage({ httpClient: http });
    http.rule = onOperation("table ReadEntity", "refuse-before", 2);
    await storage.orders.readOrder(newOrder());
    expect(storage.calls.snapshot()).toEqual({ total: 3, byOperation: { "table ReadEntity": 3 }, byPriceClass: { table: 3 } });
    expect(http.count("table ReadEntity")).toBe(3);
  });

  it("see the cost of each port call: one request, except where a contract says otherwise", async () => {
    const storage = await connectTestStorage();
    const order = newOrder();
    const cost = async (call: () => Promise<unknown>): Promise<string> => {
      storage.calls.reset();
      await call();
      return Object.entries(storage.calls.snapshot().byOperation)
        .map(([operation, count]) => `${count} ${operation}`)
        .join(", ");
    };
    const bytes = new Uint8Array(1);
    const receipt = await storage.wakeUps.send('"o-1"', 60_000);
    expect(await cost(() => storage.orders.readOutbox(order))).toBe("1 table QueryEntities");
    expect(await cost(() => storage.wakeUps.send('"o-1"', 60_000))).toBe("1 queue SendMessage");
    expect(await cost(() => storage.wakeUps.hide(receipt, '"o-1"', 60_000))).toBe("1 queue UpdateMessage");
    expect(await cost(() => storage.wakeUps.receive(1, 60_000))).toBe("1 queue ReceiveMessages");
    expect(await cost(() => storage.leases.read(order))).toBe("1 blob GetBlobProperties");
    expect(await cost(() => storage.leases.create(order))).toBe("1 blob PutBlob");
    expect(await cost(() => storage.blobs.create("events", "a/1", bytes, {}))).toBe("1 blob PutBlob");
    expect(await cost(() => storage.blobs.create("events", "a/2", bytes, {}))).toBe("1 blob PutBlob");
    expect(await cost(() => storage.blobs.read("events", "a/1"))).toBe("1 blob GetBlob");
    expect(await cost(() => Array.fromAsync(storage.blobs.list("events", "a/")))).toBe("1 blob ListBlobs");
    expect(await cost(() => storage.blobs.delete("events", ["a/1", "a/2"]))).toBe("1 blob BlobBatch");
    expect(await cost(() => storage.blobs.delete("events", ["a/1"]))).toBe("1 blob DeleteBlob");
    expect(await cost(() => storage.blobs.delete("events", []))).toBe("");
  });
});
