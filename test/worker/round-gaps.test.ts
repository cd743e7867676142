/** W3: a gap where none may be stops the stream with an alarm; it is never skipped. W10: foreign names are reported and left alone. */
import { describe, expect, test } from "vitest";
import { key, Scene } from "./round-support.ts";

async function crashAfterRelay(scene: Scene, numbers: readonly number[]): Promise<void> {
  await scene.commit("o-1", numbers);
  scene.onHandle = () => {
    throw new Error("leave it pending");
  };
  await scene.worker().handle("o-1");
  scene.onHandle = () => undefined;
  scene.log.length = 0;
  await scene.clock.advance(10_000);
}

describe("W3: something is missing", () => {
  test("an outbox entity in the middle: what is older runs, nothing after it", async () => {
    const scene = new Scene();
    await scene.commit("o-1", [1, 2, 3]);
    scene.storage.deleteRow(key("o-1"), scene.outboxRows()[1]!);
    const result = await scene.worker().handle("o-1");
    expect(scene.log).toEqual(["audit E1"]);
    expect(result).toMatchObject({ status: "left", retryInMs: 60_000 });
    expect(result.problems.join()).toContain("event 2 is missing");
    // Nothing is thrown away, and nothing changes by trying again.
    expect(scene.outboxRows()).toHaveLength(1);
    await scene.worker().handle("o-1");
    expect(scene.log).toEqual(["audit E1"]);
  });

  test("the only outbox entity", async () => {
    const scene = new Scene();
    await scene.commit("o-1", [1]);
    scene.storage.deleteRow(key("o-1"), scene.outboxRows()[0]!);
    expect((await scene.worker().handle("o-1")).problems.join()).toContain("event 1 is missing");
    await scene.commit("o-1", [2]);
    await scene.worker().handle("o-1");
    expect(scene.log).toEqual([]);
  });

  test("a pending event blob at the head, in the middle or at the end", async () => {
    for (const lost of [0, 1, 2]) {
      const scene = new Scene();
      await crashAfterRelay(scene, [1, 2, 3]);
      const id = scene.ids("events")[lost]!;
      scene.storage.deleteBlob("events", `audit/o-1/${id}.json`);
      const result = await scene.worker().handle("o-1");
      expect(scene.log).toEqual(["audit E1", "audit E2", "audit E3"].slice(0, lost));
      expect(result.problems.join()).toContain("is missing");
      expect(result.status).toBe("left");
    }
  });

  test("a pending event of one of two streams, seen behind a filter", async () => {
    const scene = new Scene();
    const subscriptions = [scene.subscription("audit"), scene.subscription("steps", { events: ["step"] })];
    await scene.commit("o-1", [1]);
    await scene.worker(subscriptions).handle("o-1");
    await scene.commit("o-1", [2]);
    await scene.commit("o-1", [3], "other");
    await scene.commit("o-1", [4]);
    scene.onHandle = (_entry, { n }) => {
      if (n === 2) throw new Error("leave it pending");
    };
    await scene.worker(subscriptions).handle("o-1");
    scene.storage.deleteBlob("events", `steps/o-1/${scene.ids("events", "steps")[0]}.json`);
    await scene.clock.advance(10_000);
    scene.log.length = 0;
    scene.onHandle = () => undefined;
    await scene.worker(subscriptions).handle("o-1");
    expect(scene.log).toEqual(["audit E2", "audit E3", "audit E4"]);
  });

  test("the newest pending event of one of two streams", async () => {
    const scene = new Scene();
    const subscriptions = [scene.subscription("audit"), scene.subscription("mail")];
    await scene.commit("o-1", [1, 2, 3]);
    scene.onHandle = (_entry, { n }) => {
      if (n === 2) throw new Error("leave it pending");
    };
    await scene.worker(subscriptions).handle("o-1");
    scene.storage.deleteBlob("events", `audit/o-1/${scene.ids("events")[1]}.json`);
    await scene.clock.advance(10_000);
    scene.onHandle = () => undefined;
    scene.log.length = 0;
    const result = await scene.worker(subscriptions).handle("o-1");
    expect(scene.log.toSorted()).toEqual(["audit E2", "mail E2", "mail E3"]);
    expect(result).toMatchObject({ status: "left", retryInMs: 60_000 });
    expect(result.problems).toEqual(["event 3 of audit is missing from its pending events. Nothing after it runs."]);
    expect(scene.progress().clean).toBe(0);
  });

  test("the order entity went back in time: nothing runs, nothing is deleted", async () => {
    const scene = new Scene();
    await scene.commit("o-1", [1, 2]);
    await scene.worker().handle("o-1");
    scene.storage.deleteRow(key("o-1"), "order");
    await scene.commit("o-1", [1]);
    const result = await scene.worker().handle("o-1");
    expect(result).toMatchObject({ status: "left", retryInMs: 60_000 });
    expect(result.problems.join()).toContain("restored or removed");
    expect(scene.log).toEqual(["audit E1", "audit E2"]);
    expect(scene.outboxRows()).toHaveLength(1);
  });
});

