/** W2, G6: where ids and sequences do not agree with the progress, nothing of the stream runs, nothing is deleted, and people are told. */
import { describe, expect, test } from "vitest";
import { OutboxError } from "../../src/core/errors.ts";
import type { Logger } from "../../src/core/logger.ts";
import { encodeProgress, type StreamProgress } from "../../src/core/progress.ts";
import { explain } from "../../src/operations/explain.ts";
import { createSweeper } from "../../src/operations/sweep.ts";
import { verifyAll } from "../../src/operations/verify.ts";
import type { EventId } from "../../src/core/event-id.ts";
import { archived, contextOf, decideAbout, deliver, deadLetters } from "./operator-support.ts";
import { key, Scene } from "./round-support.ts";

/** Something else writes to the lease blob. */
async function changeProgress(scene: Scene, change: (progress: StreamProgress) => Partial<StreamProgress>): Promise<StreamProgress> {
  const { etag, metadata } = scene.storage.leaseOf(key("o-1"))!;
  const progress = scene.progress();
  const { audit } = progress.streams as { readonly audit: StreamProgress };
  const streams = { ...progress.streams, audit: { ...audit, ...change(audit) } };
  await scene.storage.leases.acquire(key("o-1"), { id: "foreign", durationMs: 15_000, etag });
  await scene.storage.leases.writeMetadata(
    key("o-1"),
    { ...metadata, ...encodeProgress({ ...progress, streams }, metadata["round"]!) },
    { leaseId: "foreign", etag },
  );
  await scene.storage.leases.release(key("o-1"), "foreign");
  return audit;
}

/** Greater than any that is to come, and still a ULID. */
function ahead(id: EventId | undefined): EventId {
  return id!.replace(/^01/, "0A") as EventId;
}

function alarmsOf(log: string[]): Logger {
  return { debug() {}, info() {}, warn() {}, error: (message, fields) => void log.push(`${String(fields?.["orderId"])}: ${message}`) };
}

async function damage(scene: Scene): Promise<readonly string[]> {
  const { findings } = await verifyAll(contextOf(scene));
  return findings.filter(({ severity }) => severity === "damage").map(({ kind, subscription }) => `${kind} of ${subscription}`);
}

test.each<[string, (progress: StreamProgress) => Partial<StreamProgress>]>([
  ["its id is ahead of its sequence", ({ id }) => ({ id: ahead(id) })],
  ["its sequence is ahead of its id", () => ({ sequence: 5, relayed: 5 })],
])(
  "progress of which %s: the stream stops with an alarm, the other goes on, and once it is mended all is handled",
  async (_name, wrong) => {
    const scene = new Scene();
    const alarms: string[] = [];
    const subscriptions = [scene.subscription("audit"), scene.subscription("mail")];
    const worker = scene.worker(subscriptions, { logger: alarmsOf(alarms) });
    await scene.commit("o-1", [1, 2]);
    await deliver(scene, worker);
    const right = await changeProgress(scene, wrong);
    scene.log.length = 0;
    await scene.commit("o-1", [3]);
    await deliver(scene, worker);
    expect(scene.log).toEqual(["mail E3"]);
    const [id] = scene.ids("events");
    expect(alarms).toEqual([expect.stringMatching(new RegExp(`^o-1: event ${id} of audit has sequence 3.*Nothing of audit runs.*verify`))]);
    expect(await damage(scene)).toContain("inversion of audit");
    expect((await explain(contextOf(scene), "o-1")).verdict).toMatchObject({ code: "contradiction", command: ["verify", "--", "o-1"] });
    // A round that lists nothing must not take it for done for good.
    const sweeper = createSweeper({ storage: scene.storage, clock: scene.clock });
    for (let pass = 0; pass < 5; pass++) {
      await scene.clock.advance(61_000);
      await sweeper.sweep();
      await deliver(scene, worker);
    }
    expect(scene.log).toEqual(["mail E3"]);
    expect(scene.ids("events")).toEqual([id]);
    expect(alarms.length).toBeGreaterThan(1);
    await scene.clock.advance(61_000);
    await changeProgress(scene, () => ({ ...right, relayed: 3 }));
    await deliver(scene, worker);
    await scene.until(worker.handle("o-1"));
    expect(scene.log).toEqual(["mail E3", "audit E3"]);
    expect(await damage(scene)).toEqual([]);
  },
);

test.each<[string, (progress: StreamProgress) => Partial<StreamProgress>]>([
  ["id", ({ id }) => ({ id: ahead(id) })],
  ["sequence", ({ sequence }) => ({ sequence: sequence - 1 })],
])("verify tells of it before any event is to come: another %s", async (_name, wrong) => {
  const scene = new Scene();
  await scene.commit("o-1", [1, 2]);
  await deliver(scene, scene.worker());
  expect(await damage(scene)).toEqual([]);
  await changeProgress(scene, wrong);
  expect(await damage(scene)).toContain("inversion of audit");
});

