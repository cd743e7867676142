/** What operators look at: numbers, orders, timelines, dead letters. */
import { describe, expect, test } from "vitest";
import { listDeadLetters, showDeadLetter } from "../../src/operations/dead-letters.ts";
import { listOrders } from "../../src/operations/orders.ts";
import { pause } from "../../src/operations/pauses.ts";
import { showOrder } from "../../src/operations/show-order.ts";
import { readStatus } from "../../src/operations/status.ts";
import { UNROUTED } from "../../src/core/names.ts";
import { ANN, id, key, Scene } from "./support.ts";

const PARKED = { status: "parked", attempts: 3, lastError: "Error: 503" } as const;

describe("status", () => {
  test("counts per subscription, from one listing of each container (§7)", async () => {
    const scene = new Scene();
    scene.pending("o-1", 1);
    scene.pending("o-1", 2);
    await scene.clock.advance(90_000);
    scene.pending("o-2", 1, { ...PARKED, nextAttemptMs: scene.clock.now() + 60_000 });
    scene.blocked("o-2", 1, "x", "billing");
    scene.deadIndex("o-3", 1, "skip", "x", "billing");
    await pause(scene.context, { subscription: "billing", orderId: id("o-9") }, ANN, { force: true });
    await pause(scene.context, { subscription: "mail" }, ANN, { force: true });
    scene.storage.putBlob("events", "junk", new Uint8Array());
    scene.storage.forgetCalls();

    expect(await readStatus(scene.context)).toEqual({
      subscriptions: [
        { subscription: "audit", pending: 3, orders: 2, oldestAgeSeconds: 90, parked: 1, blocked: 0, dead: 0, paused: 0 },
        { subscription: "billing", pending: 1, orders: 1, oldestAgeSeconds: 0, parked: 0, blocked: 1, dead: 2, paused: 1 },
        { subscription: "mail", pending: 0, orders: 0, oldestAgeSeconds: undefined, parked: 0, blocked: 0, dead: 0, paused: "all" },
      ],
      ordersWithBacklog: 2,
      unrelayed: { events: 0, orders: 0, oldestAgeSeconds: undefined, complete: true },
      pauses: [
        { subscription: "billing", orderId: "o-9", actor: ANN.actor, reason: ANN.reason, at: "2026-01-01T00:01:30.000Z" },
        { subscription: "mail", orderId: undefined, actor: ANN.actor, reason: ANN.reason, at: "2026-01-01T00:01:30.000Z" },
      ],
      foreign: 1,
    });
    expect(scene.storage.callCounts()).toEqual({ "blobs.list": 2, "orders.listEntities": 1, "orders.scanOutbox": 1 });
  });

  test("a failed attempt does not make an old event young, nor does a clock that is behind make it younger than its blob", async () => {
    const scene = new Scene();
    scene.eventId("o-1", 1);
    await scene.clock.advance(60_000);
    scene.pending("o-1", 1, { ...PARKED, nextAttemptMs: 1 });
    expect((await readStatus(scene.context)).subscriptions[0]?.oldestAgeSeconds).toBe(60);

    await scene.clock.advance(30_000);
    scene.clock.setNow(0);
    expect((await readStatus(scene.context)).subscriptions[0]?.oldestAgeSeconds).toBe(30);
  });

  test("nothing at all", async () => {
    expect(await readStatus(new Scene().context)).toEqual({
      subscriptions: [],
      ordersWithBacklog: 0,
      unrelayed: { events: 0, orders: 0, oldestAgeSeconds: undefined, complete: true },
      pauses: [],
      foreign: 0,
    });
  });

  test("what is still in the outbox is counted, with the age of the oldest", async () => {
    const scene = new Scene();
    await scene.commit("o-2", 3);
    await scene.clock.advance(70_000);
    await scene.commit("o-1", 1);
    const { unrelayed, ordersWithBacklog } = await readStatus(scene.context);
    expect(unrelayed).toEqual({ events: 4, orders: 2, oldestAgeSeconds: 70, complete: true });
    expect(ordersWithBacklog).toBe(0);
  });

  test("the look through the table follows all pages up to its bound, and says when it stopped early", async () => {
    const scene = new Scene();
    for (let number = 0; number < 11; number++) await scene.commit(`o-${number}`, 95);
    scene.storage.forgetCalls();
    expect((await readStatus(scene.context)).unrelayed).toMatchObject({ events: 1_045, orders: 11, complete: true });
    expect((await readStatus(scene.context, { maxPages: 1 })).unrelayed).toMatchObject({ events: 1_000, complete: false });
    expect((await readStatus(scene.context, { maxPages: 0 })).unrelayed).toMatchObject({ events: 0, complete: false });
    expect(scene.storage.callCounts()["orders.scanOutbox"]).toBe(2);
    await expect(readStatus(scene.context, { maxPages: -1 })).rejects.toMatchObject({ code: "invalid-option" });
    const signal = AbortSignal.abort();
    await expect(readStatus({ ...scene.context, signal })).rejects.toMatchObject({ code: "aborted" });
  });
});