test("W3: what is committed while an order is found behind its progress is not relayed, and nothing else is said to be missing", async () => {
  const scene = new Scene();
  await scene.commit("o-1", [1, 2]);
  await scene.worker().handle("o-1");
  scene.storage.deleteRow(key("o-1"), "order");
  await scene.commit("o-1", [1]);
  const worker = scene.worker();
  const pokes: Promise<unknown>[] = [];
  scene.storage.onCall = ({ method }) => {
    if (method !== "readOutbox" || pokes.length > 0) return undefined;
    // By the next look the order has come past its progress.
    const after = async (): Promise<void> => {
      await scene.commit("o-1", [2, 3]);
      pokes.push(worker.handle("o-1"));
    };
    return { after };
  };
  const { problems } = await worker.handle("o-1");
  await Promise.all(pokes);
  expect(problems.filter((problem) => !problem.includes("restored or removed"))).toEqual([]);
  expect(scene.log).toEqual(["audit E1", "audit E2"]);
  expect(scene.outboxRows()).toHaveLength(3);
});

describe("what is not ours", () => {
  test("W10: foreign blobs under the stream's prefix are reported and left alone", async () => {
    const scene = new Scene();
    await crashAfterRelay(scene, [1, 2]);
    for (const name of ["readme.txt", "01JZ.json", "a/01JZ0000000000000000000001.json"])
      scene.storage.putBlob("events", `audit/o-1/${name}`, new Uint8Array());
    scene.storage.putBlob("events", "audit/o-1/01JZ0000000000000000000009.json", new Uint8Array([255, 0]));
    const result = await scene.worker().handle("o-1");
    expect(scene.log).toEqual(["audit E1", "audit E2"]);
    expect(result.problems.filter((problem) => problem.includes("not one of ours"))).toHaveLength(4);
    expect(scene.ids("events")).toHaveLength(4);
  });

  test("W10: a copy of an event under another name never runs", async () => {
    const scene = new Scene();
    await crashAfterRelay(scene, [1]);
    const [, blob] = scene.storage.blobEntries("events")[0]!;
    scene.storage.putBlob("events", "audit/o-1/zcopy.json", blob.bytes, { ...blob.metadata, sequence: "2", previous: "1" });
    expect((await scene.worker().handle("o-1")).status).toBe("done");
    expect(scene.log).toEqual(["audit E1"]);
    expect(scene.ids("events")).toEqual(["zcopy"]);
  });

  test("another order's event in this order's place never runs", async () => {
    const scene = new Scene();
    await crashAfterRelay(scene, [1]);
    const [name, blob] = scene.storage.blobEntries("events")[0]!;
    const text = new TextDecoder().decode(blob.bytes).replace('"subject":"o-1"', '"subject":"o-2"');
    scene.storage.putBlob("events", name, new TextEncoder().encode(text), blob.metadata);
    const result = await scene.worker().handle("o-1");
    expect(scene.log).toEqual([]);
    expect(result.problems.join()).toContain("holds another event");
    expect(scene.ids("events")).toHaveLength(1);
  });

  test("W10: o-1 never sees the events of o-10 or o-1-x", async () => {
    const scene = new Scene();
    for (const orderId of ["o-1", "o-10", "o-1-x"]) await scene.commit(orderId, [1]);
    scene.onHandle = () => {
      throw new Error("leave it pending");
    };
    for (const orderId of ["o-1", "o-10", "o-1-x"]) await scene.worker().handle(orderId);
    await scene.clock.advance(10_000);
    scene.onHandle = () => undefined;
    scene.log.length = 0;
    await scene.worker().handle("o-1");
    expect(scene.log).toEqual(["audit E1"]);
    expect(scene.ids("events", "audit", "o-10")).toHaveLength(1);
    expect(scene.ids("events", "audit", "o-1-x")).toHaveLength(1);
  });

  test("a row in our range that is no outbox entity is reported and left alone; the order goes on", async () => {
    const scene = new Scene();
    scene.storage.putRow(key("o-1"), "outbox:not-a-ulid", { note: "hello" });
    await scene.commit("o-1", [1]);
    const result = await scene.worker().handle("o-1");
    expect(result.status).toBe("done");
    expect(result.problems.join()).toContain("outbox:not-a-ulid");
    expect(scene.log).toEqual(["audit E1"]);
    expect(scene.outboxRows()).toEqual(["outbox:not-a-ulid"]);
  });

  test("an outbox entity whose text is another event stops the order there", async () => {
    const scene = new Scene();
    await scene.commit("o-1", [1, 2]);
    const { outbox } = await scene.storage.orders.readOutbox(key("o-1"));
    scene.storage.putRow(key("o-1"), `outbox:${outbox[1]!.id}`, { sequence: 2n, event: outbox[0]!.text! });
    const result = await scene.worker().handle("o-1");
    expect(scene.log).toEqual(["audit E1"]);
    expect(result.problems.join()).toContain("holds another event");
    expect(scene.outboxRows()).toHaveLength(1);
  });

  test("progress that something else wrote is `corrupt`, and nothing runs", async () => {
    const scene = new Scene();
    await scene.commit("o-1", [1]);
    const blob = await scene.storage.leases.create(key("o-1"));
    await scene.storage.leases.acquire(key("o-1"), { id: "x", durationMs: 15_000, etag: blob.etag });
    await scene.storage.leases.writeMetadata(key("o-1"), { progress: "{}" }, { leaseId: "x", etag: blob.etag });
    await scene.storage.leases.release(key("o-1"), "x");
    await expect(scene.worker().handle("o-1")).rejects.toMatchObject({ code: "corrupt" });
    expect(scene.log).toEqual([]);
    expect(scene.outboxRows()).toHaveLength(1);
  });
});
