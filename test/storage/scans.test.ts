/** What the emulator never does to scans and ages, played by hand. */
import type { PipelineResponse } from "@azure/core-rest-pipeline";
import { createHttpHeaders } from "@azure/core-rest-pipeline";
import { beforeAll, describe, expect, it } from "vitest";
import { serviceAge } from "../../src/storage/service-age.ts";
import { failure, newOrder, transaction } from "../contract/harness.ts";
import { connectTestStorage, type TestStorage } from "../support/azurite-storage.ts";
import { faultyHttp, type Fault, type FaultyHttp } from "../support/faulty-http.ts";

const HOUR_MS = 60 * 60 * 1000;

describe("scans", () => {
  let http: FaultyHttp;
  let storage: TestStorage;
  const order = newOrder();

  beforeAll(async () => {
    http = faultyHttp();
    storage = await connectTestStorage({ httpClient: http });
    await storage.orders.commit(transaction(order));
    await storage.orders.putEntity(order, "line", {});
    await storage.blobs.create("archive", "x", new Uint8Array(), {});
  });

  const emptyPage: Fault = {
    status: 200,
    headers: {
      date: new Date().toUTCString(),
      "content-type": "application/json",
      "x-ms-continuation-nextpartitionkey": order,
      "x-ms-continuation-nextrowkey": "order",
    },
    body: '{"value":[]}',
  };

  it("W10: an empty page is a page: the scan stops after its last one and goes on from there", async () => {
    http.rule = ({ operation }) => (operation === "table QueryEntities" ? emptyPage : "pass");
    const before = http.count("table QueryEntities");
    const scan = await storage.orders.scanOutbox(undefined, 3);
    expect(scan.entities).toEqual([]);
    expect(scan.next).toBeTypeOf("string");
    expect(http.count("table QueryEntities") - before).toBe(3);
    http.rule = ({ operation, request }) => {
      if (operation !== "table QueryEntities") return "pass";
      expect(request.url).toMatch(/NextPartitionKey=/i);
      // The token is ours: the emulator would not know it.
      request.url = request.url.replace(/&Next(?:Partition|Row)Key=[^&]*/gi, "");
      return "pass";
    };
    expect((await storage.orders.scanOutbox(scan.next, 3)).entities).toMatchObject([{ order }]);
  });

  it("only keys and the time of the change are asked for", async () => {
    let url = "";
    http.rule = ({ operation, request }) => {
      if (operation === "table QueryEntities") ({ url } = request);
      return "pass";
    };
    await storage.orders.scanOutbox(undefined, 1);
    const query = new URL(url).searchParams;
    expect(query.get("$select")).toBe("PartitionKey,RowKey,Timestamp");
    expect(query.get("$filter")).toBe("RowKey ge 'outbox:' and RowKey lt 'outbox;'");
  });

  it("a place that the service refuses is invalid-option; a query without one that it refuses is not", async () => {
    http.rule = ({ operation }) => (operation === "table QueryEntities" ? { status: 400, serviceCode: "InvalidInput" } : "pass");
    const place = Buffer.from('{"nextPartitionKey":"x"}').toString("base64");
    await failure(storage.orders.scanOutbox(place, 1), "invalid-option");
    await failure(storage.orders.scanOutbox(undefined, 1), "storage");
  });

  /** The service's clock is ahead; ours is not. */
  const dated = (date: string | undefined): Fault => ({
    rewrite: (response: PipelineResponse) => {
      const headers = createHttpHeaders(response.headers.toJSON());
      if (date === undefined) headers.delete("date");
      else headers.set("date", date);
      return { ...response, headers };
    },
  });
  const ages: ReadonlyArray<readonly [name: string, age: () => Promise<number | undefined>]> = [
    ["listEntities", async () => (await storage.orders.listEntities(order, { from: "line", to: "linf" }))[0]?.ageMs],
    ["scanOutbox", async () => (await storage.orders.scanOutbox(undefined, 1)).entities[0]?.ageMs],
    ["blobs.list", async () => (await Array.fromAsync(storage.blobs.list("archive", "")))[0]?.ageMs],
  ];
  it.each(ages)("F7: %s counts ages by the date of the service's answer, never below 0", async (_name, age) => {
    http.rule = () => dated(new Date(Date.now() + 24 * HOUR_MS).toUTCString());
    expect(await age()).toBeGreaterThan(23 * HOUR_MS);
    expect(await age()).toBeLessThan(25 * HOUR_MS);
    http.rule = () => dated(new Date(Date.now() - 24 * HOUR_MS).toUTCString());
    expect(await age()).toBe(0);
  });

  it.each(ages)("F7: %s gives no age when the service does not tell its date", async (_name, age) => {
    http.rule = () => dated(undefined);
    await failure(age(), "storage");
  });

  it("serviceAge refuses dates that are none", () => {
    expect(serviceAge(new Date(5_000), new Date(2_000), "x")).toBe(3_000);
    expect(() => serviceAge(new Date(5_000), new Date("x"), "x")).toThrow("storage");
    expect(() => serviceAge(undefined, new Date(1), "x")).toThrow("storage");
  });
});
