/** What operators name must be there, or meant: orders to wake, subscriptions to pause. */
import { describe, expect, test } from "vitest";
import type { OrderKey } from "../../src/core/order-id.ts";
import { assertKnownSubscription } from "../../src/operations/known-subscriptions.ts";
import { pause } from "../../src/operations/pauses.ts";
import { wakeOrder } from "../../src/operations/wake.ts";
import { ANN, id, key, Scene } from "./support.ts";

const UNKNOWN = { code: "not-found", message: expect.stringContaining("there is no order o-1,") };

describe("wake", () => {
  test("of an order that nothing speaks of is refused, dry or not, and leaves no record; forced it is sent", async () => {
    const scene = new Scene();
    await scene.commit("o-10", 1);
    scene.pending("o-11", 1);
    const sent = scene.wakeUps().length;
    await expect(wakeOrder(scene.context, id("o-1"), ANN)).rejects.toMatchObject(UNKNOWN);
    await expect(wakeOrder(scene.context, id("o-1"), ANN, { dryRun: true })).rejects.toMatchObject(UNKNOWN);
    expect([scene.audit(), scene.wakeUps()]).toEqual([[], Array.from({ length: sent }, () => "o-10")]);

    expect(await wakeOrder(scene.context, id("o-1"), ANN, { force: true })).toEqual({ orderId: "o-1", outcome: "woken" });
    expect(scene.wakeUps()).toContain("o-1");
  });

  test.each<[string, (scene: Scene) => unknown]>([
    ["an order entity", (scene) => scene.committed("o-1", 1)],
    [
      "an outbox entity alone",
      (scene) => scene.storage.putRow(key("o-1"), `outbox:${scene.eventId("o-1", 1)}`, { sequence: 1n, event: "{}" }),
    ],
    ["a row that can't be read", (scene) => scene.storage.putRow(key("o-1"), "order", {})],
    ["a lease", (scene) => scene.progress("o-1", 1)],
    ["a pending event", (scene) => scene.pending("o-1", 1)],
    ["a dead letter", (scene) => scene.deadIndex("o-1", 1, "skip")],
  ])("%s is enough", async (_name, put) => {
    const scene = new Scene();
    await put(scene);
    expect(await wakeOrder(scene.context, id("o-1"), ANN, { dryRun: true })).toEqual({ orderId: "o-1", outcome: "would-wake" });
  });

  test("of an order in the table needs no listing", async () => {
    const scene = new Scene();
    await scene.committed("o-1", 1);
    scene.storage.forgetCalls();
    await wakeOrder(scene.context, id("o-1"), ANN);
    expect(scene.storage.callCounts()["blobs.list"]).toBeUndefined();
  });
});

describe("subscriptions", () => {
  test.each<[string, (scene: Scene) => unknown]>([
    ["a pending event", (scene) => scene.pending("o-1", 1, {}, "mail")],
    ["an archived event", (scene) => scene.archived("o-1", 1, {}, "mail")],
    ["a dead letter", (scene) => scene.deadIndex("o-1", 1, "skip", "x", "mail")],
    ["a pause", (scene) => pause(scene.context, { subscription: "mail", orderId: id("o-1") }, ANN, { force: true })],
    [
      "progress",
      async (scene) => {
        await scene.committed("o-0", 1);
        await scene.hold("o-0", async (leaseId, etag) => {
          await scene.storage.leases.writeMetadata(key("o-0"), { progress: "{}" }, { leaseId, etag });
        });
        await scene.committed("o-1", 1);
        await scene.writeProgress("o-1", { clean: 0, relayed: 1, streams: { mail: { sequence: 0, id: undefined, relayed: 1 } } });
      },
    ],
  ])("are known by %s", async (_name, put) => {
    const scene = new Scene();
    scene.pending("o-9", 1, {}, "mail-2");
    await expect(assertKnownSubscription(scene.context, "mail")).rejects.toMatchObject({ code: "not-found" });
    await put(scene);
    await assertKnownSubscription(scene.context, "mail");
  });

  test("are known by the first name of a listing, of which no more is asked for", async () => {
    const scene = new Scene();
    for (const n of [1, 2, 3]) scene.archived("o-1", n, {}, "mail");
    scene.storage.forgetCalls();
    await assertKnownSubscription(scene.context, "mail");
    expect(scene.storage.calls.map(({ method, args }) => [method, ...args])).toEqual(
      ["events", "dead", "archive"].map((container) => ["list", container, "mail/", { pageSize: 1 }]),
    );
  });

  test("W10: are known by the progress of an order that is on a later page, behind empty ones", async () => {
    const scene = new Scene();
    await scene.committed("o-1", 1);
    await scene.writeProgress("o-1", { clean: 0, relayed: 1, streams: { mail: { sequence: 0, id: undefined, relayed: 1 } } });
    const pages: Readonly<Record<string, { readonly orders: readonly OrderKey[]; readonly next: string | undefined }>> = {
      first: { orders: [], next: "second" },
      second: { orders: [], next: "third" },
      third: { orders: [key("o-1")], next: undefined },
    };
    const read: string[] = [];
    const scanOrders = async (from: string = "first") => (read.push(from), pages[from]!);
    const context = { ...scene.context, storage: { ...scene.storage, orders: { ...scene.storage.orders, scanOrders } } };
    await assertKnownSubscription(context, "mail");
    expect(read).toEqual(["first", "second", "third"]);
    await expect(assertKnownSubscription(context, "mial")).rejects.toThrow(/event, dead letter or progress names .* known are mail$/);
    // A table without an end is given up, and said so.
    const endless = async () => ({ orders: [], next: "more" });
    const without = { ...context, storage: { ...context.storage, orders: { ...scene.storage.orders, scanOrders: endless } } };
    await expect(assertKnownSubscription(without, "mail")).rejects.toThrow(/progress of the orders looked at names/);
  });

  test("are paused if they are known, or meant: forced, or in what is to be deployed", async () => {
    const scene = new Scene();
    const target = { subscription: "mail" };
    const unknown = { code: "not-found", message: expect.stringContaining("names a subscription mail") };
    const other = { subscriptions: [{ name: "mail-2" }] };
    await expect(pause(scene.context, target, ANN)).rejects.toMatchObject(unknown);
    await expect(pause(scene.context, target, ANN, { dryRun: true, deployed: other })).rejects.toMatchObject(unknown);
    expect(scene.audit()).toEqual([]);
    const deployed = { subscriptions: [...other.subscriptions, { name: "mail" }] };
    expect(await pause(scene.context, target, ANN, { dryRun: true, force: true })).toMatchObject({ outcome: "would-pause" });
    expect(await pause(scene.context, target, ANN, { dryRun: true, deployed })).toMatchObject({ outcome: "would-pause" });
    scene.pending("o-1", 1, {}, "mail");
    expect(await pause(scene.context, target, ANN)).toMatchObject({ outcome: "paused" });
  });

  test("that are not known are refused with those that are; other orders' unwanted events are none", async () => {
    const scene = new Scene();
    await expect(assertKnownSubscription(scene.context, "mial")).rejects.toMatchObject({
      code: "not-found",
      message: "not-found: no event, dead letter or progress names a subscription mial: none is known",
    });
    scene.pending("o-1", 1, {}, "mail");
    scene.archived("o-1", 1, {}, "billing");
    scene.archived("o-1", 2, {}, "_unrouted");
    scene.storage.putBlob("events", "junk", new Uint8Array());
    await expect(assertKnownSubscription(scene.context, "mial")).rejects.toThrow(/names a subscription mial: known are billing, mail$/);
  });
});
