/** Every storage call of a round meets every fault once; the next rounds put things right by themselves (G2, G3, G5, W2, W4, W11). */
import { describe, expect, test } from "vitest";
import { OutboxError } from "../../src/core/errors.ts";
import { settle } from "../support/manual-clock.ts";
import { key, mortal, Scene, type Fate } from "./round-support.ts";

const NUMBERS = [1, 2, 3];

/** A backlog, fresh entities and two subscriptions: the round lists, relays, drains and archives. */
async function prepare(): Promise<Scene> {
  const scene = new Scene();
  await scene.commit("o-1", [1]);
  let failed = false;
  scene.onHandle = (entry) => {
    if (entry !== "erp E1" || failed) return;
    failed = true;
    throw new Error("leave it pending");
  };
  await worker(scene).handle("o-1");
  await scene.commit("o-1", [2, 3]);
  scene.log.length = 0;
  await scene.clock.advance(10_000);
  return scene;
}

function worker(scene: Scene, storage = scene.storage as Parameters<typeof mortal>[0]) {
  return scene.worker([scene.subscription("erp"), scene.subscription("mail")], { storage });
}

/** Rounds until the order is done, as wake-ups and sweep would start them. */
async function recover(scene: Scene): Promise<void> {
  for (let rounds = 0; rounds < 10; rounds++) {
    await scene.clock.advance(100_000);
    const result = await scene.until(worker(scene).handle("o-1"));
    if (result.status === "done") return;
  }
  throw new Error("the order does not recover");
}

function audit(scene: Scene): void {
  for (const name of ["erp", "mail"]) {
    const calls = scene.log.filter((entry) => entry.startsWith(name)).map((entry) => Number(entry.split("E")[1]));
    const expected = name === "erp" ? [1, 2, 3] : [2, 3];
    // G3: a crash may repeat the event that was running, never an earlier one.
    expect(calls.filter((n, index) => n !== calls[index - 1])).toEqual(expected);
    expect(calls.length - expected.length).toBeLessThanOrEqual(1);
    expect(scene.ids("events", name)).toEqual([]);
    expect(scene.ids("archive", name)).toHaveLength(NUMBERS.length);
  }
  expect(scene.outboxRows()).toEqual([]);
  expect(scene.progress()).toMatchObject({ clean: 3, streams: { erp: { sequence: 3 }, mail: { sequence: 3 } } });
}

/** Calls of the undisturbed round. */
async function countCalls(): Promise<number> {
  const scene = await prepare();
  const counted = mortal(scene.storage, -1, "is-refused", new Error("unused"));
  expect((await worker(scene, counted.storage).handle("o-1")).status).toBe("done");
  audit(scene);
  return counted.calls();
}

describe.each<Fate>(["dies-before", "dies-after", "loses-response", "is-refused"])("a call %s", (fate) => {
  test("at every call of the round: nothing lost, nothing out of order, at most the running event twice", async () => {
    const calls = await countCalls();
    expect(calls).toBeGreaterThan(15);
    for (let at = 1; at <= calls; at++) {
      const scene = await prepare();
      const disturbed = mortal(scene.storage, at, fate, new OutboxError("unavailable", `fault at call ${at}`));
      const running = worker(scene, disturbed.storage).handle("o-1");
      running.catch(() => undefined);
      // A dead process stays dead; the others end by themselves.
      if (fate.startsWith("dies")) await settle();
      else await scene.until(running.catch(() => undefined));
      await recover(scene);
      audit(scene);
    }
  });
});

test("W4, C06: the start of an event that may have killed its process is counted before it runs", async () => {
  const scene = new Scene();
  await scene.commit("o-1", [1]);
  const attempts: number[] = [];
  const counted: (string | undefined)[] = [];
  scene.onHandle = async (_entry, { context }) => {
    attempts.push(context.attempt);
    counted.push(scene.storage.blobEntries("events")[0]?.[1].metadata["attempts"]);
    // The process dies here, three times over.
    if (attempts.length <= 3) await new Promise(() => undefined);
  };
  for (let start = 1; start <= 4; start++) {
    const dying = scene.worker().handle("o-1");
    dying.catch(() => undefined);
    await settle();
    scene.storage.breakLease(key("o-1"));
    await scene.clock.advance(60_000);
  }
  // The first start is not counted before it happens: the crash tells of it, and the next one is counted besides.
  expect(counted).toEqual(["0", "2", "3", "4"]);
  expect(scene.log).toEqual(["audit E1", "audit E1", "audit E1", "audit E1"]);
  expect(scene.ids("archive")).toHaveLength(1);
});

