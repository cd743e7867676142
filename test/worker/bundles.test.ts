/** A burst is archived by few writes: what goes together, what does not, and that no fault on the way loses or doubles an event (G6, W11). */
import { describe, expect, test } from "vitest";
import { decodeBundleIndex, encodeBundle } from "../../src/core/archive-bundle.ts";
import { parseBundleName } from "../../src/core/names.ts";
import { OutboxError } from "../../src/core/errors.ts";
import type { EventId } from "../../src/core/event-id.ts";
import { rawJson } from "../../src/core/json.ts";
import { silentLogger } from "../../src/core/logger.ts";
import { PermanentError } from "../../src/core/retry.ts";
import type { Storage } from "../../src/core/ports.ts";
import { decide } from "../../src/operations/decide.ts";
import { createOutbox } from "../../src/producer/outbox.ts";
import { Archiver } from "../../src/worker/archiver.ts";
import type { HeldLease } from "../../src/worker/held-lease.ts";
import type { Worker } from "../../src/worker/round-result.ts";
import { eventId } from "../contract/harness.ts";
import { archivedEntries, unbundle } from "../support/archived-entries.ts";
import { settle } from "../support/manual-clock.ts";
import { archived, BOB, contextOf, deliver, findings, oid } from "./operator-support.ts";
import { key, mortal, Scene, workflow, type Fate } from "./round-support.ts";

const DOWN = new OutboxError("unavailable", "gone");

function numbers(count: number): number[] {
  return Array.from({ length: count }, (_, index) => index + 1);
}

/** Sequences in each blob of the stream's archive, in the order of names. */
function layout(scene: Scene, subscription = "audit"): number[][] {
  return scene.storage
    .blobEntries("archive")
    .filter(([name]) => name.startsWith(`${subscription}/`))
    .map(([name, { metadata }]) => {
      const members = decodeBundleIndex(name, metadata)?.members;
      return members?.map(({ sequence }) => sequence) ?? [Number(metadata["sequence"])];
    });
}

function bundles(scene: Scene): ReadonlyArray<readonly [string, Uint8Array]> {
  return scene.storage.blobEntries("archive").flatMap(([name, { bytes }]) => (parseBundleName(name) === undefined ? [] : [[name, bytes]]));
}

/** Archived: each event once, with the bytes that were committed. Nothing pending, and the audit finds nothing. */
async function expectWhole(scene: Scene, texts: readonly string[], subscriptions: readonly string[] = ["audit"]): Promise<void> {
  for (const subscription of subscriptions) {
    const own = archivedEntries(scene.storage).filter(([name]) => name.startsWith(`${subscription}/`));
    expect(own.map(([, { bytes }]) => new TextDecoder().decode(bytes))).toEqual(texts);
    expect(scene.ids("events", subscription)).toEqual([]);
  }
  expect(await findings(scene)).toEqual([]);
}

async function committed(scene: Scene, count: number): Promise<readonly string[]> {
  await scene.commit("o-1", numbers(count));
  const { outbox } = await scene.storage.orders.readOutbox(key("o-1"));
  return outbox.map(({ text }) => text!);
}

/** Rounds until the order is done, as the sweep starts them. */
async function recover(scene: Scene, worker: Worker): Promise<void> {
  for (let rounds = 0; rounds < 10; rounds++) {
    await scene.clock.advance(100_000);
    if ((await scene.until(worker.handle("o-1"))).status === "done") return;
  }
  throw new Error("the order does not recover");
}

