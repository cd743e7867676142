/** Coincidences that once lost, stranded or blocked something. The comment of each says how. */
import { expect, test } from "vitest";
import { OutboxError } from "../../src/core/errors.ts";
import { startWorkerHost, type WorkerHost } from "../../src/worker/host.ts";
import { settle } from "../support/manual-clock.ts";
import { key, mortal, Scene } from "./round-support.ts";

const ORDER = key("o-1");

test("G5, W7: the last wake-up never disappears while its event waits", async () => {
  // M1 slips to host 2 while its round runs at host 1. Host 2 lets M1 go in favour of M2, which it keeps hidden. M2 reaches host 1 and joins.
  // The round ends with work left, and nothing of its own to hide.
  const scene = new Scene();
  const gate = Promise.withResolvers<void>();
  let starts = 0;
  scene.onHandle = () => (++starts === 1 ? gate.promise : undefined);
  await scene.commit("o-1", [1]);
  const [first] = await scene.storage.wakeUps.receive(1, 1_000);
  await scene.storage.wakeUps.delete(first!.receipt);
  let cut = false;
  let turn: 0 | 1 | 2 = 0;
  const host = (n: 1 | 2): WorkerHost =>
    startWorkerHost({
      worker: scene.worker(),
      wakeUps: {
        ...scene.storage.wakeUps,
        receive: async (max, ms) => (turn === n || turn === 0 ? scene.storage.wakeUps.receive(max, ms) : []),
        hide: async (...args) => {
          if (n === 1 && cut) throw new OutboxError("unavailable", "the queue can't be reached");
          return scene.storage.wakeUps.hide(...args);
        },
      },
      clock: scene.clock,
      random: () => 0.5,
      pollMaxMs: 500,
    });
  const nobody = 3 as 0;
  turn = nobody;
  const hosts = [host(1), host(2)];
  const only = async (n: 0 | 1 | 2, ms: number): Promise<void> => {
    turn = n === 0 ? nobody : n;
    await scene.clock.advance(ms);
  };
  await scene.storage.wakeUps.send(first!.text, 0);
  await only(1, 1_000);
  expect(scene.log).toEqual(["audit E1"]);
  cut = true;
  await only(0, 4_000);
  await scene.storage.wakeUps.send(first!.text, 0);
  await only(2, 1_000);
  await only(0, 24_000);
  await only(2, 3_000);
  cut = false;
  await only(0, 5_000);
  await only(1, 2_000);
  gate.reject(new Error("passing"));
  turn = 0;
  await scene.clock.advance(120_000);
  expect(scene.log).toEqual(["audit E1", "audit E1"]);
  await Promise.all(hosts.map((running) => running.stop()));
});

test.each(["known", "new"])("F10, G4: a removed subscription's waiting event is no gap for the others (%s)", async (how) => {
  const scene = new Scene();
  const audit = scene.subscription("audit", { events: ["step"] });
  const mail = scene.subscription("mail");
  if (how === "known") {
    await scene.commit("o-1", [1]);
    await scene.worker([audit, mail]).handle("o-1");
  }
  scene.onHandle = (entry) => {
    if (entry.startsWith("mail")) throw new Error("mail is broken");
  };
  await scene.commit("o-1", [2], "other");
  await scene.worker([audit, mail]).handle("o-1");
  await scene.commit("o-1", [3]);
  scene.log.length = 0;
  await scene.worker([audit]).handle("o-1");
  expect(scene.log).toEqual(["audit E3"]);
  expect(scene.ids("events", "mail")).toHaveLength(1);
});

test("W3, G5: one event blob fails, then the filter changes: the stream does not wait for what it no longer wants", async () => {
  const scene = new Scene();
  await scene.commit("o-1", [1]);
  await scene.worker().handle("o-1");
  await scene.commit("o-1", [2], "other");
  await scene.commit("o-1", [3]);
  let creates = 0;
  scene.storage.onCall = ({ method, args }) => {
    if (method === "create" && args[0] === "events" && ++creates === 1) throw new OutboxError("unavailable", "503");
  };
  await expect(scene.worker().handle("o-1")).rejects.toMatchObject({ code: "unavailable" });
  scene.storage.onCall = undefined;
  await scene.clock.advance(100_000);
  scene.log.length = 0;
  await scene.worker([scene.subscription("audit", { events: ["step"] })]).handle("o-1");
  expect(scene.log).toEqual(["audit E3"]);
});

test("W3, G6: a lost answer to an acquisition does not hide that the holder before died", async () => {
  const scene = new Scene();
  await scene.commit("o-1", [1]);
  // Dies right after its progress write: finished, but not archived.
  const dying = mortal(scene.storage, 9, "dies-after", new Error("unused"));
  void scene.worker(undefined, { storage: dying.storage }).handle("o-1");
  await settle();
  expect([scene.progress().clean, scene.ids("archive").length]).toEqual([1, 0]);
  await scene.clock.advance(100_000);
  let once = true;
  scene.storage.onCall = ({ method }) => {
    if (method !== "acquire" || !once) return undefined;
    once = false;
    return "lose-response";
  };
  await expect(scene.worker().handle("o-1")).rejects.toMatchObject({ code: "unavailable" });
  await scene.clock.advance(100_000);
  await scene.worker().handle("o-1");
  expect([scene.ids("events").length, scene.ids("archive").length]).toEqual([0, 1]);
  expect(scene.log).toEqual(["audit E1"]);
});

