import { describe, expect, inject, it } from "vitest";
import { TableClient } from "@azure/data-tables";
import { BlobServiceClient } from "@azure/storage-blob";
import { QueueServiceClient } from "@azure/storage-queue";
import { connectStorage, type StorageOptions } from "../../src/storage/connect.ts";
import { connectTestStorage, randomPrefix } from "../support/azurite-storage.ts";
import { always, faultyHttp, onOperation, type Fault } from "../support/faulty-http.ts";
import { failure, newOrder, transaction } from "../contract/harness.ts";

const SECRET = "c2VjcmV0LWtleS1ub2JvZHktbWF5LXNlZQ==";
const CREDENTIAL = { getToken: async () => ({ token: "t", expiresOnTimestamp: Date.now() + 3_600_000 }) };

describe("connectStorage", () => {
  const refused: ReadonlyArray<readonly [name: string, options: object, told: string]> = [
    ["an empty connection string", { connectionString: "" }, "connectionString"],
    ["a connection string that is none", { connectionString: `hello ${SECRET}` }, "connectionString"],
    ["a connection string without a key", { connectionString: "DefaultEndpointsProtocol=https;AccountName=account" }, "connectionString"],
    ["a connection string that is no text", { connectionString: 5 }, "connectionString"],
    ["no account", {}, "accountName"],
    ["a bad account name", { accountName: "My-Account", credential: CREDENTIAL }, "accountName"],
    ["no credential", { accountName: "account" }, "credential"],
    ["a bad suffix", { accountName: "account", credential: CREDENTIAL, endpointSuffix: "evil.net/?" }, "endpointSuffix"],
    ["an upper-case prefix", { connectionString: "UseDevelopmentStorage=true", prefix: "Test" }, "prefix"],
    ["a prefix with a digit first", { connectionString: "UseDevelopmentStorage=true", prefix: "1a" }, "prefix"],
    ["an empty prefix", { connectionString: "UseDevelopmentStorage=true", prefix: "" }, "prefix"],
    ["a prefix of 21 characters", { connectionString: "UseDevelopmentStorage=true", prefix: "a".repeat(21) }, "prefix"],
    ["a deadline below a second", { connectionString: "UseDevelopmentStorage=true", callTimeoutMs: 999 }, "callTimeoutMs"],
    ["a deadline above two minutes", { connectionString: "UseDevelopmentStorage=true", callTimeoutMs: 120_001 }, "callTimeoutMs"],
  ];
  it.each(refused)("refuses %s by name, without showing secrets", async (_name, options, told) => {
    const error = await failure((async () => connectStorage(options as StorageOptions))(), "invalid-option");
    expect(error.message).toContain(told);
    expect(JSON.stringify([error.message, error.cause ?? null, error.stack])).not.toContain(SECRET);
  });

  it.each([
    "UseDevelopmentStorage=true",
    `DefaultEndpointsProtocol=https;AccountName=account;AccountKey=${SECRET};EndpointSuffix=core.windows.net`,
  ])("takes %s, and makes no request yet", (connectionString) => {
    expect(connectStorage({ connectionString }).calls.snapshot().total).toBe(0);
  });

  it("takes an account name and a credential: requests carry its token, over https", async () => {
    const http = faultyHttp();
    const urls: string[] = [];
    http.rule = ({ request }) => {
      urls.push(request.url);
      expect(request.headers.get("authorization")).toBe("Bearer t");
      return { status: 404, serviceCode: "BlobNotFound" };
    };
    const storage = connectStorage({ accountName: "account", credential: CREDENTIAL, httpClient: http });
    expect(await storage.leases.read(newOrder())).toBeUndefined();
    expect(new URL(urls[0] ?? "").origin).toBe("https://account.blob.core.windows.net");
  });

  it("C8: a credential that never answers ends with timeout", async () => {
    const credential = { getToken: () => new Promise<never>(() => {}) };
    const storage = connectStorage({ accountName: "account", credential, callTimeoutMs: 1_000 });
    await failure(storage.leases.read(newOrder()), "timeout");
  });

  it("keeps a prefix's resources apart, under the names of the design", async () => {
    const { prefix } = await connectTestStorage();
    const connectionString = inject("azurite");
    const blobs = BlobServiceClient.fromConnectionString(connectionString);
    const queues = QueueServiceClient.fromConnectionString(connectionString);
    const containerNames = (await Array.fromAsync(blobs.listContainers({ prefix }))).map(({ name }) => name);
    const queueNames = (await Array.fromAsync(queues.listQueues({ prefix }))).map(({ name }) => name);
    expect(containerNames.toSorted()).toEqual(
      ["archive", "audit", "dead", "events", "leases", "payloads"].map((name) => `${prefix}-${name}`),
    );
    expect(queueNames.toSorted()).toEqual(["wake-ups", "wake-ups-poison"].map((name) => `${prefix}-${name}`));
    const table = TableClient.fromConnectionString(connectionString, `${prefix}orders`, { allowInsecureConnection: true });
    expect(await Array.fromAsync(table.listEntities())).toEqual([]);
  });
});