describe("the sequence of an event blob's metadata", () => {
  /** Two events wait, and the metadata of one says another sequence. */
  async function waiting(event: number, sequence: number): Promise<Scene> {
    const scene = new Scene();
    await scene.commit("o-1", [1]);
    await deliver(scene, scene.worker());
    scene.onHandle = () => {
      throw new Error("carrier is down");
    };
    await scene.commit("o-1", [2, 3]);
    await deliver(scene, scene.worker());
    scene.onHandle = () => undefined;
    scene.log.length = 0;
    await scene.clock.advance(11_000);
    const [name, { bytes, metadata }] = scene.storage.blobEntries("events")[event - 2]!;
    scene.storage.putBlob("events", name, bytes, { ...metadata, sequence: String(sequence), previous: "0" });
    return scene;
  }

  test.each([
    ["of the head: one that is finished", 2, 1],
    ["of the head: that of the event behind it", 2, 3],
    ["of the event behind the head: the head's", 3, 2],
  ])("%s: nothing runs, nothing is deleted, and an operator's discard waits too", async (_name, event, sequence) => {
    const scene = await waiting(event, sequence);
    const alarms: string[] = [];
    const worker = scene.worker(undefined, { logger: alarmsOf(alarms) });
    const blobs = scene.ids("events");
    await deliver(scene, worker);
    expect(scene.log).toEqual([]);
    expect(alarms.join()).toMatch(/^o-1: event .* contradicts/);
    await decideAbout(scene, "discard");
    await scene.until(worker.handle("o-1"));
    expect(scene.ids("events")).toEqual(blobs);
    expect(archived(scene)).toHaveLength(1);
    expect(scene.progress().streams["audit"]).toMatchObject({ sequence: 1 });
  });

  test("of the last event, beyond the order: it is not recorded, whatever an operator decides", async () => {
    const scene = await waiting(3, 9);
    const alarms: string[] = [];
    const worker = scene.worker(undefined, { logger: alarmsOf(alarms) });
    await deliver(scene, worker);
    expect(scene.log).toEqual([]);
    expect(alarms.join()).toMatch(/^o-1: event .* has sequence 9, which contradicts the order.*`verify` tells/);
    const [head, last] = scene.ids("events");
    const { findings } = await verifyAll(contextOf(scene));
    expect(findings.filter(({ kind }) => kind === "inversion")).toMatchObject([
      { severity: "damage", sequence: 9, text: expect.stringContaining(`mend that of events/audit/${key("o-1")}/${last}.json`) as string },
    ]);
    expect((await explain(contextOf(scene), "o-1")).verdict).toMatchObject({
      code: "contradiction",
      sentence: expect.stringMatching(new RegExp(`^Event ${last} of audit has sequence 9`)) as string,
      command: ["verify", "--", "o-1"],
    });
    await decideAbout(scene, "discard");
    await scene.until(worker.handle("o-1"));
    expect(scene.ids("events")).toEqual([head, last]);
    expect(scene.progress().streams["audit"]).toMatchObject({ sequence: 1 });
  });

  test("one that fits, but is not that of the bytes: the event is dead before it runs", async () => {
    const scene = new Scene();
    await scene.commit("o-1", [1]);
    // Of the second one it gets none, so that its place is free.
    await scene.commit("o-1", [2], "other");
    scene.onHandle = () => {
      throw new Error("carrier is down");
    };
    const own = scene.subscription("audit", { events: ["step"] });
    await deliver(scene, scene.worker([own]));
    await scene.clock.advance(11_000);
    const [name, { bytes, metadata }] = scene.storage.blobEntries("events")[0]!;
    scene.storage.putBlob("events", name, bytes, { ...metadata, sequence: "2" });
    scene.log.length = 0;
    await deliver(scene, scene.worker([own]));
    expect(scene.log).toEqual([]);
    expect(deadLetters(scene)).toMatchObject([{ reason: expect.stringContaining("holds another event") as string }]);
  });
});

test("W2: what a dead worker left behind is not cleared away by a progress that may be wrong", async () => {
  const scene = new Scene();
  await scene.commit("o-1", [1, 2]);
  let dead = false;
  scene.storage.onCall = ({ port, method }) => {
    if (dead && port === "blobs" && method === "delete") throw new OutboxError("unavailable", "down");
  };
  dead = true;
  await scene.until(scene.worker().handle("o-1"));
  dead = false;
  expect(scene.ids("events")).toHaveLength(2);
  await scene.clock.advance(31_000);
  await changeProgress(scene, () => ({ sequence: 1 }));
  const blobs = scene.ids("events");
  await scene.until(scene.worker().handle("o-1"));
  await scene.clock.advance(31_000);
  scene.storage.breakLease(key("o-1"));
  await scene.until(scene.worker().handle("o-1"));
  expect(scene.ids("events")).toEqual(blobs);
  expect(scene.log).toEqual(["audit E1", "audit E2"]);
});

