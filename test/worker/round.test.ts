/** One round, step by step: W1, W2, W3, W4, W9, W10, W11. */
import { describe, expect, test } from "vitest";
import { OutboxError } from "../../src/core/errors.ts";
import { eventBytes } from "../../src/core/event.ts";
import { settle } from "../support/manual-clock.ts";
import { key, Scene } from "./round-support.ts";

describe("the ordinary path", () => {
  test("G2: events of several commits and of one transaction are handled in commit order, each once", async () => {
    const scene = new Scene();
    await scene.commit("o-1", [1]);
    await scene.commit("o-1", [2, 3, 4]);
    await scene.commit("o-1", [5]);
    const result = await scene.worker().handle("o-1");
    expect(result).toEqual({ status: "done", retryInMs: 0, handled: 5, problems: [] });
    expect(scene.log).toEqual(["audit E1", "audit E2", "audit E3", "audit E4", "audit E5"]);
    expect(scene.ids("events")).toEqual([]);
    expect(scene.ids("archive")).toHaveLength(5);
    expect(scene.progress().clean).toBe(5);
    expect(scene.storage.leaseOf(key("o-1"))?.state).toBe("free");
  });

  test("W1: all event blobs, then the entities go, then the handler, then progress, then the archive", async () => {
    const scene = new Scene();
    await scene.commit("o-1", [1]);
    await scene.worker().handle("o-1");
    await scene.commit("o-1", [2]);
    scene.storage.forgetCalls();
    const steps: string[] = [];
    scene.storage.onCall = ({ port, method, args }) => void steps.push(`${port}.${method}${port === "blobs" ? ` ${String(args[0])}` : ""}`);
    scene.onHandle = () => {
      steps.push("handler");
      expect(scene.outboxRows()).toEqual([]);
      expect(scene.ids("events")).toHaveLength(1);
    };
    await scene.worker().handle("o-1");
    // §8: 10 calls here, 12 with the queue's receive and delete; 2 blob writes, no list, no read of an event blob.
    expect(steps).toEqual([
      "leases.read",
      "leases.acquire",
      // Pauses, once in 15 s by a process.
      "orders.readOutbox",
      "orders.listEntities",
      "blobs.create events",
      "orders.deleteOutbox",
      "handler",
      "leases.writeMetadata",
      "blobs.create archive",
      "blobs.delete events",
      "leases.release",
      "orders.readOutbox",
    ]);
  });

  test("W1: no handler starts before every entity seen is gone, also with many events", async () => {
    const scene = new Scene();
    await scene.commit(
      "o-1",
      Array.from({ length: 60 }, (_, index) => index + 1),
    );
    scene.onHandle = () => expect(scene.outboxRows()).toEqual([]);
    await scene.worker([scene.subscription("audit"), scene.subscription("mail")]).handle("o-1");
    expect(scene.log).toHaveLength(120);
  });

  test("W2: the next event starts only after the progress of the one before is durable", async () => {
    const scene = new Scene();
    await scene.commit("o-1", [1, 2, 3]);
    scene.onHandle = (_entry, { n }) => expect(scene.progress().streams["audit"]?.sequence ?? 0).toBe(n - 1);
    await scene.worker().handle("o-1");
    expect(scene.log).toEqual(["audit E1", "audit E2", "audit E3"]);
  });

  test("W2: the archive is written only after the progress", async () => {
    const scene = new Scene();
    await scene.commit("o-1", [1, 2]);
    scene.storage.onCall = ({ port, method, args }) => {
      if (port !== "blobs" || method !== "create" || args[0] !== "archive") return;
      expect(/[0-9A-Z]{26}(?=\.)/.exec(String(args[1]))![0] <= scene.progress().streams["audit"]!.id!).toBe(true);
    };
    await scene.worker().handle("o-1");
    expect(scene.ids("archive")).toHaveLength(2);
  });

  test("G1, §3: the archive holds the committed bytes", async () => {
    const scene = new Scene();
    await scene.commit("o-1", [1]);
    const committed = await scene.storage.orders.readOutbox(key("o-1"));
    await scene.worker().handle("o-1");
    const [entry] = scene.storage.blobEntries("archive");
    expect(entry?.[1].bytes).toEqual(eventBytes(committed.outbox[0]?.text ?? ""));
    expect(entry?.[1].metadata).toMatchObject({ outcome: "handled", sequence: "1", attempts: "1" });
  });

  test("W7: a wake-up without an event does nothing, and none is no evidence of nothing", async () => {
    const scene = new Scene();
    expect(await scene.worker().handle("nobody")).toEqual({ status: "done", retryInMs: 0, handled: 0, problems: [] });
    expect(scene.log).toEqual([]);
  });

  test("W2: a subscription added later starts at the first event relayed to it", async () => {
    const scene = new Scene();
    await scene.commit("o-1", [1]);
    await scene.worker().handle("o-1");
    await scene.commit("o-1", [2]);
    await scene.worker([scene.subscription("audit"), scene.subscription("late")]).handle("o-1");
    expect(scene.log.toSorted()).toEqual(["audit E1", "audit E2", "late E2"]);
    expect(scene.progress().clean).toBe(2);
  });

  test("F10: a subscription that is gone keeps its progress and stops nothing", async () => {
    const scene = new Scene();
    await scene.commit("o-1", [1]);
    await scene.worker([scene.subscription("audit"), scene.subscription("gone")]).handle("o-1");
    await scene.commit("o-1", [2]);
    expect((await scene.worker().handle("o-1")).status).toBe("done");
    expect(scene.progress().streams["gone"]?.sequence).toBe(1);
    expect(scene.log.filter((entry) => entry.startsWith("audit"))).toEqual(["audit E1", "audit E2"]);
  });

  test.each(["known", "new"])(
    "G2, F10: a subscription that one deployment lacks misses nothing that was relayed to it (%s)",
    async (how) => {
      const scene = new Scene();
      const [audit, mail] = [scene.subscription("audit"), scene.subscription("mail")];
      if (how === "known") {
        await scene.commit("o-1", [0]);
        await scene.worker([audit, mail]).handle("o-1");
        scene.log.length = 0;
      }
      await scene.commit("o-1", [1]);
      scene.onHandle = (entry) => {
        if (entry === "mail E1") throw new Error("leave it pending");
      };
      await scene.worker([audit, mail]).handle("o-1");
      await scene.commit("o-1", [2]);
      expect((await scene.worker([audit]).handle("o-1")).status).toBe("done");
      scene.onHandle = () => undefined;
      await scene.clock.advance(10_000);
      await scene.commit("o-1", [3]);
      expect(await scene.worker([audit, mail]).handle("o-1")).toMatchObject({ status: "done", problems: [] });
      expect(scene.log.filter((entry) => entry.startsWith("mail"))).toEqual(["mail E1", "mail E1", "mail E3"]);
      expect(scene.log.filter((entry) => entry.startsWith("audit"))).toEqual(["audit E1", "audit E2", "audit E3"]);
      expect(scene.ids("events", "mail")).toEqual([]);
    },
  );

  test.each(["known", "new"])("G2, F10: the same when the process died right after the relay (%s)", async (how) => {
    const scene = new Scene();
    const [audit, mail] = [scene.subscription("audit"), scene.subscription("mail")];
    if (how === "known") {
      await scene.commit("o-1", [0]);
      await scene.worker([audit, mail]).handle("o-1");
      scene.log.length = 0;
    }
    await scene.commit("o-1", [1]);
    scene.onHandle = () => new Promise(() => undefined);
    void scene.worker([audit, mail]).handle("o-1");
    await settle();
    scene.storage.breakLease(key("o-1"));
    await scene.clock.advance(60_000);
    scene.onHandle = () => undefined;
    scene.log.length = 0;
    await scene.worker([audit]).handle("o-1");
    await scene.commit("o-1", [2]);
    await scene.worker([audit, mail]).handle("o-1");
    expect(scene.log.filter((entry) => entry.startsWith("mail"))).toEqual(["mail E1", "mail E2"]);
  });

  test.each([
    ["30 and 30 and 30", 30, 3],
    ["60 replaced at once", 60, 2],
  ])(
    "§3: more subscriptions than the progress has room for, %s: those that are gone and done are forgotten",
    async (_how, count, times) => {
      const scene = new Scene();
      for (let generation = 0; generation < times; generation++) {
        await scene.commit("o-1", [generation]);
        const subscriptions = Array.from({ length: count }, (_, index) => scene.subscription(`g${generation}-${"x".repeat(43)}${index}`));
        expect(await scene.worker(subscriptions).handle("o-1")).toMatchObject({ status: "done", handled: count });
        const known = Object.keys(scene.progress().streams);
        expect(known).toEqual(expect.arrayContaining(subscriptions.map(({ name }) => name)));
      }
    },
  );

  test("G4: a predicate that throws holds up only its own subscription; the event is not lost", async () => {
    const scene = new Scene();
    await scene.commit("o-1", [1, 2]);
    let broken = true;
    const picky = scene.subscription("picky", {
      when: (event) => {
        if (broken) throw new TypeError("no such field");
        return event.sequence === 2;
      },
    });
    const worker = scene.worker([picky, scene.subscription("audit")]);
    expect((await worker.handle("o-1")).problems).toEqual(["event 1 of picky stands: failed: TypeError: no such field"]);
    expect(scene.log).toEqual(["audit E1", "audit E2"]);
    broken = false;
    await scene.clock.advance(10_000);
    expect((await worker.handle("o-1")).status).toBe("done");
    expect(scene.log).toEqual(["audit E1", "audit E2", "picky E2"]);
  });

  test("G6: an event that nobody wants is archived all the same", async () => {
    const scene = new Scene();
    await scene.commit("o-1", [1], "other");
    await scene.worker([scene.subscription("audit", { events: ["step"] })]).handle("o-1");
    const [[name, blob] = ["none", undefined]] = scene.storage.blobEntries("archive");
    expect(name).toMatch(/^_unrouted\/o-1\/[0-9A-Z]{26}\.json$/);
    expect(blob?.metadata).toMatchObject({ sequence: "1", outcome: "unwanted" });
  });

  test("an event that nobody wants leaves no blob, and the order is clean", async () => {
    const scene = new Scene();
    await scene.commit("o-1", [1], "other");
    const worker = scene.worker([scene.subscription("audit", { events: ["step"] })]);
    expect((await worker.handle("o-1")).status).toBe("done");
    expect(scene.outboxRows()).toEqual([]);
    await scene.commit("o-1", [2]);
    scene.storage.forgetCalls();
    await worker.handle("o-1");
    expect(scene.log).toEqual(["audit E2"]);
    expect(scene.storage.callCounts()["blobs.list"]).toBeUndefined();
  });
});

