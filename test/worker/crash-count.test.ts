/**
 * W4, C06: the count of crashes outlives every round that starts nothing, whatever the lease says by then; and a start that has ended in a living
 * process is no crash, whether that process could write it down or not.
 */
import { describe, expect, test } from "vitest";
import { OutboxError } from "../../src/core/errors.ts";
import type { Storage } from "../../src/core/ports.ts";
import { settle } from "../support/manual-clock.ts";
import { kill, MAX_CRASHES, processOf } from "./crash-support.ts";
import { deadLetters, pendingStates } from "./operator-support.ts";
import { key, Scene } from "./round-support.ts";

/** The storage of a process to which something happens at its first call of `method` on `port`. */
function at<Port extends keyof Storage>(scene: Scene, port: Port, method: keyof Storage[Port] & string, happens: () => void): Storage {
  const real = scene.storage[port] as object;
  const proxy = new Proxy(real, {
    get(target, name, receiver) {
      if (name === method) happens();
      return Reflect.get(target, name, receiver) as unknown;
    },
  });
  return { ...scene.storage, [port]: proxy };
}

test("a handler that kills its process is started maxCrashes times when nothing else goes wrong", async () => {
  const scene = new Scene();
  await scene.commit("o-1", [1]);
  await kill(scene, 10);
  expect(scene.log).toEqual(Array<string>(MAX_CRASHES).fill("audit E1"));
});

// The first start of a fresh event is not counted: after one kill the next holder alone can tell of it.
test.each([1, 2])("W4: a host that stops between taking over and starting the head does not forget %d crashes before", async (kills) => {
  const scene = new Scene();
  await scene.commit("o-1", [1]);
  await kill(scene, kills);
  const stopping: { stop?: () => void } = {};
  const worker = scene.worker([scene.subscription("audit", { retry: { maxCrashes: MAX_CRASHES } })], {
    storage: at(scene, "blobs", "list", () => stopping.stop?.()),
  });
  stopping.stop = () => worker.stopStarting();
  await scene.until(worker.handle("o-1"));
  expect(scene.log).toEqual(Array<string>(kills).fill("audit E1"));
  await kill(scene, 10);
  expect(scene.log).toEqual(Array<string>(MAX_CRASHES).fill("audit E1"));
});

test.each([1, 2])("W4: a count whose write fails does not forget %d crashes before", async (kills) => {
  const scene = new Scene();
  await scene.commit("o-1", [1]);
  await kill(scene, kills);
  const worker = scene.worker([scene.subscription("audit", { retry: { maxCrashes: MAX_CRASHES } })], {
    storage: at(scene, "blobs", "writeMetadata", () => {
      throw new OutboxError("timeout", "no answer");
    }),
  });
  await scene.until(worker.handle("o-1").catch(() => undefined));
  expect(scene.log).toEqual(Array<string>(kills).fill("audit E1"));
  await scene.clock.advance(31_000);
  await kill(scene, 10);
  expect(scene.log).toEqual(Array<string>(MAX_CRASHES).fill("audit E1"));
});

test("W4: a lease that was read as free, taken over by a process that died, and acquired only then, hides that death", async () => {
  const scene = new Scene();
  await scene.commit("o-1", [0]);
  await scene.until(scene.worker([scene.subscription("audit", { retry: { maxCrashes: MAX_CRASHES } })]).handle("o-1"));
  await scene.commit("o-1", [1]);
  // Frozen after its read of the lease blob, for longer than a lease lasts.
  const thawed = Promise.withResolvers<void>();
  const { leases } = scene.storage;
  const frozen: Storage = {
    ...scene.storage,
    leases: new Proxy(leases, {
      get(target, name, receiver) {
        if (name !== "read") return Reflect.get(target, name, receiver) as unknown;
        return async (...call: Parameters<typeof leases.read>) => {
          const blob = await target.read(...call);
          await thawed.promise;
          return blob;
        };
      },
    }),
  };
  const late = scene.worker([scene.subscription("audit", { retry: { maxCrashes: MAX_CRASHES } })], { storage: frozen });
  late.handle("o-1").catch(() => undefined);
  await settle();
  await kill(scene, 1);
  thawed.resolve();
  await settle();
  expect(scene.log).toEqual(["audit E0", "audit E1", "audit E1"]);
  scene.storage.breakLease(key("o-1"));
  await scene.clock.advance(31_000);
  await kill(scene, 10);
  expect(scene.log.slice(1)).toEqual(Array<string>(MAX_CRASHES).fill("audit E1"));
});