describe("orders list", () => {
  test("heads with state, age, attempts and lease; the oldest first; by state", async () => {
    const scene = new Scene();
    scene.pending("late", 1, { ...PARKED, nextAttemptMs: scene.clock.now() + 60_000 });
    scene.pending("late", 2);
    await scene.clock.advance(5_000);
    scene.pending("new", 1);
    scene.blocked("dead", 1);
    await scene.hold("new");

    expect((await listOrders(scene.context)).orders).toMatchObject([
      {
        orderId: "late",
        subscription: "audit",
        backlog: 2,
        head: {
          sequence: 1,
          ageSeconds: 5,
          state: "parked",
          attempts: 3,
          nextAttemptAt: "2026-01-01T00:01:00.000Z",
          lastError: "Error: 503",
        },
        lease: "none",
      },
      { orderId: "dead", backlog: 1, head: { state: "blocked" } },
      { orderId: "new", backlog: 1, head: { state: "pending" }, lease: "taken" },
    ]);
    for (const state of ["parked", "blocked", "pending"] as const) {
      expect((await listOrders(scene.context, { state })).orders.map(({ head }) => head.state)).toEqual([state]);
    }
    expect(await listOrders(scene.context, { subscription: "billing" })).toEqual({ orders: [], complete: true });
  });

  test("W3: a head behind a missing event is told as missing, and can be asked for; not while a worker moves it", async () => {
    const scene = new Scene();
    await scene.progress("o-1", 1);
    scene.pending("o-1", 3);
    await scene.progress("o-2", 1);
    scene.pending("o-2", 2);
    const missing = async (): Promise<readonly string[]> =>
      (await listOrders(scene.context, { state: "missing" })).orders.map(({ orderId }) => orderId);
    expect(await missing()).toEqual(["o-1"]);
    expect((await listOrders(scene.context, { state: "pending" })).orders.map(({ orderId }) => orderId)).toEqual(["o-2"]);
    await scene.hold("o-1");
    expect(await missing()).toEqual([]);
  });

  test("orders whose events are still in the outbox are among them, and can be asked for alone", async () => {
    const scene = new Scene();
    await scene.commit("stuck", 2);
    await scene.clock.advance(9_000);
    scene.pending("new", 1);
    await scene.hold("stuck");
    const stuck = {
      orderId: "stuck",
      subscription: undefined,
      backlog: 2,
      head: { id: expect.any(String), sequence: undefined, ageSeconds: 9, state: "unrelayed", attempts: 0 },
      lease: "taken",
    };
    const all = await listOrders(scene.context);
    expect(all).toMatchObject({ complete: true, orders: [{ orderId: "stuck" }, { orderId: "new" }] });
    expect(await listOrders(scene.context, { state: "unrelayed" })).toEqual({ orders: [stuck], complete: true });
    expect((await listOrders(scene.context, { state: "pending" })).orders).toMatchObject([{ orderId: "new" }]);
    expect((await listOrders(scene.context, { subscription: "audit" })).orders).toMatchObject([{ orderId: "new" }]);
    expect(await listOrders(scene.context, { maxPages: 0 })).toMatchObject({ complete: false, orders: [{ orderId: "new" }] });
  });
});