describe("a handler that fails", () => {
  test("G2, C11: is tried again by the next wake-up and never overtaken", async () => {
    const scene = new Scene();
    await scene.commit("o-1", [1, 2, 3]);
    let failures = 1;
    scene.onHandle = (_entry, { n }) => {
      if (n === 1 && failures-- > 0) throw new Error("not now");
    };
    const worker = scene.worker();
    const first = await worker.handle("o-1");
    // Parked: its own wake-up is on the way.
    expect(first).toMatchObject({ status: "done", handled: 0 });
    expect(first.problems).toEqual(["event 1 of audit stands: failed: Error: not now"]);
    await scene.commit("o-1", [4]);
    await worker.handle("o-1");
    expect(scene.log).toEqual(["audit E1"]);
    await scene.clock.advance(10_000);
    expect((await worker.handle("o-1")).status).toBe("done");
    expect(scene.log).toEqual(["audit E1", "audit E1", "audit E2", "audit E3", "audit E4"]);
    expect(scene.ids("events")).toEqual([]);
  });

  test.each([undefined, null, "text", { circular: 1 }, Symbol("s")])("anything thrown is a failure: %s", async (thrown) => {
    const scene = new Scene();
    await scene.commit("o-1", [1]);
    scene.onHandle = () => {
      throw thrown;
    };
    expect((await scene.worker().handle("o-1")).problems[0]).toContain("event 1 of audit stands: failed");
    expect(scene.progress().clean).toBe(0);
  });

  test("W4: failures are counted on the event blob, and the handler is told", async () => {
    const scene = new Scene();
    await scene.commit("o-1", [1]);
    const attempts: number[] = [];
    scene.onHandle = (_entry, { context }) => {
      attempts.push(context.attempt);
      if (attempts.length < 3) throw new Error("x".repeat(1_000_000));
    };
    const worker = scene.worker();
    for (let round = 0; round < 3; round++) {
      await worker.handle("o-1");
      await scene.clock.advance(20_000);
    }
    expect(attempts).toEqual([1, 2, 3]);
    expect(scene.storage.blobEntries("archive")[0]?.[1].metadata["attempts"]).toBe("3");
  });

  test("G4: one order's and one subscription's failure holds up nobody else", async () => {
    const scene = new Scene();
    await scene.commit("o-1", [1, 2]);
    await scene.commit("o-2", [1]);
    scene.onHandle = (entry, { sequence, context }) => {
      if (entry === "erp E1" && sequence === 1 && context.attempt === 1) throw new Error("down");
    };
    const worker = scene.worker([scene.subscription("erp"), scene.subscription("mail")]);
    await worker.handle("o-1");
    expect(scene.log).toEqual(["erp E1", "mail E1", "mail E2"]);
    await scene.clock.advance(10_000);
    await worker.handle("o-1");
    expect(scene.log).toEqual(["erp E1", "mail E1", "mail E2", "erp E1", "erp E2"]);
  });

  test("an event type that is not deployed yet waits without an attempt, and nothing passes it", async () => {
    const scene = new Scene();
    await scene.commit("o-1", [1]);
    const entity = (await scene.storage.orders.readOutbox(key("o-1"))).outbox[0]!;
    scene.storage.putRow(key("o-1"), `outbox:${entity.id}`, {
      sequence: 1n,
      event: entity.text!.replace('"type":"step"', '"type":"future"'),
    });
    await scene.commit("o-1", [2]);
    const result = await scene.worker().handle("o-1");
    expect(result).toMatchObject({ status: "left", retryInMs: 60_000 });
    expect(result.problems[0]).toContain("handler-missing: event type future");
    expect(scene.log).toEqual([]);
    expect(scene.storage.blobEntries("events")[0]?.[1].metadata["attempts"]).toBe("0");
  });
});