test("W2: a late copy of an older progress write can't turn progress back", async () => {
  const scene = new Scene();
  await scene.commit("o-1", [1, 2]);
  const writes: (() => Promise<unknown>)[] = [];
  scene.storage.onCall = ({ port, method, args }) => {
    if (port !== "leases" || method !== "writeMetadata") return;
    const [order, metadata, fence] = args as Parameters<typeof scene.storage.leases.writeMetadata>;
    writes.push(() => scene.storage.leases.writeMetadata(order, metadata, fence));
  };
  scene.onHandle = async (_entry, { n }) => {
    if (n !== 2) return;
    scene.storage.onCall = undefined;
    await expect(writes[0]!()).rejects.toMatchObject({ code: "precondition-failed" });
    expect(scene.progress().streams["audit"]?.sequence).toBe(1);
  };
  expect((await scene.worker().handle("o-1")).status).toBe("done");
});

test("C01: an event blob that reappears after its event was archived is never run, and goes away", async () => {
  const scene = new Scene();
  await scene.commit("o-1", [1]);
  await scene.worker().handle("o-1");
  const [name, blob] = scene.storage.blobEntries("archive")[0]!;
  await scene.commit("o-1", [2]);
  await scene.worker().handle("o-1");
  // The late write of a dead holder.
  scene.storage.putBlob("events", name, blob.bytes, { sequence: "1", previous: "0", attempts: "0" });
  await scene.storage.leases.acquire(key("o-1"), { id: "dead", durationMs: 15_000, etag: scene.storage.leaseOf(key("o-1"))!.etag });
  await scene.clock.advance(16_000);
  await scene.worker().handle("o-1");
  expect(scene.log).toEqual(["audit E1", "audit E2"]);
  expect(scene.ids("events")).toEqual([]);
  expect(scene.ids("archive")).toHaveLength(2);
});

test("C01: an outbox entity that reappears after its event was handled is only deleted", async () => {
  const scene = new Scene();
  await scene.commit("o-1", [1]);
  const [row] = scene.storage.rows(key("o-1")).filter(({ rowKey }) => rowKey.startsWith("outbox:"));
  await scene.worker().handle("o-1");
  await scene.commit("o-1", [2]);
  await scene.worker().handle("o-1");
  scene.storage.putRow(key("o-1"), row!.rowKey, row!.properties);
  expect((await scene.worker().handle("o-1")).status).toBe("done");
  expect(scene.log).toEqual(["audit E1", "audit E2"]);
  expect(scene.outboxRows()).toEqual([]);
  expect(scene.ids("events")).toEqual([]);
});

test("C28: an event blob with other bytes under the same name is a loud error; neither is touched", async () => {
  const scene = new Scene();
  await scene.commit("o-1", [1]);
  const id = scene.outboxRows()[0]!.slice("outbox:".length);
  scene.storage.putBlob("events", `audit/o-1/${id}.json`, new Uint8Array([1]), { sequence: "1", previous: "0", attempts: "2" });
  await expect(scene.worker().handle("o-1")).rejects.toMatchObject({ code: "corrupt" });
  expect(scene.outboxRows()).toHaveLength(1);
  expect(scene.storage.blobEntries("events")[0]?.[1]).toMatchObject({ bytes: new Uint8Array([1]), metadata: { attempts: "2" } });
  expect(scene.log).toEqual([]);
});

test("C28: the relay never resets the attempts of a blob that is there already", async () => {
  const scene = new Scene();
  await scene.commit("o-1", [1]);
  const { outbox } = await scene.storage.orders.readOutbox(key("o-1"));
  const bytes = new TextEncoder().encode(outbox[0]!.text);
  scene.storage.putBlob("events", `audit/o-1/${outbox[0]!.id}.json`, bytes, { sequence: "1", previous: "0", attempts: "2" });
  const attempts: number[] = [];
  scene.onHandle = (_entry, { context }) => void attempts.push(context.attempt);
  await scene.worker().handle("o-1");
  expect(attempts).toEqual([3]);
});

