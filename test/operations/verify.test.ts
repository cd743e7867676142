/** The audit of what is stored: clean on healthy orders, and every kind of damage is found. */
import { describe, expect, test } from "vitest";
import { encodePendingState, freshState } from "../../src/core/pending-event.ts";
import { UNROUTED } from "../../src/core/names.ts";
import { verifyAll, verifyOrder } from "../../src/operations/verify.ts";
import { id, key, Scene } from "./support.ts";

/** Kinds with severity and sequence, of one order and of all. */
async function kinds(scene: Scene, orderId = "o-1"): Promise<readonly string[]> {
  const one = await verifyOrder(scene.context, id(orderId));
  const all = await verifyAll(scene.context);
  const text = ({ kind, severity, sequence }: (typeof one.findings)[number]): string =>
    [severity === "notice" ? "(notice)" : "", kind, sequence ?? ""].filter((part) => part !== "").join(" ");
  expect(all.findings.filter((finding) => finding.orderId === orderId).map(text)).toEqual(one.findings.map(text));
  expect(one.sound).toBe(one.findings.every(({ severity }) => severity === "notice"));
  return one.findings.map(text);
}

/** Five events: two finished, the third blocked or pending, two behind it. */
async function healthy(head: "blocked" | "pending" = "pending"): Promise<Scene> {
  const scene = new Scene();
  await scene.committed("o-1", 5);
  scene.archived("o-1", 1);
  scene.archived("o-1", 2);
  if (head === "blocked") scene.blocked("o-1", 3);
  else scene.pending("o-1", 3);
  scene.pending("o-1", 4);
  scene.pending("o-1", 5);
  const audit = { sequence: 2, id: scene.eventId("o-1", 2), relayed: 5 };
  await scene.writeProgress("o-1", { clean: 2, relayed: 5, streams: { audit } });
  return scene;
}

describe("healthy orders", () => {
  test.each(["pending", "blocked"] as const)("with a %s head", async (head) => {
    expect(await kinds(await healthy(head))).toEqual([]);
  });

  test("without any trace, with committed events only, with everything finished", async () => {
    const scene = new Scene();
    await scene.commit("committed", 3);
    await scene.committed("finished", 3);
    for (const sequence of [1, 2, 3]) scene.archived("finished", sequence);
    await scene.progress("finished", 3);

    await expect(verifyOrder(scene.context, id("unknown"))).rejects.toMatchObject({
      message: expect.stringContaining("there is no order unknown,"),
    });
    expect(await kinds(scene, "committed")).toEqual([]);
    expect(await kinds(scene, "finished")).toEqual([]);
    expect((await verifyAll(scene.context)).orders).toBe(2);
  });

  test("an event that is between two places", async () => {
    const scene = await healthy();
    scene.archived("o-1", 3); // Finished, archived, and its pending blob not deleted yet.
    const audit = { sequence: 3, id: scene.eventId("o-1", 3), relayed: 5 };
    await scene.writeProgress("o-1", { clean: 2, relayed: 5, streams: { audit } });
    expect(await kinds(scene)).toEqual([]);
  });

  test("a skipped and a discarded event, and what retention leaves (F7)", async () => {
    const scene = new Scene();
    await scene.committed("o-1", 6);
    scene.archived("o-1", 2, { outcome: "dead-lettered" });
    scene.deadIndex("o-1", 2, "skip");
    scene.archived("o-1", 3, { outcome: "discarded", decidedby: "ann" });
    scene.archived("o-1", 5); // 1 and 4 were handled earlier, and removed.
    scene.archived("o-1", 6);
    await scene.progress("o-1", 6);
    expect(await kinds(scene)).toEqual(["(notice) retention"]);
  });

  test("a filtered stream has gaps in its sequences and none in its chain", async () => {
    const scene = new Scene();
    await scene.committed("o-1", 4);
    scene.archived("o-1", 1);
    scene.archived("o-1", 4, { previous: "1" });
    await scene.writeProgress("o-1", {
      clean: 4,
      relayed: 4,
      streams: { audit: { sequence: 4, id: scene.eventId("o-1", 4), relayed: 4 } },
    });
    expect(await kinds(scene)).toEqual([]);
  });

  test("while a worker holds it, only what can't be a move is judged", async () => {
    const scene = await healthy();
    scene.storage.deleteBlob("events", scene.name("o-1", 4));
    await scene.hold("o-1");
    expect(await kinds(scene)).toEqual(["(notice) moving"]);
  });
});