describe("W9: commits during a round", () => {
  test("a commit while the slow handler of another subscription runs is handled within the poll time", async () => {
    const scene = new Scene();
    await scene.commit("o-1", [1]);
    const gate = Promise.withResolvers<void>();
    scene.onHandle = (entry) => (entry === "slow E1" ? gate.promise : undefined);
    const running = scene.worker([scene.subscription("slow"), scene.subscription("fast")]).handle("o-1");
    await settle();
    await scene.commit("o-1", [2]);
    await settle();
    expect(scene.log).toEqual(["slow E1", "fast E1"]);
    await scene.clock.advance(1_000);
    expect(scene.log).toEqual(["slow E1", "fast E1", "fast E2"]);
    gate.resolve();
    await scene.until(running);
    expect(scene.log).toEqual(["slow E1", "fast E1", "fast E2", "slow E2"]);
  });

  test("a wake-up within the process is seen at once", async () => {
    const scene = new Scene();
    await scene.commit("o-1", [1]);
    const gate = Promise.withResolvers<void>();
    scene.onHandle = (entry) => (entry === "slow E1" ? gate.promise : undefined);
    const worker = scene.worker([scene.subscription("slow"), scene.subscription("fast")]);
    const running = worker.handle("o-1");
    await settle();
    await scene.commit("o-1", [2]);
    expect(await worker.handle("o-1")).toMatchObject({ status: "joined" });
    await settle();
    expect(scene.log).toEqual(["slow E1", "fast E1", "fast E2"]);
    gate.resolve();
    expect(await scene.until(running)).toMatchObject({ status: "done", handled: 4 });
  });

  test("the time budget ends the round between two events; what is left gets a wake-up", async () => {
    const scene = new Scene();
    await scene.commit("o-1", [1, 2, 3]);
    scene.onHandle = async () => scene.clock.sleep(6_000);
    const result = await scene.until(scene.worker(undefined, { timeBudgetMs: 10_000 }).handle("o-1"));
    expect(result).toMatchObject({ status: "left", retryInMs: 0, handled: 2 });
    expect(scene.storage.leaseOf(key("o-1"))?.state).toBe("free");
    await scene.until(scene.worker().handle("o-1"));
    expect(scene.log).toEqual(["audit E1", "audit E2", "audit E3"]);
  });

  test("stopStarting: the running handler ends, nothing further starts, the lease is given back", async () => {
    const scene = new Scene();
    await scene.commit("o-1", [1, 2]);
    const gate = Promise.withResolvers<void>();
    scene.onHandle = () => gate.promise;
    const worker = scene.worker();
    const running = worker.handle("o-1");
    await settle();
    worker.stopStarting();
    gate.resolve();
    expect(await running).toMatchObject({ status: "left", handled: 1 });
    expect(scene.log).toEqual(["audit E1"]);
    expect(scene.storage.leaseOf(key("o-1"))?.state).toBe("free");
  });
});