test("W4: a worker that let the lease run out, alive, knows nothing of what others have relayed and died in since", async () => {
  const scene = new Scene();
  await scene.commit("o-1", [0]);
  const worker = processOf(scene);
  await scene.until(worker.handle("o-1"));
  await scene.commit("o-1", [1]);
  let down = true;
  scene.storage.onCall = ({ port, method }) => {
    if (port === "orders" && method === "readOutbox" && down) throw new OutboxError("unavailable", "down");
  };
  await expect(worker.handle("o-1")).rejects.toThrow("down");
  down = false;
  scene.log.length = 0;
  await scene.clock.advance(31_000);
  await kill(scene, 1);
  void worker.handle("o-1");
  await settle();
  expect(scene.log).toEqual(["audit E1", "audit E1"]);
  // Both of them: the start that nobody has counted, and this one.
  expect(pendingStates(scene)).toMatchObject([{ attempts: 2, crashes: 2 }]);
});

test("W4: a holder that was let down by storage before it judged the head does not forget the death before it", async () => {
  const scene = new Scene();
  await scene.commit("o-1", [1]);
  await kill(scene, 1);
  const worker = processOf(scene);
  let down = true;
  scene.storage.onCall = ({ port, method }) => {
    if (port === "blobs" && method === "list" && down) throw new OutboxError("unavailable", "down");
  };
  await expect(worker.handle("o-1")).rejects.toThrow("down");
  down = false;
  await scene.clock.advance(31_000);
  void worker.handle("o-1");
  await settle();
  expect(scene.log).toEqual(["audit E1", "audit E1"]);
  expect(pendingStates(scene)).toMatchObject([{ attempts: 2, crashes: 2 }]);
});