describe("W13: what goes together", () => {
  test("what one round handles of a stream, byte for byte; each stream by itself", async () => {
    const scene = new Scene();
    const texts = await committed(scene, 5);
    await scene.worker([scene.subscription("audit"), scene.subscription("mail")]).handle("o-1");
    expect([layout(scene), layout(scene, "mail")]).toEqual([[[1, 2, 3, 4, 5]], [[1, 2, 3, 4, 5]]]);
    expect(new TextDecoder().decode(bundles(scene)[0]![1])).toBe(texts.map((text) => `${text}\n`).join(""));
    await expectWhole(scene, texts, ["audit", "mail"]);
  });

  test("one event alone has a blob of its own, at the cost and with the metadata that it had before", async () => {
    const scene = new Scene();
    await scene.commit("o-1", [1]);
    await scene.worker().handle("o-1");
    await scene.commit("o-1", [2]);
    scene.storage.forgetCalls();
    await scene.worker().handle("o-1");
    expect(layout(scene)).toEqual([[1], [2]]);
    expect(scene.storage.calls).toHaveLength(11);
    expect(archived(scene)[1]).toEqual({
      sequence: "2",
      previous: "1",
      attempts: "1",
      outcome: "handled",
      finishedat: new Date(scene.clock.now()).toISOString(),
    });
  });

  test("more than 100 are several bundles", async () => {
    const scene = new Scene();
    for (const start of [0, 80, 160]) {
      await scene.commit(
        "o-1",
        numbers(80).map((n) => n + start),
      );
    }
    await scene.worker().handle("o-1");
    expect(layout(scene).map((sequences) => sequences.length)).toEqual([100, 100, 40]);
    expect(layout(scene).flat()).toEqual(numbers(240));
  });

  test("what is discarded or dead-lettered stays alone, and ends the bundle before it: ranges never overlap", async () => {
    const scene = new Scene();
    const worker = scene.worker([scene.subscription("audit", { retry: { shortStarts: 1, onDead: "skip" } })]);
    scene.onHandle = async (entry) => {
      if (entry === "audit E1") await scene.clock.sleep(6_000);
      if (entry === "audit E6") throw new PermanentError("refused");
    };
    await scene.commit("o-1", numbers(8));
    const round = worker.handle("o-1");
    await settle();
    const target = { subscription: "audit", orderId: oid("o-1"), id: scene.ids("events")[2]! as EventId };
    expect((await decide(contextOf(scene), target, "discard", BOB, { anyPlace: true })).outcome).toBe("recorded");
    await scene.until(round);
    await deliver(scene, worker);
    expect(layout(scene)).toEqual([[1, 2], [3], [4, 5], [6], [7, 8]]);
    const outcomes = archived(scene).map(({ outcome }) => outcome!);
    expect(outcomes.join(" ")).toBe("handled handled discarded handled handled dead-lettered handled handled");
    expect(await findings(scene)).toEqual([]);
  });

  test("a parked event that succeeds later goes with those after it; its attempts are told", async () => {
    const scene = new Scene();
    scene.onHandle = (_entry, { n, context }) => {
      if (n === 2 && context.attempt === 1) throw new Error("carrier is down");
    };
    await scene.commit("o-1", numbers(4));
    await scene.worker().handle("o-1");
    await scene.clock.advance(11_000);
    await deliver(scene, scene.worker());
    expect(layout(scene)).toEqual([[1], [2, 3, 4]]);
    expect(archived(scene).map(({ attempts }) => attempts)).toEqual(["1", "2", "1", "1"]);
    expect(await findings(scene)).toEqual([]);
  });

  test("what is finished does not wait for a slow handler behind it, also if no other stream is idle", async () => {
    const scene = new Scene();
    scene.onHandle = (_entry, { n }) => (n === 4 ? scene.clock.sleep(20_000) : undefined);
    await scene.commit("o-1", numbers(5));
    const round = scene.worker().handle("o-1");
    await settle();
    expect([layout(scene), scene.ids("events").length]).toEqual([[], 5]);
    await scene.clock.advance(4_000);
    expect([layout(scene), scene.ids("events").length]).toEqual([[[1, 2, 3]], 2]);
    await scene.until(round);
    expect(layout(scene)).toEqual([
      [1, 2, 3],
      [4, 5],
    ]);
  });

  test("an event that is too big for a bundle stays alone", async () => {
    const scene = new Scene();
    const big = "x".repeat(1_100_000);
    const producer = createOutbox({ workflow, storage: scene.storage, clock: scene.clock });
    await producer.commit("o-1", () => ({
      state: { committed: 5 },
      events: numbers(5).map((n) => ({
        type: "step" as const,
        data: n === 3 ? rawJson(`{"n":3,"big":"${big}"}`) : rawJson(`{"n":${n}}`),
      })),
    }));
    await scene.worker().handle("o-1");
    expect(layout(scene)).toEqual([[1, 2], [3], [4, 5]]);
    expect(await findings(scene)).toEqual([]);
  });
});

