/** C06, F5, G5: a suspect that waits for another one's handler is judged again when its turn comes. */
import { describe, expect, test } from "vitest";
import { pause } from "../../src/operations/pauses.ts";
import type { Worker } from "../../src/worker/round-result.ts";
import type { WorkerOptions } from "../../src/worker/worker.ts";
import { settle } from "../support/manual-clock.ts";
import { ANN, contextOf, pendingStates } from "./operator-support.ts";
import { key, Scene } from "./round-support.ts";

interface Waiting {
  readonly scene: Scene;
  readonly worker: Worker;
  /** Ends the handler that runs, and the rounds. */
  readonly finish: () => Promise<void>;
}

/** A process died in the handlers of o-1 and o-2. Now that of E1 runs in another process, and E2 waits for its turn. */
async function waiting(options: Partial<WorkerOptions> = {}, signal?: AbortSignal): Promise<Waiting> {
  const scene = new Scene();
  await scene.commit("o-1", [1]);
  await scene.commit("o-2", [2]);
  scene.onHandle = () => new Promise(() => undefined);
  const dying = scene.worker();
  void dying.handle("o-1");
  void dying.handle("o-2");
  await settle();
  for (const orderId of ["o-1", "o-2"]) scene.storage.breakLease(key(orderId));
  scene.log.length = 0;
  const gate = Promise.withResolvers<void>();
  scene.onHandle = () => gate.promise;
  const worker = scene.worker(undefined, options);
  const given = signal === undefined ? {} : { signal };
  const rounds = Promise.all([worker.handle("o-1", given), worker.handle("o-2", given)]);
  await settle();
  expect(scene.log).toEqual(["audit E1"]);
  const finish = async (): Promise<void> => {
    gate.resolve();
    await scene.until(rounds);
  };
  return { scene, worker, finish };
}

/** Of E2, which did not start again. That its process died in its first start is all that is known of it, and is written down (W4). */
function counted(scene: Scene): readonly (readonly [attempts: number, crashes: number])[] {
  return pendingStates(scene, "audit", "o-2").map(({ attempts, crashes }) => [attempts, crashes]);
}

describe("nothing starts from quarantine", () => {
  test("C06: once the host stops", async () => {
    const { scene, worker, finish } = await waiting();
    worker.stopStarting();
    await finish();
    expect(scene.log).toEqual(["audit E1"]);
    expect(counted(scene)).toEqual([[1, 1]]);
  });

  test("C06: once the host stops for good", async () => {
    const stop = new AbortController();
    const { scene, worker, finish } = await waiting({}, stop.signal);
    worker.stopStarting();
    stop.abort(new Error("the host stops"));
    await finish();
    expect(scene.log).toEqual(["audit E1"]);
    expect(counted(scene)).toEqual([[1, 1]]);
  });

  test("F5: once it is paused", async () => {
    const { scene, finish } = await waiting();
    await pause(contextOf(scene), { subscription: "audit" }, ANN);
    await scene.clock.advance(40_000);
    await finish();
    expect(scene.log).toEqual(["audit E1"]);
    expect(counted(scene)).toEqual([[1, 1]]);
  });

  test("C06: once the time budget is spent", async () => {
    const { scene, finish } = await waiting({ timeBudgetMs: 10_000 });
    await scene.clock.advance(10_000);
    await finish();
    expect(scene.log).toEqual(["audit E1"]);
    expect(counted(scene)).toEqual([[1, 1]]);
  });

  test("and what nothing hinders does", async () => {
    const { scene, finish } = await waiting();
    await finish();
    expect(scene.log).toEqual(["audit E1", "audit E2"]);
  });
});

test("W4: the host stops while a suspect's start is counted: it does not start, and no crash is held against it", async () => {
  const scene = new Scene();
  await scene.commit("o-1", [1]);
  scene.onHandle = () => new Promise(() => undefined);
  void scene.worker().handle("o-1");
  await settle();
  scene.storage.breakLease(key("o-1"));
  const worker = scene.worker();
  scene.storage.onCall = ({ port, method }) => {
    if (port === "blobs" && method === "writeMetadata") worker.stopStarting();
  };
  expect(await scene.until(worker.handle("o-1"))).toMatchObject({ status: "left", handled: 0 });
  expect(scene.log).toEqual(["audit E1"]);
  // What the first holder died in is known by now, and stays.
  expect(pendingStates(scene)).toMatchObject([{ attempts: 1, crashes: 1, status: "pending" }]);
  scene.onHandle = () => undefined;
  expect(await scene.until(scene.worker().handle("o-1"))).toMatchObject({ status: "done", handled: 1 });
  expect(scene.log).toEqual(["audit E1", "audit E1"]);
});

test("F5: the pauses are asked for again after an event was read for longer than they are known", async () => {
  const scene = new Scene();
  await scene.commit("o-1", [1]);
  let slow = true;
  scene.onHandle = () => new Promise(() => undefined);
  void scene.worker().handle("o-1");
  await settle();
  scene.storage.breakLease(key("o-1"));
  scene.log.length = 0;
  scene.storage.onCall = async ({ port, method, args }) => {
    if (port !== "blobs" || method !== "read" || args[0] !== "events" || !slow) return;
    slow = false;
    await scene.clock.sleep(16_000);
  };
  const round = scene.worker().handle("o-1");
  await settle();
  await pause(contextOf(scene), { subscription: "audit" }, ANN);
  expect(await scene.until(round)).toMatchObject({ problems: ["event 1 of audit stands: paused by ann: carrier is back"] });
  expect(scene.log).toEqual([]);
});

test("C06: crashes that an earlier round has counted keep an event in quarantine, also when the lease was given back since", async () => {
  const scene = new Scene();
  const orders = ["o-1", "o-2"] as const;
  await scene.commit("o-1", [1]);
  await scene.commit("o-2", [2]);
  scene.onHandle = () => new Promise(() => undefined);
  for (const taken of [orders, orders, orders.toReversed()]) {
    const dying = scene.worker();
    for (const orderId of taken) void dying.handle(orderId);
    await settle();
    for (const orderId of orders) scene.storage.breakLease(key(orderId));
  }
  expect(scene.log).toEqual(["audit E1", "audit E2", "audit E1", "audit E2"]);
  const stopping = scene.worker();
  scene.storage.onCall = ({ port, method }) => {
    if (port === "blobs" && method === "list") stopping.stopStarting();
  };
  await scene.until(Promise.all(orders.map((orderId) => stopping.handle(orderId))));
  scene.storage.onCall = undefined;
  scene.log.length = 0;
  const worker = scene.worker();
  for (const orderId of orders) void worker.handle(orderId);
  await settle();
  expect(scene.log).toEqual(["audit E1"]);
});