describe("orders show", () => {
  test("every state that an event can be in, in the words of the seed", async () => {
    const scene = new Scene();
    await scene.committed("o-1", 6);
    scene.archived("o-1", 1);
    scene.archived("o-1", 2, { outcome: "discarded", decidedby: "ann", decisionreason: "test" });
    scene.archived("o-1", 3, { outcome: "dead-lettered" });
    scene.deadIndex("o-1", 3, "skip", "Error: x");
    scene.pending("o-1", 4);
    scene.pending("o-1", 5);
    scene.pending("o-1", 4, { ...PARKED, nextAttemptMs: scene.clock.now() + 60_000 }, "billing");
    scene.blocked("o-1", 4, "Error: y", "mail");
    scene.archived("o-1", 6, { outcome: "unwanted" }, UNROUTED);
    await scene.progress("o-1", 3);
    await scene.commit("o-1", 1);
    await scene.hold("o-1");
    const shown = await showOrder(scene.context, id("o-1"));

    expect(shown).toMatchObject({ orderId: "o-1", sequence: 7, deleted: false, lease: "taken", progress: { audit: 3 } });
    expect(shown.timeline.map(({ sequence, subscription, state }) => [sequence, subscription, state])).toEqual([
      [1, "audit", "Sent"],
      [2, "audit", "Discarded"],
      [3, "audit", "Dead"],
      [4, "audit", "InFlight"],
      [4, "billing", "Failed"],
      [4, "mail", "Dead"],
      [5, "audit", "Pending"],
      [6, undefined, "Unwanted"],
      [7, undefined, "Pending"],
    ]);
    expect(shown.timeline[1]).toMatchObject({
      decision: { action: "discard", actor: "ann", reason: "test", carriedOut: true },
      type: "step",
    });
    expect(shown.timeline[2]).toMatchObject({ lastError: "Error: x", finishedAt: "2026-01-01T00:00:00.000Z" });
    expect(shown.timeline[4]).toMatchObject({ attempts: 3, nextAttemptAt: "2026-01-01T00:01:00.000Z", lastError: "Error: 503" });
    for (const entry of shown.timeline) expect(entry).toMatchObject({ type: "step", occurredAt: expect.any(String) });
  });

  test("W3: a missing event is there as missing, with the id that another subscription still has; not while a worker moves it", async () => {
    const scene = new Scene();
    await scene.committed("o-1", 4);
    scene.archived("o-1", 2, {}, "mail");
    scene.pending("o-1", 3);
    const audit = { sequence: 1, id: scene.eventId("o-1", 1), relayed: 3 };
    await scene.writeProgress("o-1", {
      clean: 1,
      relayed: 3,
      streams: { audit, mail: { ...audit, sequence: 2, id: scene.eventId("o-1", 2) } },
    });
    const states = async (): Promise<unknown> =>
      (await showOrder(scene.context, "o-1")).timeline.map((e) => [
        e.sequence,
        e.subscription,
        e.state,
        e.id === scene.eventId("o-1", e.sequence!),
      ]);
    expect(await states()).toEqual([
      [2, "mail", "Sent", true],
      [2, "audit", "Missing", true],
      [3, "audit", "Pending", true],
      [3, "mail", "Missing", true],
      [4, undefined, "Missing", false],
    ]);
    await scene.hold("o-1");
    expect(await states()).toEqual([
      [2, "mail", "Sent", true],
      [3, "audit", "InFlight", true],
    ]);
  });

  test("what is only decided is not shown as done", async () => {
    const scene = new Scene();
    const decision = { action: "discard", actor: "ann", reason: "r", at: "2026-01-01T00:00:00.000Z" } as const;
    scene.pending("o-1", 1, { status: "blocked", decision });
    scene.archived("o-2", 1, { outcome: "dead-lettered", decision: "redrive", decidedby: "ann" });
    scene.deadIndex("o-2", 1, "skip");
    await scene.progress("o-2", 1);
    for (const [order, action] of [
      ["o-1", "discard"],
      ["o-2", "redrive"],
    ] as const) {
      const [entry] = (await showOrder(scene.context, order)).timeline;
      expect(entry).toMatchObject({ state: "Dead", decision: { action, carriedOut: false } });
    }
  });

  test("an event on its way between two places is shown once", async () => {
    const scene = new Scene();
    await scene.commit("o-1", 1);
    const [row] = scene.storage.rows(key("o-1")).filter(({ rowKey }) => rowKey.startsWith("outbox:"));
    await scene.committed("o-1", 0);
    scene.pending("o-1", 1);
    scene.archived("o-1", 1);
    scene.storage.putRow(key("o-1"), row!.rowKey, row!.properties);

    expect((await showOrder(scene.context, id("o-1"))).timeline.map(({ state }) => state)).toEqual(["Sent"]);
  });

  test("an order that is not there; an event that can't be read", async () => {
    const scene = new Scene();
    expect(await showOrder(scene.context, id("o-1"))).toMatchObject({ sequence: undefined, lease: "none", timeline: [] });

    scene.pending("o-1", 1);
    const [entry] = scene.storage.blobEntries("events");
    scene.storage.putBlob("events", entry![0], new Uint8Array([0xff]), entry![1].metadata);
    expect((await showOrder(scene.context, id("o-1"))).timeline).toMatchObject([{ sequence: 1, type: undefined, occurredAt: undefined }]);
  });
});

