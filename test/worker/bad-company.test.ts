/** Events, orders and deployments that do no wrong themselves, next to something that does. */
import { expect, test } from "vitest";
import { decideOrder } from "../../src/operations/decide-many.ts";
import { createSweeper } from "../../src/operations/sweep.ts";
import { settle } from "../support/manual-clock.ts";
import { archived, BOB, contextOf, deadLetters, deliver, headId, live, oid, pendingStates } from "./operator-support.ts";
import { mortal, Scene } from "./round-support.ts";

test("C06, G4: an order that runs beside a killer does not die with it", async () => {
  const scene = new Scene();
  await scene.commit("o-1", [1]);
  await scene.commit("o-2", [2]);
  const never = (): Promise<never> => new Promise(() => undefined);
  for (let life = 1; life <= 6; life++) {
    let dead = false;
    // One process for both orders: from the killer's second second on nothing of it goes on.
    scene.onHandle = async (entry) => {
      await scene.clock.sleep(entry === "audit E1" ? 2_000 : 5_000);
      if (entry === "audit E1") dead = true;
      if (dead) await never();
    };
    const process = mortal(scene.storage, -1, "is-refused", new Error("unused"));
    const renew: typeof scene.storage.leases.renew = (...args) => (dead ? never() : process.storage.leases.renew(...args));
    const leases = new Proxy(process.storage.leases, {
      get: (target, method) => (method === "renew" ? renew : Reflect.get(target, method)),
    });
    const worker = scene.worker(undefined, { storage: { ...process.storage, leases } });
    void worker.handle("o-1").catch(() => undefined);
    void worker.handle("o-2").catch(() => undefined);
    await scene.clock.advance(63_000);
  }
  scene.onHandle = () => undefined;
  const worker = scene.worker();
  await scene.until(worker.handle("o-2"));
  expect(pendingStates(scene, "audit", "o-2")).toEqual([]);
  expect(archived(scene, "audit", "o-2")).toMatchObject([{ outcome: "handled" }]);
  await scene.until(worker.handle("o-1"));
  expect(deadLetters(scene, "audit", "o-1")).toHaveLength(1);
});

test("F10: discard is carried out for a subscription that went away right after its first relay", async () => {
  const scene = new Scene();
  const [audit, mail] = [scene.subscription("audit"), scene.subscription("mail")];
  await scene.commit("o-1", [1]);
  // Dies when the outbox entity is gone and nothing has been handled.
  scene.onHandle = () => new Promise(() => undefined);
  void scene.worker([audit, mail]).handle("o-1");
  await settle();
  scene.storage.breakLease(oid("o-1") as never);
  await scene.clock.advance(100_000);
  scene.onHandle = () => undefined;
  const worker = scene.worker([audit]);
  await scene.until(worker.handle("o-1"));
  await decideOrder(contextOf(scene), "discard", { orderId: oid("o-1"), subscription: "mail", id: headId(scene, "mail") }, BOB);
  await live(scene, worker, 60_000);
  expect(scene.ids("events", "mail")).toEqual([]);
  expect(archived(scene, "mail")).toMatchObject([{ outcome: "discarded" }]);
});

test("C30, G5: a host whose clock was a year ahead does not park an event for a year", async () => {
  const scene = new Scene();
  const { clock } = scene;
  const ahead = { now: () => clock.now() + 365 * 86_400_000, monotonic: () => clock.monotonic(), sleep: clock.sleep.bind(clock) };
  let failed = false;
  scene.onHandle = () => {
    if (failed) return;
    failed = true;
    throw new Error("carrier is down");
  };
  await scene.commit("o-1", [1, 2]);
  await scene.until(scene.worker(undefined, { clock: ahead }).handle("o-1"));
  const worker = scene.worker();
  const sweeper = createSweeper({ storage: scene.storage, clock });
  await clock.advance(3_600_000);
  await sweeper.sweep();
  await deliver(scene, worker);
  expect(scene.log).toEqual(["audit E1", "audit E1", "audit E2"]);
});
