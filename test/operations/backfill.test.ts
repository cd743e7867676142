/** F9: a new subscription gets what others have had before it was there, exactly once, in order, and nobody else notices. */
import { describe, expect, test } from "vitest";
import type { StoredEvent } from "../../src/core/event.ts";
import { OutboxError } from "../../src/core/errors.ts";
import type { ListedBlob, Storage } from "../../src/core/ports.ts";
import type { Subscription } from "../../src/core/workflow.ts";
import { backfill, type BackfillOptions, type BackfillTarget } from "../../src/operations/backfill.ts";
import type { OperationsContext } from "../../src/operations/context.ts";
import type { ReplayResult } from "../../src/operations/replay-totals.ts";
import { createOutbox } from "../../src/producer/outbox.ts";
import { unbundle } from "../support/archived-entries.ts";
import { settle } from "../support/manual-clock.ts";
import { live } from "../worker/operator-support.ts";
import { key, Scene, workflow } from "../worker/round-support.ts";
import { blobsOf, everyFate, expectWhole, KIM, writes } from "./replay-support.ts";

const ORDERS = ["o-1", "o-10", "o-2"];

interface Shop extends Scene {
  /** What was there from the beginning. */
  readonly old: readonly Subscription[];
  readonly added: Subscription;
}

function shop(when?: Subscription["wants"]): Shop {
  const scene = new Scene();
  const old = [scene.subscription("mail"), scene.subscription("erp", { events: ["step"] })];
  return Object.assign(scene, { old, added: scene.subscription("audit", when === undefined ? {} : { when }) });
}

/** Three orders of four events each, all handled by `mail` and `erp`. */
async function settled(when?: Subscription["wants"]): Promise<Shop> {
  const scene = shop(when);
  for (const order of ORDERS) {
    await scene.commit(order, [1, 2]);
    await scene.commit(order, [3], "other");
    await scene.commit(order, [4]);
    await scene.until(scene.worker(scene.old).handle(order));
  }
  scene.log.length = 0;
  return scene;
}

/** `mail` and `erp` have had E1 to E3 of one order; E4 and E5 are in its outbox. */
async function relaying(): Promise<Shop & { readonly fourth: string }> {
  const scene = shop();
  await scene.commit("o-1", [1, 2, 3]);
  await scene.until(scene.worker(scene.old).handle("o-1"));
  await scene.commit("o-1", [4, 5]);
  const { outbox } = await scene.storage.orders.readOutbox(key("o-1"));
  return Object.assign(scene, { fourth: outbox[0]!.id });
}

function run(
  scene: Shop,
  target: Partial<BackfillTarget> = {},
  options: BackfillOptions = {},
  context: OperationsContext = scene,
): Promise<ReplayResult> {
  return backfill(context, { subscription: scene.added, ...target }, KIM, options);
}

/** All workers know the new subscription; what has a wake-up is handled. */
async function work(scene: Shop, ms = 0): Promise<void> {
  await live(scene, scene.worker([...scene.old, scene.added]), ms);
}

/** What the new subscription's handler got, order by order. */
function watch(scene: Shop): Map<string, number[]> {
  const got = new Map<string, number[]>();
  scene.onEvent = (event) => {
    if (scene.log.at(-1)!.startsWith("audit")) got.set(event.orderId, [...(got.get(event.orderId) ?? []), dataOf(event)]);
  };
  return got;
}

function dataOf({ dataText }: StoredEvent): number {
  return (JSON.parse(dataText) as { n: number }).n;
}

function ofEach(numbers: readonly number[]): Map<string, readonly number[]> {
  return new Map(ORDERS.map((order) => [order, numbers]));
}