test("W5: a holder that lost its lease starts no further write of an event blob", async () => {
  const scene = new Scene();
  await scene.commit(
    "o-1",
    Array.from({ length: 60 }, (_, index) => index + 1),
  );
  const gate = Promise.withResolvers<void>();
  let creates = 0;
  scene.storage.onCall = ({ method, args }) => {
    if (method !== "create" || args[0] !== "events") return undefined;
    creates += 1;
    return gate.promise;
  };
  const dead = scene.worker().handle("o-1");
  await settle();
  scene.storage.breakLease(ORDER);
  await scene.clock.advance(10_000);
  const inFlight = creates;
  gate.resolve();
  expect(await scene.until(dead)).toMatchObject({ status: "left" });
  expect(creates).toBe(inFlight);
});

test("G4: an event blob that can't be read stops its own stream alone, and no lease is left to run out", async () => {
  const scene = new Scene();
  const [mail, audit] = [scene.subscription("mail"), scene.subscription("audit")];
  await scene.commit("o-1", [1]);
  scene.onHandle = (entry) => {
    if (entry === "mail E1") throw new Error("leave it pending");
  };
  await scene.worker([mail, audit]).handle("o-1");
  scene.storage.onCall = ({ method, args }) => {
    if (method === "read" && args[0] === "events") throw new OutboxError("storage", "409 BlobArchived");
  };
  await scene.commit("o-1", [2, 3]);
  scene.log.length = 0;
  expect(await scene.worker([mail, audit]).handle("o-1")).toMatchObject({ status: "left", handled: 2 });
  expect(scene.log).toEqual(["audit E2", "audit E3"]);
  expect(scene.storage.leaseOf(ORDER)?.state).toBe("free");
});

test("G4, G5: a handler that never ends is given up after its time; its signal aborts, the others go on", async () => {
  const scene = new Scene();
  let aborted: unknown;
  scene.onHandle = (entry, { context }) => {
    if (entry !== "mail E1" || context.attempt > 1) return undefined;
    context.signal.addEventListener("abort", () => (aborted = context.signal.reason));
    return new Promise(() => undefined);
  };
  await scene.commit("o-1", [1]);
  const worker = scene.worker([scene.subscription("mail"), scene.subscription("audit")]);
  const running = worker.handle("o-1");
  await scene.clock.advance(59_999);
  expect(aborted).toBeUndefined();
  await scene.clock.advance(1);
  // Parked, with a wake-up of its own.
  expect(await running).toMatchObject({ status: "done", retryInMs: 0 });
  expect(aborted).toMatchObject({ code: "timeout" });
  await scene.clock.advance(10_000);
  await worker.handle("o-1");
  expect(scene.log).toEqual(["mail E1", "audit E1", "mail E1"]);
  expect(scene.clock.pending()).toBe(0);
});

test("G4, W9: a poke during the last look counts also when another stream waits for its retry", async () => {
  const scene = new Scene();
  scene.onHandle = (entry) => {
    if (entry === "mail E1") throw new Error("broken");
  };
  await scene.commit("o-1", [1]);
  const worker = scene.worker([scene.subscription("audit"), scene.subscription("mail")], { retryDelayMs: 3_600_000 });
  let looks = 0;
  scene.storage.onCall = ({ method }) => {
    if (method !== "readOutbox" || ++looks !== 2) return undefined;
    return {
      after: async () => {
        scene.storage.onCall = undefined;
        await scene.commit("o-1", [2]);
        await worker.handle("o-1");
      },
    };
  };
  await worker.handle("o-1");
  expect(scene.log).toContain("audit E2");
});

test.each([
  ["a symbol for a message", Object.assign(new Error("x"), { message: Symbol("x") })],
  ["a getter that throws", Object.defineProperty(new Error("x"), "message", { get: () => JSON.parse("{") as string })],
  ["a toJSON that throws", { toJSON: () => JSON.parse("{") as string, toString: () => JSON.parse("{") as string }],
])("G4: an error that can't be described fails its event, not the round: %s", async (_name, thrown) => {
  const scene = new Scene();
  scene.onHandle = (entry) => {
    if (entry.startsWith("mail")) throw thrown;
  };
  await scene.commit("o-1", [1, 2]);
  const result = await scene.worker([scene.subscription("mail"), scene.subscription("audit")]).handle("o-1");
  expect(result.problems.join()).toContain("event 1 of mail stands: failed");
  expect(scene.log).toEqual(["mail E1", "audit E1", "audit E2"]);
});

test("§3: a handler that changes its event does not change what is archived", async () => {
  const scene = new Scene();
  await scene.commit("o-1", [1]);
  const { outbox } = await scene.storage.orders.readOutbox(ORDER);
  const audit = scene.subscription("audit");
  const forging = { ...audit, handle: (event: unknown) => void Object.assign(event as object, { text: "forged" }) };
  await scene.worker([forging]).handle("o-1");
  expect(new TextDecoder().decode(scene.storage.blobEntries("archive")[0]?.[1].bytes)).toBe(outbox[0]?.text);
});

test("G2: an async predicate is no yes: it is refused when it is asked, and nothing is lost", async () => {
  const scene = new Scene();
  await scene.commit("o-1", [1]);
  const when = (() => Promise.resolve(false)) as unknown as () => boolean;
  const result = await scene.worker([scene.subscription("audit", { when })]).handle("o-1");
  expect(result.problems.join()).toContain("must return true or false");
  expect(scene.log).toEqual([]);
  expect(scene.ids("events")).toHaveLength(1);
});