describe("W4: what ended in a living process is no crash", () => {
  test("when the host stopped while it ran", async () => {
    const scene = new Scene();
    await scene.commit("o-1", [1]);
    await kill(scene, 2);
    scene.onHandle = (_entry, { context: { signal } }) =>
      new Promise((_resolve, reject) => signal.addEventListener("abort", () => reject(new Error("interrupted"))));
    const stop = new AbortController();
    const round = processOf(scene).handle("o-1", { signal: stop.signal });
    await settle();
    stop.abort(new Error("the host stops"));
    await scene.until(round);
    expect(pendingStates(scene)).toMatchObject([{ crashes: 0, status: "pending" }]);
  });

  test("when its progress can't be written, again and again", async () => {
    const scene = new Scene();
    const worker = processOf(scene, 2);
    await scene.commit("o-1", [0]);
    await scene.until(worker.handle("o-1"));
    await scene.commit("o-1", [1]);
    scene.log.length = 0;
    let down = true;
    scene.storage.onCall = ({ port, method }) => {
      if (port === "leases" && method === "writeMetadata" && down) throw new OutboxError("forbidden", "down");
    };
    for (let life = 1; life <= 4; life++) {
      await expect(worker.handle("o-1")).rejects.toThrow("down");
      await scene.clock.advance(31_000);
    }
    down = false;
    expect(await scene.until(worker.handle("o-1"))).toMatchObject({ status: "done", handled: 1 });
    expect(scene.log).toEqual(Array<string>(5).fill("audit E1"));
    expect(deadLetters(scene)).toEqual([]);
  });

  test("when its lease was lost; but another process that died in it meanwhile is remembered", async () => {
    const scene = new Scene();
    await scene.commit("o-1", [1]);
    await kill(scene, 1);
    const interrupted: typeof scene.onHandle = (_entry, { context: { signal } }) =>
      new Promise((_resolve, reject) => signal.addEventListener("abort", () => reject(new Error("interrupted"))));
    scene.onHandle = interrupted;
    const worker = processOf(scene);
    const loseLease = async (): Promise<void> => {
      const round = worker.handle("o-1");
      await settle();
      scene.storage.breakLease(key("o-1"));
      await scene.until(round);
    };
    await loseLease();
    await loseLease();
    await loseLease();
    // Each time it begins anew: only the start of the moment is counted.
    expect(pendingStates(scene)).toMatchObject([{ crashes: 1, status: "pending" }]);
    await kill(scene, 1);
    expect(pendingStates(scene)).toMatchObject([{ crashes: 2, status: "pending" }]);
    scene.onHandle = interrupted;
    await loseLease();
    expect(pendingStates(scene)).toMatchObject([{ crashes: 3, status: "pending" }]);
    expect(deadLetters(scene)).toEqual([]);
  });

  test.each([
    ["while it ran", { shortStarts: 1 }, 0],
    ["between two attempts", { shortStarts: 2, shortDelayMs: 8_000 }, 1],
  ] as const)("when the lease was lost %s, in a round that began with a death", async (when, retry, failed) => {
    const scene = new Scene();
    await scene.commit("o-1", [0]);
    await kill(scene, 1);
    await scene.commit("o-1", [1]);
    scene.onHandle = (entry, { context: { signal } }) => {
      if (entry === "audit E0") return undefined;
      // The loss is noticed at the first renewal, after 10 s.
      if (when !== "while it ran") return scene.clock.sleep(8_000).then(() => Promise.reject(new Error("later")));
      return new Promise((_resolve, reject) => signal.addEventListener("abort", () => reject(new Error("interrupted"))));
    };
    const worker = scene.worker([scene.subscription("audit", { retry })]);
    const round = worker.handle("o-1");
    await settle();
    expect(scene.log).toEqual(["audit E0", "audit E0", "audit E1"]);
    scene.storage.breakLease(key("o-1"));
    await scene.until(round);
    scene.onHandle = () => new Promise(() => undefined);
    void worker.handle("o-1");
    await settle();
    const state = pendingStates(scene).find(({ sequence }) => sequence === 2);
    expect(state).toMatchObject({ attempts: failed + 1, crashes: 1, status: "pending" });
  });

  test("when the lease was lost in a round that began with a death, and the host stops before it starts again", async () => {
    const scene = new Scene();
    await scene.commit("o-1", [0]);
    await kill(scene, 1);
    await scene.commit("o-1", [1]);
    scene.onHandle = (entry, { context: { signal } }) =>
      entry === "audit E0"
        ? undefined
        : new Promise((_resolve, reject) => signal.addEventListener("abort", () => reject(new Error("interrupted"))));
    const worker = processOf(scene);
    const round = worker.handle("o-1");
    await settle();
    scene.storage.breakLease(key("o-1"));
    await scene.until(round);
    scene.storage.onCall = ({ port, method }) => {
      if (port === "blobs" && method === "list") worker.stopStarting();
    };
    await scene.until(worker.handle("o-1"));
    expect(scene.log).toEqual(["audit E0", "audit E0", "audit E1"]);
    expect(pendingStates(scene)).toMatchObject([{ sequence: 2, attempts: 0, crashes: 0, status: "pending" }]);
  });

  test("when the answer to its count was lost: it starts, as its count is there", async () => {
    const scene = new Scene();
    await scene.commit("o-1", [1]);
    await kill(scene, 1);
    scene.onHandle = () => undefined;
    scene.storage.onCall = ({ port, method }) => (port === "blobs" && method === "writeMetadata" ? "lose-response" : undefined);
    expect(await scene.until(processOf(scene).handle("o-1"))).toMatchObject({ status: "done", handled: 1 });
    expect(scene.log).toEqual(["audit E1", "audit E1"]);
  });
});

test("W4: of a guess that was counted, but not started upon, nothing dies", async () => {
  const scene = new Scene();
  await scene.commit("o-1", [1]);
  await kill(scene, 1);
  for (let life = 1; life <= 3; life++) {
    const worker = processOf(scene, 1);
    scene.storage.onCall = ({ port, method }) => {
      if (port === "blobs" && method === "writeMetadata") worker.stopStarting();
    };
    await scene.until(worker.handle("o-1"));
  }
  scene.storage.onCall = undefined;
  scene.onHandle = () => undefined;
  expect(await scene.until(processOf(scene, 1).handle("o-1"))).toMatchObject({ status: "done", handled: 1 });
  expect(deadLetters(scene)).toEqual([]);
});