describe("backfill", () => {
  test("F9, G4: everything of every order, in order; the other subscriptions are untouched", async () => {
    const scene = await settled();
    const got = watch(scene);
    const others = [blobsOf(scene, "mail"), blobsOf(scene, "erp")];
    expect(await run(scene)).toMatchObject({ outcome: "done", orders: 3, events: 12, ordersWithEvents: 3, skipped: {}, failed: 0 });
    await work(scene);
    expect(got).toEqual(ofEach([1, 2, 3, 4]));
    expect(new Set(scene.log.map((entry) => entry.split(" ")[0]))).toEqual(new Set(["audit"]));
    expect([blobsOf(scene, "mail"), blobsOf(scene, "erp")]).toEqual(others);
    await expectWhole(scene);
    // Again by the same name, and looking again by another one.
    expect(await run(scene)).toMatchObject({ outcome: "done-before" });
    expect(await run(scene, {}, { run: "again" })).toMatchObject({ outcome: "done", events: 0, skipped: { had: 12 } });
  });

  test("its own filter decides, and a dry run shows it without a write", async () => {
    const scene = await settled(({ type }) => type === "other");
    scene.storage.forgetCalls();
    const result = await run(scene, {}, { dryRun: true });
    expect(writes(scene)).toBe(0);
    expect(result).toMatchObject({ outcome: "would-replay", events: 3, ordersWithEvents: 3, skipped: { unwanted: 9 } });
    expect(result.details).toMatchObject(ORDERS.map((orderId) => ({ orderId, events: 1, firstSequence: 3, lastSequence: 3 })));
    const got = watch(scene);
    await run(scene);
    await work(scene);
    expect(got).toEqual(ofEach([3]));
  });

  test("what waits for others and what nobody wanted belongs to it; replays and what is in the outbox do not", async () => {
    const scene = shop();
    const erp = scene.subscription("erp", { events: ["step"] });
    scene.onHandle = (entry) => {
      if (entry === "erp E3") throw new Error("down");
    };
    await scene.commit("o-1", [1]);
    await scene.commit("o-1", [2], "other");
    await scene.commit("o-1", [3, 4]);
    await scene.until(scene.worker([erp]).handle("o-1"));
    await scene.commit("o-1", [5]);
    expect(await run(scene)).toMatchObject({ events: 4, skipped: {} });
    const got = watch(scene);
    scene.onHandle = () => undefined;
    await scene.clock.advance(60_000);
    scene.log.length = 0;
    await scene.until(scene.worker([erp, scene.added]).handle("o-1"));
    expect(scene.log.filter((entry) => entry.startsWith("audit"))).toEqual(["audit E5", "audit E1", "audit E2", "audit E3", "audit E4"]);
    expect(got.size).toBe(1);
    expect(await run(scene, {}, { run: "again" })).toMatchObject({ events: 0 });
  });

  test("what it has had itself stays out, also after retention has removed it; what can't be told is left alone", async () => {
    const scene = await settled();
    for (const order of ORDERS) {
      await scene.commit(order, [5, 6]);
      await scene.until(scene.worker([...scene.old, scene.added]).handle(order));
    }
    unbundle(scene.storage);
    const own = scene.storage.blobEntries("archive").filter(([name]) => name.startsWith("audit/"));
    // Of o-1 its first one is gone, of o-10 all.
    for (const [name] of own.filter(([blob], index) => index === 0 || blob.startsWith("audit/o-10/")))
      scene.storage.deleteBlob("archive", name);
    const result = await run(scene);
    expect(result).toMatchObject({ events: 4, ordersWithEvents: 1, skipped: { had: 4, "may-have-had": 10 } });
    const got = watch(scene);
    await work(scene);
    expect(got).toEqual(new Map([["o-2", [1, 2, 3, 4]]]));
  });

  test("W1: an event whose relay is under way comes by the ordinary path, and not twice", async () => {
    const scene = await settled();
    await scene.commit("o-1", [5]);
    // The worker dies after the blob of `mail`, before that of `audit`.
    scene.storage.onCall = ({ method, args }) => {
      if (method === "create" && String(args[1]).startsWith("audit/")) return new Promise<undefined>(() => undefined);
      return undefined;
    };
    void scene.worker([...scene.old, scene.added]).handle("o-1");
    await settle();
    scene.storage.onCall = undefined;
    expect(blobsOf(scene, "mail")).toHaveLength(13);
    expect(await run(scene)).toMatchObject({ events: 12 });
    scene.storage.breakLease(key("o-1"));
    const got = watch(scene);
    await work(scene, 61_000);
    expect(got.get("o-1")).toEqual([5, 1, 2, 3, 4]);
    expect(scene.log.filter((entry) => entry.endsWith("E5")).toSorted()).toEqual(["audit E5", "erp E5", "mail E5"]);
    await expectWhole(scene);
  });

  test("W1: an event relayed before its predecessor is no trace of retention", async () => {
    const scene = await relaying();
    // The worker dies with the blob of E5 created, that of E4 not.
    scene.storage.onCall = ({ method, args }) => {
      if (method === "create" && String(args[1]).startsWith("audit/") && String(args[1]).includes(scene.fourth))
        return new Promise<undefined>(() => undefined);
      return undefined;
    };
    void scene.worker([...scene.old, scene.added]).handle("o-1");
    await settle();
    scene.storage.onCall = undefined;
    expect(blobsOf(scene, "audit")).toHaveLength(1);
    expect(await run(scene)).toMatchObject({ outcome: "done", events: 3, skipped: {} });
    scene.storage.breakLease(key("o-1"));
    await work(scene, 61_000);
    expect(scene.log.filter((entry) => entry.startsWith("audit"))).toEqual([4, 5, 1, 2, 3].map((n) => `audit E${n}`));
    await expectWhole(scene);
  });

  test.each([1, 9])("W1, G2: what is relayed and handled between two reads, %i times, is looked at again", async (times) => {
    const scene = await relaying();
    const { leases, orders, wakeUps } = scene.storage;
    let looks = 0;
    // The answer about the outbox is old: all of it is relayed and handled before anything else is read.
    const before = await orders.readOutbox(key("o-1"));
    await scene.until(scene.worker([...scene.old, scene.added]).handle("o-1"));
    const pending = new Proxy(orders, {
      get: (target, name) => {
        if (name === "readOutbox") return async () => (looks++ < times ? before : orders.readOutbox(key("o-1")));
        const real = Reflect.get(target, name) as unknown;
        return typeof real === "function" ? (real as (...args: unknown[]) => unknown).bind(target) : real;
      },
    });
    const blobs = new Proxy(scene.storage.blobs, {
      get: (target, name) => {
        if (name === "list") {
          return async function* (container: never, prefix: string): AsyncGenerator<ListedBlob> {
            if (looks > times || !prefix.startsWith("audit/o-1/")) yield* target.list(container, prefix);
          };
        }
        const real = Reflect.get(target, name) as unknown;
        return typeof real === "function" ? (real as (...args: unknown[]) => unknown).bind(target) : real;
      },
    });
    const context = { storage: { leases, orders: pending, blobs, wakeUps }, clock: scene.clock };
    const first = await scene.until(run(scene, {}, {}, context));
    if (times > 1) expect(first).toMatchObject({ outcome: "left", events: 0, left: 1, skipped: { "under-way": 3 } });
    else expect(first).toMatchObject({ outcome: "done", events: 3, left: 0 });
    if (times > 1) expect(await run(scene)).toMatchObject({ outcome: "done", events: 3 });
    await work(scene);
    expect(scene.log.filter((entry) => entry.startsWith("audit"))).toEqual([4, 5, 1, 2, 3].map((n) => `audit E${n}`));
  });

  test("an event that moves while the listings are read is not missed", async () => {
    const scene = shop();
    const erp = scene.subscription("erp");
    const fail = { on: true };
    scene.onHandle = (entry) => {
      if (entry === "erp E2" && fail.on) throw new Error("down");
    };
    await scene.commit("o-1", [1, 2, 3]);
    await scene.until(scene.worker([erp]).handle("o-1"));
    fail.on = false;
    await scene.clock.advance(60_000);
    scene.log.length = 0;
    let listings = 0;
    scene.storage.onCall = async ({ method, args }) => {
      if (method !== "list" || args[0] !== "events" || args[1] !== "erp/" || listings++ > 0) return;
      // The listing of the archive is read before this, that of the pending ones after it.
      await settle();
      await scene.worker([erp]).handle("o-1");
    };
    expect(await run(scene)).toMatchObject({ outcome: "done", events: 3 });
    scene.storage.onCall = undefined;
    await scene.worker([erp, scene.added]).handle("o-1");
    expect(scene.log.filter((entry) => entry.startsWith("audit"))).toEqual(["audit E1", "audit E2", "audit E3"]);
  });

  test("an outbox entity whose text is another event: nothing is decided by it, its order fails", async () => {
    const scene = await settled();
    const order = ORDERS[0]!;
    await scene.commit(order, [5, 6]);
    const { outbox } = await scene.storage.orders.readOutbox(key(order));
    scene.storage.putRow(key(order), `outbox:${outbox[1]!.id}`, { sequence: BigInt(outbox[1]!.sequence), event: outbox[0]!.text! });
    const { details, failed } = await run(scene);
    expect(failed).toBe(1);
    expect(details.filter(({ outcome }) => outcome === "failed")).toMatchObject([
      { orderId: order, events: 0, message: expect.stringContaining("holds another event") },
    ]);
  });

  test("W10: a listing that sorts by a rule of its own costs a second look, and nothing else", async () => {
    const scene = await settled();
    const list: Storage["blobs"]["list"] = async function* (container, prefix, options) {
      const all: ListedBlob[] = [];
      for await (const blob of scene.storage.blobs.list(container, prefix, options)) all.push(blob);
      if (container === "archive" && prefix === "erp/") all.reverse();
      yield* all;
    };
    const blobs = new Proxy(scene.storage.blobs, {
      get: (target, name) => (name === "list" ? list : (Reflect.get(target, name) as unknown)),
    });
    const got = watch(scene);
    expect(await scene.until(run(scene, {}, {}, { storage: { ...scene.storage, blobs }, clock: scene.clock }))).toMatchObject({
      outcome: "done",
      events: 12,
    });
    await work(scene);
    expect(got).toEqual(ofEach([1, 2, 3, 4]));
  });

  test("since: of each order, from the first event on that happened then or later", async () => {
    const scene = shop();
    const outbox = createOutbox({ workflow, storage: scene.storage, clock: scene.clock });
    const times = ["2026-01-01T00:00:00Z", "2026-03-01T00:00:00Z", "2026-02-01T00:00:00Z", "2026-04-01T00:00:00Z"];
    for (const order of ORDERS) {
      await outbox.commit(order, () => ({
        state: { committed: 4 },
        events: times.map((time, index) => ({ type: "step" as const, data: { n: index + 1 }, time })),
      }));
      await scene.until(scene.worker(scene.old).handle(order));
    }
    const got = watch(scene);
    expect(await run(scene, { since: "2026-02-15" })).toMatchObject({ events: 9, skipped: { "before-since": 3 } });
    await expect(run(scene, { since: "2026-02-16" })).rejects.toMatchObject({
      code: "invalid-option",
      message: expect.stringContaining("--run"),
    });
    await expect(async () => run(scene, { since: "5 Jan" })).rejects.toMatchObject({ code: "invalid-option" });
    await work(scene);
    // No hole where a later event is dated earlier.
    expect(got).toEqual(ofEach([2, 3, 4]));
  });

  test("an order that is deleted, gone, damaged, or that the filter can't stand stops no other", async () => {
    const scene = await settled(({ orderId, sequence }) => {
      if (orderId === "o-2" && sequence === 4) throw new Error("no such country");
      return true;
    });
    for (const order of ["o-4", "o-5", "o-6"]) {
      await scene.commit(order, [1, 2]);
      await scene.until(scene.worker(scene.old).handle(order));
    }
    const outbox = createOutbox({ workflow, storage: scene.storage, clock: scene.clock });
    await outbox.commit("o-4", () => ({ state: null, events: [] }));
    scene.storage.deleteRow("o-5" as never, "order");
    unbundle(scene.storage);
    for (const [name, { metadata }] of scene.storage.blobEntries("archive").filter(([each]) => each.includes("/o-6/"))) {
      scene.storage.putBlob("archive", name, new TextEncoder().encode("torn"), metadata);
    }
    const result = await run(scene);
    expect(result).toMatchObject({ outcome: "incomplete", events: 11, deleted: 1, gone: 1, failed: 2 });
    expect(result.details.slice(0, 2).map(({ outcome }) => outcome)).toEqual(["failed", "failed"]);
    const details = result.details.toSorted((a, b) => (a.orderId < b.orderId ? -1 : 1));
    expect(details.map(({ orderId, outcome, events }) => [orderId, outcome, events])).toEqual([
      ["o-1", "replayed", 4],
      ["o-10", "replayed", 4],
      ["o-2", "failed", 3],
      ["o-4", "deleted", 0],
      ["o-5", "gone", 0],
      ["o-6", "failed", 0],
    ]);
    expect(details[2]?.message).toContain("no such country");
    // The damage is mended: the same command goes on where it stood.
    const mended = { ...scene.added, wants: () => true };
    expect(await run(scene, { subscription: mended })).toMatchObject({ outcome: "incomplete", events: 1, before: 11, failed: 1 });
  });
});