test("G6: an event that somebody has decided about is never among those without a decision", async () => {
  const { storage, clock } = new Scene();
  const lease = { assertHeld: () => undefined, lost: new AbortController().signal } as unknown as HeldLease;
  const archiver = new Archiver({ blobs: storage.blobs, order: key("o-1"), lease, clock, logger: silentLogger });
  const event = { subscription: "audit", attempts: 1, outcome: "handled" as const, dropsDeadLetter: false };
  for (const n of [1, 2, 3, 4]) {
    const decision = n === 3 ? { decision: { action: "redrive" as const, actor: "ann", reason: "again", at: "" } } : {};
    archiver.add({ ...event, id: eventId(n), sequence: n, previous: n - 1, text: `{"n":${n}}`, ...decision });
  }
  expect(await archiver.flush()).toEqual({ retryable: [], final: [] });
  expect(storage.blobEntries("archive").map(([, { metadata }]) => metadata["decidedby"])).toEqual([undefined, "ann", undefined]);
});

describe("§8: calls", () => {
  test.each([
    [1, 1, 2],
    [10, 1, 11],
    [100, 1, 101],
    [1, 3, 6],
    [10, 3, 33],
    [100, 3, 303],
  ])("a burst of %i events with %i subscriptions takes %i blob writes, and no list or read of a blob", async (count, streams, expected) => {
    const scene = new Scene();
    for (let start = 0; start < count; start += 50) {
      await scene.commit(
        "o-1",
        numbers(Math.min(50, count - start)).map((n) => n + start),
      );
    }
    scene.storage.forgetCalls();
    await scene.worker(["a", "b", "c"].slice(0, streams).map((name) => scene.subscription(name))).handle("o-1");
    const counts = scene.storage.callCounts();
    expect([counts["blobs.create"], counts["blobs.list"], counts["blobs.read"]]).toEqual([expected, undefined, undefined]);
  });
});

describe.each<Fate>(["dies-before", "dies-after", "loses-response", "is-refused"])("W2, W11: a call of a burst round %s", (fate) => {
  const names = ["audit", "mail"];
  const workerOf = (scene: Scene, storage: Storage = scene.storage): Worker =>
    scene.worker(
      names.map((name) => scene.subscription(name)),
      { storage },
    );

  test("at every call: each event once in the archive, the audit finds nothing", async () => {
    const calm = new Scene();
    await committed(calm, 5);
    const { storage, calls } = mortal(calm.storage, -1, fate, DOWN);
    await workerOf(calm, storage).handle("o-1");
    expect(bundles(calm)).toHaveLength(2);
    for (let at = 1; at <= calls(); at++) {
      const scene = new Scene();
      const texts = await committed(scene, 5);
      const running = workerOf(scene, mortal(scene.storage, at, fate, DOWN).storage).handle("o-1");
      running.catch(() => undefined);
      if (fate.startsWith("dies")) await settle();
      else await scene.until(running.catch(() => undefined));
      await recover(scene, workerOf(scene));
      await expectWhole(scene, texts, names);
      for (const name of names) expect(new Set(scene.log.filter((entry) => entry.startsWith(name))).size, `call ${at}`).toBe(5);
    }
  });

  test("at every call of the recovery from a death between bundle and deletes: no event is archived twice", async () => {
    const dead = async (): Promise<{ readonly scene: Scene; readonly texts: readonly string[] }> => {
      const scene = new Scene();
      const texts = await committed(scene, 5);
      scene.storage.onCall = ({ port, method }) => (port === "blobs" && method === "delete" ? new Promise(() => undefined) : undefined);
      void workerOf(scene).handle("o-1");
      await settle();
      scene.storage.onCall = undefined;
      expect([bundles(scene).length, scene.ids("events").length]).toEqual([2, 5]);
      scene.storage.breakLease(key("o-1"));
      await scene.clock.advance(100_000);
      return { scene, texts };
    };
    const calm = await dead();
    const { storage, calls } = mortal(calm.scene.storage, -1, fate, DOWN);
    await workerOf(calm.scene, storage).handle("o-1");
    expect(calls()).toBeGreaterThan(15);
    for (let at = 1; at <= calls(); at++) {
      const { scene, texts } = await dead();
      const running = workerOf(scene, mortal(scene.storage, at, fate, DOWN).storage).handle("o-1");
      running.catch(() => undefined);
      if (fate.startsWith("dies")) await settle();
      else await scene.until(running.catch(() => undefined));
      await recover(scene, workerOf(scene));
      await expectWhole(scene, texts, names);
      expect(layout(scene), `call ${at}`).toEqual([[1, 2, 3, 4, 5]]);
      expect(scene.log).toHaveLength(10);
    }
  });
});