describe("damage", () => {
  const damages: ReadonlyArray<{
    readonly name: string;
    readonly harm: (scene: Scene) => Promise<void> | void;
    readonly found: readonly string[];
  }> = [
    { name: "a pending blob removed", harm: (s) => s.storage.deleteBlob("events", s.name("o-1", 4)), found: ["gap 4"] },
    { name: "the last pending blob removed", harm: (s) => s.storage.deleteBlob("events", s.name("o-1", 5)), found: ["gap 5"] },
    { name: "the last archived blob removed", harm: (s) => s.storage.deleteBlob("archive", s.name("o-1", 2)), found: ["gap 2"] },
    {
      name: "an archived blob removed between others",
      harm: async (s) => {
        s.archived("o-1", 3);
        s.storage.deleteBlob("events", s.name("o-1", 3));
        s.storage.deleteBlob("archive", s.name("o-1", 2));
        const audit = { sequence: 3, id: s.eventId("o-1", 3), relayed: 5 };
        await s.writeProgress("o-1", { clean: 2, relayed: 5, streams: { audit } });
      },
      found: ["gap 2"],
    },
    {
      name: "the oldest archived blob removed",
      harm: (s) => s.storage.deleteBlob("archive", s.name("o-1", 1)),
      found: ["(notice) retention"],
    },
    {
      name: "an outbox entity removed",
      harm: async (s) => {
        await s.commit("o-1", 2);
        s.storage.deleteRow(key("o-1"), s.storage.rows(key("o-1")).find(({ rowKey }) => rowKey.startsWith("outbox:"))!.rowKey);
      },
      found: ["gap 6"],
    },
    {
      name: "the order entity removed",
      harm: (s) => s.storage.deleteRow(key("o-1"), "order"),
      found: ["behind-progress"],
    },
    { name: "pending and archived beyond the progress", harm: (s) => s.archived("o-1", 4), found: ["double 4"] },
    {
      name: "archived beyond the progress",
      harm: (s) => {
        s.archived("o-1", 3);
        s.storage.deleteBlob("events", s.name("o-1", 3));
      },
      found: ["beyond-progress 3", "gap 3"],
    },
    {
      name: "two events with one sequence",
      harm: (s) => {
        s.eventId("o-1", 6);
        s.storage.putBlob("events", s.name("o-1", 6), s.bytes("o-1", 6), encodePendingState(freshState(5, 4)));
      },
      found: ["double 5"],
    },
    {
      name: "a sequence that goes back",
      harm: (s) => s.archived("o-1", 2, { sequence: "9", previous: "1" }),
      found: expect.arrayContaining(["inversion 3"]),
    },
    {
      name: "finished long before the one before it",
      harm: (s) => s.archived("o-1", 2, { finishedat: "2025-12-31T23:00:00.000Z" }),
      found: ["(notice) inversion 2"],
    },
    {
      name: "a foreign blob among the pending",
      harm: (s) => s.storage.putBlob("events", `audit/${key("o-1")}/notes.txt`, new Uint8Array()),
      found: ["foreign"],
    },
    {
      name: "a foreign blob among the archived",
      harm: (s) => s.storage.putBlob("archive", `audit/${key("o-1")}/notes.txt`, new Uint8Array()),
      found: ["foreign"],
    },
    { name: "a foreign row", harm: (s) => s.storage.putRow(key("o-1"), "outbox:nonsense", {}), found: ["foreign"] },
    {
      name: "metadata lost",
      harm: (s) => s.storage.putBlob("archive", s.name("o-1", 2), s.bytes("o-1", 2)),
      found: ["foreign", "gap 2"],
    },
    {
      name: "a ghost that nobody removes",
      harm: async (s) => {
        s.pending("o-1", 1);
        await s.clock.advance(11 * 60_000);
      },
      found: ["stuck-ghost 1"],
    },
    { name: "a dead letter's index without a blocked event", harm: (s) => s.deadIndex("o-1", 3, "block"), found: ["dead-index 3"] },
    { name: "a blocked event without index", harm: (s) => s.pending("o-1", 3, { status: "blocked" }), found: ["dead-index 3"] },
    { name: "a skipped dead letter that is not archived as such", harm: (s) => s.deadIndex("o-1", 2, "skip"), found: ["dead-index 2"] },
    {
      name: "progress that can't be read",
      harm: async (s) => {
        await s.hold(
          "o-1",
          async (leaseId, etag) => void (await s.storage.leases.writeMetadata(key("o-1"), { progress: "{}" }, { leaseId, etag })),
        );
      },
      found: ["progress-unreadable"],
    },
  ];

  test.each(damages)("$name", async ({ harm, found }) => {
    const scene = await healthy();
    await harm(scene);
    expect(await kinds(scene)).toEqual(found);
  });

  test("the only blob of a stream without progress removed: told, but it may be one that nobody wanted", async () => {
    const scene = new Scene();
    await scene.committed("o-1", 1);
    await scene.writeProgress("o-1", { clean: 0, relayed: 1, streams: {} });
    expect(await kinds(scene)).toEqual(["(notice) gap 1"]);

    scene.archived("o-1", 1, { outcome: "unwanted" }, UNROUTED);
    expect(await kinds(scene)).toEqual([]);
  });

  test("an order whose blobs are all lost is found by its entity alone (G6)", async () => {
    const scene = new Scene();
    await scene.committed("o-1", 5);
    const told: number[] = [];
    const { orders, sound } = await verifyAll(scene.context, { onFound: (count) => void told.push(count) });
    expect({ orders, sound, told: told.at(-1) }).toEqual({ orders: 1, sound: false, told: 1 });
    expect(await kinds(scene)).toEqual(["gap 1"]);
  });

  test("so is one whose pending events are lost, with progress and an empty archive", async () => {
    const scene = new Scene();
    await scene.committed("o-1", 5);
    const audit = { sequence: 2, id: scene.eventId("o-1", 2), relayed: 5 };
    await scene.writeProgress("o-1", { clean: 2, relayed: 5, streams: { audit } });
    expect(await kinds(scene)).toEqual(["(notice) gap 3", "(notice) retention", "gap 5"]);
  });

  test("an order that retention has emptied is sound (F7), and costs 4 calls and 2 a subscription", async () => {
    const scene = new Scene();
    await scene.committed("o-1", 5);
    await scene.progress("o-1", 5);
    scene.storage.forgetCalls();
    await verifyAll(scene.context);
    const { "blobs.list": lists = 0, ...calls } = scene.storage.callCounts();
    expect(calls).toEqual({ "orders.scanOrders": 1, "orders.scanOutbox": 1, "orders.readOutbox": 1, "leases.read": 2 });
    expect(lists - 3).toBe(1 + 2); // With a pending or dead event there is one more a subscription.
    expect(await kinds(scene)).toEqual(["(notice) retention"]);
    expect((await verifyAll(scene.context)).sound).toBe(true);
  });

  test("an event that was relayed after the listing of all pending events is not missed", async () => {
    const scene = new Scene();
    await scene.committed("o-1", 1);
    scene.storage.onCall = ({ method }) => {
      if (method === "scanOrders") scene.pending("o-1", 1);
    };
    expect(await verifyAll(scene.context)).toEqual({ orders: 1, findings: [], sound: true, complete: true });
  });

  test("a blob that belongs to no order is told once", async () => {
    const scene = await healthy();
    for (const name of ["readme.txt", `audit/${key("o-1")}/x.txt`]) scene.storage.putBlob("dead", name, new Uint8Array());
    const { findings } = await verifyAll(scene.context);

    expect(findings.map(({ orderId, text }) => [orderId, text])).toEqual([
      [undefined, "dead/readme.txt is not one of ours"],
      ["o-1", `dead/audit/${key("o-1")}/x.txt is not one of ours`],
    ]);
  });

  test("a subscription that has no progress and is dead only is found too", async () => {
    const scene = await healthy();
    scene.deadIndex("o-1", 1, "block", "x", "billing");
    expect(await kinds(scene)).toEqual(["dead-index 1"]);
  });
});