describe("exactly once", () => {
  test("an operator who meets any fate at any call, and another who repeats the command", async () => {
    const setUp = async (): Promise<Shop> => {
      const scene = shop();
      await scene.commit("o-1", [1, 2]);
      await scene.commit("o-2", [1], "other");
      for (const order of ["o-1", "o-2"]) await scene.until(scene.worker(scene.old).handle(order));
      scene.log.length = 0;
      return scene;
    };
    const calls = await everyFate<Shop>(
      setUp,
      (context) => backfill(context, { subscription: new Scene().subscription("audit") }, KIM),
      async (scene) => {
        const got = watch(scene);
        await work(scene, 61_000);
        expect(got).toEqual(new Map([["o-1", [1, 2]], ["o-2", [1]]])); // prettier-ignore
        expect(scene.log.every((entry) => entry.startsWith("audit"))).toBe(true);
        await expectWhole(scene);
      },
    );
    expect(calls).toBeGreaterThan(20);
  });

  test("H10: two operators at once, under one name and under two", async () => {
    for (const second of ["backfill", "mine"]) {
      const scene = await settled();
      const got = watch(scene);
      const both = await scene.until(Promise.all([run(scene), run(scene, {}, { run: second })]));
      expect(both.map(({ outcome, events: _events }) => outcome)).toEqual(["done", "done"]);
      expect(both.reduce((sum, { events }) => sum + events, 0)).toBe(12);
      await work(scene);
      expect(got).toEqual(ofEach([1, 2, 3, 4]));
    }
  });

  test("stopped by its signal, it goes on by the same command", async () => {
    const scene = await settled();
    const stop = new AbortController();
    scene.storage.onCall = ({ method }) => {
      if (method === "commit") stop.abort();
    };
    const first = await run(scene, {}, {}, { ...scene, signal: stop.signal });
    expect(first.outcome).toBe("stopped");
    expect(first.events).toBeGreaterThan(0);
    scene.storage.onCall = undefined;
    expect(await run(scene)).toMatchObject({ outcome: "done", before: first.events, events: 12 - first.events });
    const got = watch(scene);
    await work(scene);
    expect(got).toEqual(ofEach([1, 2, 3, 4]));
  });

  test("G2: what is found after a later event was replayed is told, not replayed out of order", async () => {
    const scene = shop();
    await scene.commit("o-1", [1, 2, 3]);
    await scene.until(scene.worker(scene.old).handle("o-1"));
    scene.log.length = 0;
    unbundle(scene.storage);
    const id = scene.ids("archive", "mail")[1]!;
    const second = scene.storage.blobEntries("archive").filter(([name]) => name.includes(id));
    for (const [name] of second) scene.storage.deleteBlob("archive", name);
    const stop = new AbortController();
    scene.storage.onCall = ({ method }) => {
      if (method === "commit") stop.abort();
    };
    expect(await run(scene, {}, {}, { ...scene, signal: stop.signal })).toMatchObject({ outcome: "stopped", events: 2 });
    scene.storage.onCall = undefined;
    for (const [name, { bytes, metadata }] of second) scene.storage.putBlob("archive", name, bytes, metadata);
    expect(await run(scene)).toMatchObject({ outcome: "done", events: 0, before: 2, skipped: { late: 1 } });
    await work(scene);
    expect(scene.log).toEqual(["audit E1", "audit E3"]);
  });

  test("an account that is down is no failure of single orders", async () => {
    const scene = shop();
    for (let order = 1; order <= 12; order++) {
      await scene.commit(`o-${order}`, [1]);
      await scene.until(scene.worker(scene.old).handle(`o-${order}`));
    }
    scene.storage.onCall = ({ method }) => {
      if (method === "readOutbox") throw new OutboxError("timeout", "no answer");
    };
    await expect(run(scene)).rejects.toMatchObject({ code: "unavailable" });
    let failures = 0;
    scene.storage.onCall = ({ method }) => {
      if (method === "readOutbox" && failures++ < 2) throw new OutboxError("timeout", "no answer");
    };
    expect(await run(scene)).toMatchObject({ outcome: "incomplete", failed: 2, events: 10 });
    expect(await run(scene)).toMatchObject({ outcome: "done", events: 2, before: 10 });
  });
});