test("W11: an archive blob with other bytes is a loud error; the pending event stays", async () => {
  const scene = new Scene();
  await scene.commit("o-1", [1]);
  const id = scene.outboxRows()[0]!.slice("outbox:".length);
  scene.storage.putBlob("archive", `audit/o-1/${id}.json`, new Uint8Array([1]));
  const result = await scene.worker().handle("o-1");
  expect(result.problems.join()).toContain("other bytes");
  expect(scene.ids("events")).toHaveLength(1);
  // It needs a human; the order's further events do not wait for one.
  await scene.commit("o-1", [2]);
  expect(await scene.worker().handle("o-1")).toMatchObject({ status: "done", handled: 1 });
});

test("W4, C28: a blob that the relay finds there is suspect: its start is counted before the handler runs", async () => {
  const scene = new Scene();
  await scene.commit("o-1", [1]);
  // The process dies between the event blob and the delete of the entity.
  const dying = mortal(scene.storage, 7, "dies-after", new Error("unused"));
  void scene.worker(undefined, { storage: dying.storage }).handle("o-1");
  await settle();
  expect([scene.ids("events").length, scene.outboxRows().length]).toEqual([1, 1]);
  await scene.clock.advance(60_000);
  let counted: string | undefined;
  scene.onHandle = () => void (counted = scene.storage.blobEntries("events")[0]?.[1].metadata["attempts"]);
  await scene.worker().handle("o-1");
  expect(counted).toBe("1");
});

test("W2: progress that somebody else wrote under our lease stops the round at once", async () => {
  const scene = new Scene();
  await scene.commit("o-1", [0]);
  await scene.worker().handle("o-1");
  scene.log.length = 0;
  scene.storage.forgetCalls();
  await scene.commit("o-1", [1, 2]);
  let foreign = true;
  scene.storage.onCall = async ({ method, args }) => {
    if (method !== "writeMetadata" || !foreign) return;
    foreign = false;
    const [order, , fence] = args as Parameters<typeof scene.storage.leases.writeMetadata>;
    await scene.storage.leases.writeMetadata(order, { round: "another" }, fence);
  };
  expect(await scene.worker().handle("o-1")).toMatchObject({ status: "left", handled: 0 });
  expect(scene.log).toEqual(["audit E1"]);
  // The foreign write and one of ours.
  expect(scene.storage.callCounts()["leases.writeMetadata"]).toBe(2);
});

test("W3: an event that nobody wants is on record before its entity goes, so a crash leaves no gap", async () => {
  for (let at = 1; at <= 12; at++) {
    const scene = new Scene();
    const subscriptions = [scene.subscription("audit", { events: ["step"] })];
    await scene.commit("o-1", [1], "other");
    const dying = mortal(scene.storage, at, "dies-after", new Error("unused"));
    void scene.worker(subscriptions, { storage: dying.storage }).handle("o-1");
    await settle();
    await scene.clock.advance(60_000);
    expect(await scene.worker(subscriptions).handle("o-1")).toMatchObject({ status: "done", problems: [] });
    expect(scene.progress().clean).toBe(1);
  }
});

test("C05: what waits for the archive when the lease is lost is left to the next holder", async () => {
  const scene = new Scene();
  const names = Array.from({ length: 10 }, (_, index) => `s${index}`);
  const many = scene.worker(names.map((name) => scene.subscription(name)));
  const count = (container: "events" | "archive"): number => names.reduce((sum, name) => sum + scene.ids(container, name).length, 0);
  await scene.commit("o-1", [1, 2]);
  const gate = Promise.withResolvers<void>();
  scene.storage.onCall = ({ method, args }) => (method === "create" && args[0] === "archive" ? gate.promise : undefined);
  const running = many.handle("o-1");
  await settle();
  expect(scene.log).toHaveLength(20);
  scene.storage.breakLease(key("o-1"));
  await scene.clock.advance(10_000);
  scene.storage.onCall = undefined;
  gate.resolve();
  expect((await scene.until(running)).status).toBe("left");
  // Of the ten writes, one a stream, eight were under way.
  expect([count("events"), count("archive")]).toEqual([20, 16]);
  expect(await many.handle("o-1")).toMatchObject({ status: "done", handled: 0 });
  expect([count("events"), count("archive")]).toEqual([0, 20]);
  expect(scene.log).toHaveLength(20);
});