test("F10: of a stream that is not deployed nothing is discarded by a progress that may be wrong", async () => {
  const scene = new Scene();
  const alarms: string[] = [];
  await scene.commit("o-1", [1, 2]);
  scene.onHandle = (entry) => {
    if (entry === "audit E2") throw new Error("carrier is down");
  };
  await deliver(scene, scene.worker());
  await decideAbout(scene, "discard");
  await changeProgress(scene, ({ id }) => ({ id: ahead(id) }));
  const blobs = scene.ids("events");
  await scene.until(scene.worker([scene.subscription("mail")], { logger: alarmsOf(alarms) }).handle("o-1"));
  expect(scene.ids("events")).toEqual(blobs);
  expect(alarms.join()).toMatch(/^o-1: event .* of audit has sequence 2, which contradicts/);
});

describe("W12: the last event's metadata says a sequence beyond the order", () => {
  /** The blob of the event that waits at `index` gets another sequence. */
  function changeSequence(scene: Scene, index: number, sequence: number): void {
    const [name, { bytes, metadata }] = scene.storage.blobEntries("events")[index]!;
    scene.storage.putBlob("events", name, bytes, { ...metadata, sequence: String(sequence) });
  }

  test("what a dead worker left behind is not cleared away", async () => {
    const scene = new Scene();
    await scene.commit("o-1", [1, 2, 3]);
    scene.storage.onCall = ({ port, method }) => {
      if (port === "blobs" && method === "delete") throw new OutboxError("unavailable", "down");
    };
    scene.onHandle = (entry) => {
      if (entry === "audit E3") throw new Error("carrier is down");
    };
    await scene.until(scene.worker().handle("o-1"));
    scene.storage.onCall = undefined;
    const blobs = scene.ids("events");
    expect(blobs).toHaveLength(3);
    changeSequence(scene, 2, 9);
    await scene.clock.advance(31_000);
    await scene.until(scene.worker().handle("o-1"));
    expect(scene.ids("events")).toEqual(blobs);
    expect(scene.log.filter((entry) => entry !== "audit E3")).toEqual(["audit E1", "audit E2"]);
  });

  test("F10: of a stream that is not deployed nothing is discarded", async () => {
    const scene = new Scene();
    const alarms: string[] = [];
    await scene.commit("o-1", [1, 2]);
    scene.onHandle = (entry) => {
      if (entry === "audit E2") throw new Error("carrier is down");
    };
    await deliver(scene, scene.worker());
    await decideAbout(scene, "discard");
    changeSequence(scene, 0, 9);
    const blobs = scene.ids("events");
    expect(blobs).toHaveLength(1);
    await scene.until(scene.worker([scene.subscription("mail")], { logger: alarmsOf(alarms) }).handle("o-1"));
    expect(scene.ids("events")).toEqual(blobs);
    expect(scene.progress().streams["audit"]).toMatchObject({ sequence: 1 });
    expect(alarms.join()).toMatch(/^o-1: event .* of audit has sequence 9, which contradicts the order/);
  });

  test.each([
    ["one that runs", false, 2],
    ["one that is not deployed for a while", true, 2],
    ["one of which nothing else waits", false, 1],
    ["one of which nothing else waits, and that is not deployed for a while", true, 1],
  ])("W3: once it is mended all is handled: %s", async (_name, isAbsent, waiting) => {
    const scene = new Scene();
    let down = true;
    scene.onHandle = (entry) => {
      if (down && entry !== "audit E1") throw new Error("carrier is down");
    };
    await scene.commit("o-1", [1]);
    await deliver(scene, scene.worker());
    await scene.commit("o-1", waiting === 2 ? [2, 3] : [2]);
    // Nothing is on record of what it relays.
    scene.storage.onCall = ({ port, method }) => {
      if (port === "leases" && method === "writeMetadata") throw new OutboxError("unavailable", "down");
    };
    await expect(scene.until(scene.worker().handle("o-1"))).rejects.toThrow("down");
    scene.storage.onCall = undefined;
    expect(scene.ids("events")).toHaveLength(waiting);
    await scene.commit("o-1", [4], "other");
    changeSequence(scene, waiting - 1, 9);
    await scene.clock.advance(31_000);
    const own = scene.subscription("audit", { events: ["step"] });
    const worker = scene.worker([isAbsent ? scene.subscription("mail") : own]);
    for (let round = 0; round < 3; round++) await scene.until(worker.handle("o-1"));
    down = false;
    changeSequence(scene, waiting - 1, waiting + 1);
    scene.log.length = 0;
    await scene.clock.advance(31_000);
    for (let round = 0; round < 3; round++) await scene.until(scene.worker([own]).handle("o-1"));
    expect(scene.log).toEqual(["audit E2", "audit E3"].slice(0, waiting));
    expect(await damage(scene)).toEqual([]);
  });
});