test("all orders: progress is told, and the signal ends it with what was found", async () => {
  const scene = new Scene();
  for (let number = 0; number < 20; number++) await scene.commit(`o-${number}`, 1);
  const told: number[] = [];
  const { orders, sound, complete } = await verifyAll(scene.context, { onProgress: (done) => void told.push(done) });
  expect({ orders, sound, complete, told: told.at(-1) }).toEqual({ orders: 20, sound: true, complete: true, told: 20 });

  const stop = new AbortController();
  const context = { ...scene.context, signal: stop.signal };
  scene.storage.deleteRow(
    scene.order("o-0"),
    scene.storage.rows(scene.order("o-0")).find(({ rowKey }) => rowKey.startsWith("outbox:"))!.rowKey,
  );
  const stopped = await verifyAll(context, { onProgress: () => stop.abort() });
  expect(stopped).toMatchObject({ complete: false, sound: false, findings: [{ kind: "gap", orderId: "o-0" }] });
  expect(stopped.orders).toBeLessThan(20);
  expect(await verifyAll(context)).toEqual({ orders: 0, findings: [], sound: true, complete: false });
});

test("reads only", async () => {
  const scene = await healthy("blocked");
  scene.storage.forgetCalls();
  await verifyAll(scene.context);
  const reads = new Set(["blobs.list", "blobs.read", "leases.read", "orders.readOutbox", "orders.scanOrders", "orders.scanOutbox"]);
  expect(Object.keys(scene.storage.callCounts()).filter((call) => !reads.has(call))).toEqual([]);
});