test("W9: a look that fails costs nothing but itself", async () => {
  const scene = new Scene();
  await scene.commit("o-1", [1]);
  const gate = Promise.withResolvers<void>();
  scene.onHandle = (entry) => (entry === "slow E1" ? gate.promise : undefined);
  const running = scene.worker([scene.subscription("slow"), scene.subscription("fast")]).handle("o-1");
  await settle();
  scene.storage.onCall = ({ method }) => {
    if (method === "readOutbox") throw new OutboxError("unavailable", "503");
  };
  await scene.clock.advance(3_000);
  scene.storage.onCall = undefined;
  await scene.commit("o-1", [2]);
  await scene.clock.advance(1_000);
  expect(scene.log).toEqual(["slow E1", "fast E1", "fast E2"]);
  gate.resolve();
  expect(await scene.until(running)).toMatchObject({ status: "done", handled: 4 });
});

describe("§8: calls", () => {
  test("a burst of 100 events on one order takes at most 2.2 worker calls an event", async () => {
    const scene = new Scene();
    await scene.commit(
      "o-1",
      Array.from({ length: 50 }, (_, index) => index + 1),
    );
    await scene.commit(
      "o-1",
      Array.from({ length: 50 }, (_, index) => index + 51),
    );
    scene.storage.forgetCalls();
    await scene.worker().handle("o-1");
    expect(scene.log).toEqual(Array.from({ length: 100 }, (_, index) => `audit E${index + 1}`));
    expect(scene.storage.calls.length + 2).toBeLessThanOrEqual(220);
    expect(scene.storage.callCounts()["blobs.list"]).toBeUndefined();
    expect(scene.storage.callCounts()["blobs.read"]).toBeUndefined();
  });

  test("a history of 10,000 archived events costs what one of 10 costs", async () => {
    const cost = async (history: number): Promise<number> => {
      const scene = new Scene();
      await scene.commit("o-1", [1]);
      await scene.worker().handle("o-1");
      for (let n = 0; n < history; n++) {
        scene.storage.putBlob("archive", `audit/o-1/01JZ${String(n).padStart(22, "0")}.json`, new Uint8Array());
      }
      scene.storage.forgetCalls();
      await scene.commit("o-1", [2]);
      await scene.worker().handle("o-1");
      return scene.storage.calls.length;
    };
    expect(await cost(10_000)).toBe(await cost(10));
  });

  test("two subscriptions finishing together share progress writes", async () => {
    const scene = new Scene();
    await scene.commit("o-1", [1]);
    scene.storage.forgetCalls();
    await scene.worker([scene.subscription("a"), scene.subscription("b"), scene.subscription("c")]).handle("o-1");
    expect(scene.storage.callCounts()["leases.writeMetadata"]).toBeLessThanOrEqual(2);
  });
});