describe("dead holders", () => {
  /** A burst of five is handled; the write of its bundle is held back until `arrives`, long after the lease is lost. */
  async function late(): Promise<{ readonly scene: Scene; readonly texts: readonly string[]; readonly arrives: () => Promise<void> }> {
    const scene = new Scene();
    const texts = await committed(scene, 5);
    const gate = Promise.withResolvers<void>();
    scene.storage.onCall = ({ method, args }) => (method === "create" && args[0] === "archive" ? gate.promise : undefined);
    const running = scene.worker().handle("o-1");
    running.catch(() => undefined);
    await settle();
    scene.storage.breakLease(key("o-1"));
    scene.storage.onCall = undefined;
    await scene.clock.advance(31_000);
    return {
      scene,
      texts,
      arrives: async () => {
        gate.resolve();
        await scene.until(running.catch(() => undefined));
      },
    };
  }

  test("its bundle comes after the next holder has archived the events one by one: each counts once, as that one told it", async () => {
    const { scene, texts, arrives } = await late();
    await scene.clock.advance(3_600_000);
    await scene.worker().handle("o-1");
    const before = archived(scene);
    expect(layout(scene)).toEqual([[1], [2], [3], [4], [5]]);
    await arrives();
    expect(layout(scene)).toEqual([[1, 2, 3, 4, 5], [1], [2], [3], [4], [5]]);
    expect(archived(scene)).toEqual(before);
    await expectWhole(scene, texts);
    await scene.commit("o-1", [6]);
    await scene.worker().handle("o-1");
    expect(scene.log).toEqual(numbers(6).map((n) => `audit E${n}`));
    expect(await findings(scene)).toEqual([]);
  });

  test("its bundle comes before the next holder: what it left pending is deleted, and not archived again an hour later", async () => {
    const { scene, texts, arrives } = await late();
    await arrives();
    expect([layout(scene), scene.ids("events").length]).toEqual([[[1, 2, 3, 4, 5]], 5]);
    await scene.clock.advance(3_600_000);
    expect(await scene.worker().handle("o-1")).toMatchObject({ status: "done", problems: [] });
    expect(layout(scene)).toEqual([[1, 2, 3, 4, 5]]);
    await expectWhole(scene, texts);
  });

  test("some of what it archived together is pending still, some is gone", async () => {
    const { scene, texts, arrives } = await late();
    await arrives();
    for (const id of [0, 1, 3].map((index) => scene.ids("events")[index]!)) {
      scene.storage.deleteBlob("events", `audit/o-1/${id}.json`);
    }
    await scene.worker().handle("o-1");
    expect(layout(scene)).toEqual([[1, 2, 3, 4, 5]]);
    await expectWhole(scene, texts);
  });

  test("F4: a discard that was recorded after the event was handled and archived turns nothing into discarded", async () => {
    const { scene, arrives } = await late();
    await arrives();
    for (const [name, { bytes, metadata }] of scene.storage.blobEntries("events")) {
      scene.storage.putBlob("events", name, bytes, { ...metadata, decision: "discard", decidedby: "bob" });
    }
    await scene.worker().handle("o-1");
    expect(archived(scene).map(({ outcome }) => outcome)).toEqual(["handled", "handled", "handled", "handled", "handled"]);
    expect(scene.ids("events")).toEqual([]);
  });

  test("its bundle is torn: what is still pending is archived once more, not deleted", async () => {
    const { scene, texts, arrives } = await late();
    await arrives();
    const [name, { bytes, metadata }] = scene.storage.blobEntries("archive")[0]!;
    scene.storage.putBlob("archive", name, bytes.slice(0, 100), metadata);
    await scene.worker().handle("o-1");
    expect(scene.ids("events")).toEqual([]);
    scene.storage.deleteBlob("archive", name);
    await expectWhole(scene, texts);
  });

  test("W11: a pending event with other bytes than those in the bundle: loud, and neither is touched", async () => {
    const { scene, arrives } = await late();
    await arrives();
    const [name, { metadata }] = scene.storage.blobEntries("events")[1]!;
    scene.storage.putBlob("events", name, new TextEncoder().encode('{"other":true}'), metadata);
    const { problems } = (await scene.worker().handle("o-1")) as { readonly problems: readonly string[] };
    expect(problems).toEqual([
      expect.stringMatching(/^event 2 of audit could not be archived: corrupt: archive\/audit\/o-1\/.*other bytes/),
    ]);
    expect(scene.storage.blobEntries("events").map(([left]) => left)).toEqual([name]);
    expect(layout(scene)).toEqual([[1, 2, 3, 4, 5]]);
  });

  test("what a dead holder has archived together stays on record, also if its oldest left-over event is read last", async () => {
    const { scene, arrives } = await late();
    await arrives();
    const before = archived(scene);
    await scene.clock.advance(3_600_000);
    const oldest = `audit/${key("o-1")}/${scene.ids("events")[0]!}.json`;
    scene.storage.onCall = ({ method, args }) =>
      method === "read" && args[0] === "events" && args[1] === oldest ? scene.clock.sleep(500) : undefined;
    await scene.until(scene.worker().handle("o-1"));
    expect(scene.ids("events")).toEqual([]);
    expect(archived(scene)).toEqual(before);
  });
});

