/** G6: event blobs that a dead holder has left over, or whose relay wrote them late for a subscription that the next holder did not have. */
import { expect, test } from "vitest";
import { OutboxError } from "../../src/core/errors.ts";
import type { Storage } from "../../src/core/ports.ts";
import { settle } from "../support/manual-clock.ts";
import { decideOrder } from "../../src/operations/decide-many.ts";
import { createSweeper } from "../../src/operations/sweep.ts";
import type { Worker } from "../../src/worker/round-result.ts";
import { archived, BOB, contextOf, findings, headId, live, oid } from "./operator-support.ts";
import { key, Scene } from "./round-support.ts";

function both(scene: Scene, storage: Storage = scene.storage): Worker {
  return scene.worker([scene.subscription("audit"), scene.subscription("mail")], { storage });
}

/**
 * P relays E2 and E3: mail's E2 never arrives, and mail's E3 gets no answer and lands when `land` is called. Q, which has no mail, goes on.
 */
async function lateE3(): Promise<{ readonly scene: Scene; readonly land: () => Promise<void> }> {
  const scene = new Scene();
  await scene.commit("o-1", [1]);
  await scene.until(both(scene).handle("o-1"));
  await scene.commit("o-1", [2, 3]);
  const [e2, e3] = scene.outboxRows().map((row) => `mail/${key("o-1")}/${row.slice("outbox:".length)}.json`);
  let land: (() => Promise<unknown>) | undefined;
  const { blobs } = scene.storage;
  const create: typeof blobs.create = async (...call) => {
    if (call[1] === e2) throw new OutboxError("unavailable", "busy");
    if (call[1] !== e3) return blobs.create(...call);
    land = () => blobs.create(...call);
    throw new OutboxError("timeout", "no answer");
  };
  await expect(scene.until(both(scene, { ...scene.storage, blobs: { ...blobs, create } }).handle("o-1"))).rejects.toThrow("busy");
  await scene.clock.advance(31_000);
  await scene.until(scene.worker([scene.subscription("audit")]).handle("o-1"));
  expect(scene.log).toEqual(["audit E1", "mail E1", "audit E2", "audit E3"]);
  return { scene, land: async () => void (await land!()) };
}

/** A sweep finds it, and the next round lists. */
async function tidy(scene: Scene): Promise<void> {
  await createSweeper({ storage: scene.storage, clock: scene.clock }).sweep();
  await live(scene, both(scene), 40_000);
}

test("its stream has passed it, and what passed it is archived: it did not run, and is archived as unwanted", async () => {
  const { scene, land } = await lateE3();
  await scene.commit("o-1", [4]);
  await scene.until(both(scene).handle("o-1"));
  await land();
  await tidy(scene);
  expect(scene.log.filter((entry) => entry.startsWith("mail"))).toEqual(["mail E1", "mail E4"]);
  expect(archived(scene, "mail").map(({ sequence, outcome }) => [sequence, outcome])).toEqual([
    ["1", "handled"],
    ["3", "unwanted"],
    ["4", "handled"],
  ]);
  expect(scene.ids("events", "mail")).toEqual([]);
  expect(await findings(scene)).toEqual([]);
});

test("its stream has passed it, and what passed it is left over too: the same", async () => {
  const { scene, land } = await lateE3();
  await scene.commit("o-1", [4]);
  scene.storage.onCall = ({ port, method, args }) => {
    if (port === "blobs" && method === "create" && args[0] === "archive" && String(args[1]).startsWith("mail/"))
      throw new OutboxError("unavailable", "busy");
  };
  await scene.until(both(scene).handle("o-1"));
  scene.storage.onCall = undefined;
  await land();
  await scene.clock.advance(31_000);
  await scene.until(both(scene).handle("o-1"));
  expect(archived(scene, "mail").map(({ sequence, outcome }) => [sequence, outcome])).toEqual([
    ["1", "handled"],
    ["3", "unwanted"],
    ["4", "handled"],
  ]);
  expect(await findings(scene)).toEqual([]);
});

test("its stream comes to it: event 2, which is missing before it, is an alarm, and a discard lets the stream go on", async () => {
  const { scene, land } = await lateE3();
  await land();
  // Any holder that dies: the next one lists.
  const { etag } = scene.storage.leaseOf(key("o-1"))!;
  await scene.storage.leases.acquire(key("o-1"), { id: "dead", durationMs: 15_000, etag });
  await scene.clock.advance(31_000);
  await scene.commit("o-1", [4]);
  expect(await scene.until(both(scene).handle("o-1"))).toMatchObject({
    problems: [expect.stringContaining("event 2 of mail is missing") as string],
  });
  expect(scene.log.filter((entry) => entry.startsWith("mail"))).toEqual(["mail E1"]);
  await decideOrder(contextOf(scene), "discard", { orderId: oid("o-1"), subscription: "mail", id: headId(scene, "mail") }, BOB);
  await live(scene, both(scene), 60_000);
  expect(scene.log.filter((entry) => entry.startsWith("mail"))).toEqual(["mail E1", "mail E4"]);
  expect(archived(scene, "mail").map(({ outcome }) => outcome)).toEqual(["handled", "discarded", "handled"]);
});

test("what a dead holder has archived together stays on record, also if its oldest left-over event is read last", async () => {
  const scene = new Scene();
  await scene.commit("o-1", [1, 2, 3, 4, 5]);
  const gate = Promise.withResolvers<void>();
  scene.storage.onCall = ({ method, args }) => (method === "create" && args[0] === "archive" ? gate.promise : undefined);
  const running = scene.worker().handle("o-1");
  running.catch(() => undefined);
  await settle();
  scene.storage.breakLease(key("o-1"));
  scene.storage.onCall = undefined;
  await scene.clock.advance(31_000);
  gate.resolve();
  await scene.until(running.catch(() => undefined));
  const before = archived(scene);
  await scene.clock.advance(3_600_000);
  const oldest = `audit/${key("o-1")}/${scene.ids("events")[0]!}.json`;
  scene.storage.onCall = ({ method, args }) =>
    method === "read" && args[0] === "events" && args[1] === oldest ? scene.clock.sleep(500) : undefined;
  await scene.until(scene.worker().handle("o-1"));
  expect(scene.ids("events")).toEqual([]);
  expect(archived(scene)).toEqual(before);
});