describe("createResources", () => {
  it("may run twice, and eight times at once", async () => {
    const storages = Array.from(
      { length: 8 },
      (
        (prefix) => () =>
          connectStorage({ connectionString: inject("azurite"), prefix })
      )(randomPrefix()),
    );
    await Promise.all(storages.map((storage) => storage.createResources()));
    await storages[0]?.createResources();
    await storages[0]?.orders.commit(transaction(newOrder()));
  });

  it("before it, calls tell that the resource is missing", async () => {
    const storage = connectStorage({ connectionString: inject("azurite"), prefix: randomPrefix() });
    await failure(storage.orders.readOrder(newOrder()), "not-found");
    await failure(storage.orders.commit(transaction(newOrder())), "not-found");
    await failure(storage.wakeUps.send('"o-1"', 0), "not-found");
    await failure(storage.wakeUps.delete({ messageId: "m", popReceipt: "r" }), "not-found");
    await failure(storage.leases.read(newOrder()), "not-found");
    await failure(storage.leases.create(newOrder()), "not-found");
    await failure(storage.blobs.read("events", "x"), "not-found");
    await failure(storage.blobs.delete("events", ["x"]), "not-found");
    await failure(storage.blobs.delete("events", ["x", "y"]), "not-found");
    await failure(Array.fromAsync(storage.blobs.list("events", "x")), "not-found");
  });
});

const accountInfo = (hierarchical: string): Fault => ({
  status: 200,
  headers: { "x-ms-sku-name": "Standard_LRS", "x-ms-account-kind": "StorageV2", "x-ms-is-hns-enabled": hierarchical },
});

const checkWith = async (fault: Fault): Promise<void> => {
  const http = faultyHttp();
  const storage = await connectTestStorage({ httpClient: http, callTimeoutMs: 1_000 });
  http.rule = always("blob GetAccountInformation", fault);
  await storage.checkAccount();
};

describe("checkAccount", () => {
  it("refuses hierarchical namespace", async () => {
    await failure(checkWith(accountInfo("true")), "unsupported-account");
  });
  it("lets other accounts through, and the emulator", async () => {
    await checkWith(accountInfo("false"));
    await checkWith("pass");
  });
  it("lets a credential through that may not ask", async () => {
    await checkWith({ status: 403, serviceCode: "AuthorizationFailure" });
    await checkWith({ status: 400, serviceCode: "InvalidQueryParameterValue" });
  });
  it("does not take an outage for an answer", async () => {
    await failure(checkWith({ status: 503, serviceCode: "ServerBusy" }), "unavailable");
  });
  it("asks again after a broken connection", async () => {
    const http = faultyHttp();
    const storage = await connectTestStorage({ httpClient: http });
    http.rule = onOperation("blob GetAccountInformation", "refuse-before");
    await storage.checkAccount();
  });
});