describe("W11: a bundle that is there already", () => {
  /** Puts a bundle under the name of the one that the round is about to write. */
  async function met(change: (bytes: Uint8Array) => Uint8Array): Promise<Scene> {
    const scene = new Scene();
    const texts = await committed(scene, 3);
    scene.storage.onCall = ({ method, args }) => {
      if (method !== "create" || args[0] !== "archive") return;
      const ids = scene.ids("events");
      const members = texts.map((text, index) => {
        const bytes = change(new TextEncoder().encode(text));
        return { id: ids[index]! as EventId, sequence: index + 1, previous: index, attempts: 1, finishedAtMs: 0, bytes };
      });
      const bundle = encodeBundle("audit/o-1/", members);
      expect(bundle.name).toBe(args[1]);
      scene.storage.putBlob("archive", bundle.name, bundle.bytes, bundle.metadata);
    };
    return scene;
  }

  test("with the same bytes is the own one, whose answer was lost: success", async () => {
    const scene = await met((bytes) => bytes);
    expect(await scene.worker().handle("o-1")).toMatchObject({ status: "done", problems: [] });
    expect([layout(scene), scene.ids("events")]).toEqual([[[1, 2, 3]], []]);
  });

  test("with other bytes is a loud error, and nothing is touched", async () => {
    const scene = await met((bytes) => bytes.with(5, 0x78));
    const { problems } = (await scene.worker().handle("o-1")) as { readonly problems: readonly string[] };
    expect(problems).toEqual([
      expect.stringMatching(/^events 1 to 3 of audit could not be archived: corrupt: archive\/audit\/o-1\/.*other bytes/),
    ]);
    expect(scene.ids("events")).toHaveLength(3);
    expect(archived(scene).map(({ finishedat }) => finishedat)).toEqual(Array<string>(3).fill("1970-01-01T00:00:00.000Z"));
  });
});

test("W10: a foreign blob among the archive of a stream keeps nothing from being archived", async () => {
  const scene = new Scene();
  const texts = await committed(scene, 3);
  await scene.worker().handle("o-1");
  const [name] = scene.storage.blobEntries("archive")[0]!;
  unbundle(scene.storage);
  scene.storage.putBlob("archive", name, new Uint8Array([1]), { bundle: "1", index: ";;;" });
  await scene.commit("o-1", [4, 5]);
  await scene.worker().handle("o-1");
  expect(await findings(scene)).toEqual([`foreign: archive/${name} is not one of ours`]);
  scene.storage.deleteBlob("archive", name);
  expect(archivedEntries(scene.storage).slice(0, 3)).toHaveLength(texts.length);
  expect(await findings(scene)).toEqual([]);
});