describe("dead letters", () => {
  test("are listed with their errors grouped, the most frequent group first", async () => {
    const scene = new Scene();
    scene.blocked("o-2", 1, "Error: timeout after 30 s");
    scene.blocked("o-1", 4, 'Error: no carrier "DHL"');
    scene.blocked("o-1", 2, "Error: timeout after 7 s", "billing");
    scene.storage.putBlob("dead", "audit/junk", new Uint8Array());
    const { letters, groups, foreign } = await listDeadLetters(scene.context);

    expect(letters.map(({ orderId, sequence }) => [orderId, sequence])).toEqual([
      ["o-1", 2],
      ["o-1", 4],
      ["o-2", 1],
    ]);
    expect(groups).toEqual([
      { group: "Error: timeout after # s", example: "Error: timeout after 7 s", count: 2, orders: 2, subscriptions: ["audit", "billing"] },
      { group: "Error: no carrier …", example: 'Error: no carrier "DHL"', count: 1, orders: 1, subscriptions: ["audit"] },
    ]);
    expect(foreign).toEqual(["audit/junk"]);
  });

  test("whose errors differ in ids alone are one group, which the filter knows by the text that is shown", async () => {
    const scene = new Scene();
    scene.blocked("alpha", 1, "Error: order alpha refused at 2026-01-01T00:00:00Z");
    scene.blocked("b-7", 1, "Error: order b-7 refused at 2026-02-01T00:00:00.5Z");
    scene.blocked("c", 1, "Error: other");
    const [group] = (await listDeadLetters(scene.context)).groups;
    expect(group).toMatchObject({ group: "Error: order # refused at #", count: 2 });

    const { letters } = await listDeadLetters(scene.context, { group: group!.group });
    expect(letters.map(({ orderId, reason, group: own }) => [orderId, reason, own])).toEqual([
      ["alpha", "Error: order alpha refused at 2026-01-01T00:00:00Z", "Error: order # refused at #"],
      ["b-7", "Error: order b-7 refused at 2026-02-01T00:00:00.5Z", "Error: order # refused at #"],
    ]);
  });

  test("one is shown with its history, its event's exact text, and what is decided", async () => {
    const scene = new Scene();
    scene.blocked("o-1", 1);
    const target = { subscription: "audit", orderId: id("o-1"), id: scene.eventId("o-1", 1) };
    expect(await showDeadLetter(scene.context, target)).toEqual({
      letter: expect.objectContaining({ reason: "Error: no such carrier 17", history: [expect.objectContaining({ starts: 33 })] }),
      eventText: new TextDecoder().decode(scene.bytes("o-1", 1)),
    });

    scene.pending("o-1", 1, { status: "blocked", decision: { action: "redrive", actor: "ann", reason: "r", at: "2026" } });
    expect((await showDeadLetter(scene.context, target)).decision).toMatchObject({ actor: "ann" });
    scene.storage.putBlob("events", scene.name("o-1", 1), new Uint8Array([0xff, 0xfe]));
    expect(await showDeadLetter(scene.context, target)).toMatchObject({ eventText: undefined, eventBase64: "//4=" });
    await expect(showDeadLetter(scene.context, { ...target, subscription: "billing" })).rejects.toMatchObject({ code: "not-found" });
  });
});
