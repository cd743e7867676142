/** Events that were archived together are found like any other: by replay, backfill, show, verify and cleanup. */
import { describe, expect, test } from "vitest";
import { eventBlobName, parseBundleName } from "../../src/core/names.ts";
import { backfill } from "../../src/operations/backfill.ts";
import { createCleaner } from "../../src/operations/cleanup.ts";
import { replay } from "../../src/operations/replay.ts";
import { showOrder } from "../../src/operations/show-order.ts";
import { verifyAll, verifyOrder } from "../../src/operations/verify.ts";
import { archivedEntries } from "../support/archived-entries.ts";
import { live } from "../worker/operator-support.ts";
import { key, Scene } from "../worker/round-support.ts";
import { DAY_MS } from "./maintenance-support.ts";
import { archivedEvents, expectWhole, KIM, ORDER } from "./replay-support.ts";

function numbers(count: number): number[] {
  return Array.from({ length: count }, (_, index) => index + 1);
}

/** Bursts of an order, each of one round; the log is empty afterwards. */
async function handled(bursts: readonly number[] = [5]): Promise<Scene> {
  const scene = new Scene();
  let last = 0;
  for (const burst of bursts) {
    await scene.commit(
      "o-1",
      numbers(burst).map((n) => last + n),
    );
    last += burst;
    await scene.until(scene.worker().handle("o-1"));
  }
  scene.log.length = 0;
  return scene;
}

function bundleNames(scene: Scene): string[] {
  return scene.storage
    .blobEntries("archive")
    .map(([name]) => name)
    .filter((name) => parseBundleName(name) !== undefined);
}

/** Cuts a bundle short, as no service should. */
function tear(scene: Scene, name = bundleNames(scene)[0]!): void {
  const { bytes, metadata } = scene.storage.blobEntries("archive").find(([each]) => each === name)![1];
  scene.storage.putBlob("archive", name, bytes.slice(0, -10), metadata);
}

async function kinds(scene: Scene): Promise<string[]> {
  const { findings } = await verifyOrder(scene, "o-1");
  return findings.map(({ kind, severity, text }) => `${severity} ${kind}: ${text}`);
}

describe("replay and backfill", () => {
  test("F9: a range out of two bundles and a single blob, byte for byte, without a listing for each event", async () => {
    const scene = await handled([40, 1, 40]);
    expect(bundleNames(scene)).toHaveLength(2);
    const originals = archivedEvents(scene, "audit").slice(29, 60);
    scene.storage.forgetCalls();
    expect(await replay(scene, { orderId: ORDER, subscription: "audit", from: 30, to: 60 }, KIM)).toMatchObject({
      outcome: "done",
      events: 31,
    });
    // Two of each stream for what there is, and each of the three blobs once.
    expect(scene.storage.callCounts()["blobs.list"]).toBeLessThan(10);
    expect(scene.storage.callCounts()["blobs.read"]).toBe(3);
    const seen: unknown[] = [];
    scene.onEvent = (event) => void seen.push([event.replayOf, event.dataText]);
    await scene.until(scene.worker().handle("o-1"));
    expect(seen).toEqual(originals.map(({ id, dataText }) => [id, dataText]));
    await expectWhole(scene);
  });

  test("F9: a new subscription gets what others have in bundles, each event once", async () => {
    const scene = await handled([5, 1, 3]);
    const added = scene.subscription("late");
    expect(await backfill(scene, { subscription: added }, KIM, {})).toMatchObject({ outcome: "done", events: 9, failed: 0 });
    await live(scene, scene.worker([scene.subscription("audit"), added]), 0);
    expect(scene.log).toEqual(numbers(9).map((n) => `late E${n}`));
    expect(await backfill(scene, { subscription: added }, KIM, { run: "again" })).toMatchObject({ events: 0, skipped: { had: 9 } });
    await expectWhole(scene);
  });

  test("a torn bundle is told, and nothing of it is passed over", async () => {
    const scene = await handled([1, 5]);
    tear(scene);
    const result = await replay(scene, { orderId: ORDER, subscription: "audit" }, KIM);
    expect(result).toMatchObject({ outcome: "incomplete", events: 1, failed: 1 });
    expect(result.details).toMatchObject([{ outcome: "failed", message: expect.stringContaining("event 2") }]);
  });
});

describe("show", () => {
  test("every event with its state, type and attempts, in bundles or not", async () => {
    const scene = await handled([5, 1, 2]);
    scene.storage.forgetCalls();
    const { timeline } = await showOrder(scene, ORDER);
    expect(scene.storage.callCounts()["blobs.read"]).toBe(3);
    expect(timeline.map(({ sequence, state, attempts, type }) => [sequence, state, attempts, type])).toEqual(
      numbers(8).map((n) => [n, "Sent", 1, "step"]),
    );
  });
});

describe("verify", () => {
  test("finds nothing wrong with bundles and single blobs, of one order and of all", async () => {
    const scene = await handled([5, 1, 90]);
    expect([await kinds(scene), (await verifyAll(scene)).findings]).toEqual([[], []]);
  });

  test("a bundle that is gone is a gap; the oldest one may be gone by its age", async () => {
    const scene = await handled([3, 1, 3]);
    const [oldest, newest] = bundleNames(scene);
    scene.storage.deleteBlob("archive", oldest!);
    expect(await kinds(scene)).toEqual(["notice retention: events before 4 are not in the archive any more"]);
    scene.storage.deleteBlob("archive", newest!);
    expect(await kinds(scene)).toContain("damage gap: event 7 is finished and not in the archive");
  });

  test("a bundle whose index and body disagree in length is damage, told once", async () => {
    const scene = await handled([3, 3]);
    const name = bundleNames(scene)[1]!;
    tear(scene, name);
    expect(await kinds(scene)).toEqual([`damage torn: archive/${name} is not as big as its index says`]);
    expect(await verifyAll(scene)).toMatchObject({ sound: false, findings: [{ kind: "torn", orderId: "o-1", subscription: "audit" }] });
  });

  test("W10: an index that none of ours wrote is damage: a foreign blob, and its events are missing", async () => {
    const scene = await handled([1, 3]);
    const [name] = bundleNames(scene);
    const { bytes, metadata } = scene.storage.blobEntries("archive").find(([each]) => each === name)![1];
    scene.storage.putBlob("archive", name!, bytes, { ...metadata, index: `${metadata["index"]},` });
    expect(await kinds(scene)).toEqual([
      `damage foreign: archive/${name} is not one of ours`,
      "damage gap: event 4 is finished and not in the archive",
    ]);
    expect((await verifyAll(scene)).findings.filter(({ kind }) => kind === "foreign")).toHaveLength(1);
  });
});

describe("F7: cleanup", () => {
  test("removes a bundle as a whole, once, when its time is over, and not a millisecond before", async () => {
    const scene = await handled([3]);
    await scene.clock.advance(DAY_MS / 2);
    await scene.commit("o-1", [4, 5, 6]);
    await scene.worker().handle("o-1");
    const [oldest, newest] = bundleNames(scene);
    const cleaner = createCleaner({ storage: scene.storage, archiveDays: 1 });
    await scene.clock.advance(DAY_MS / 2);
    expect(await cleaner.clean()).toMatchObject({ removed: { archive: 0 }, foreign: 0, complete: true });
    await scene.clock.advance(1);
    expect((await cleaner.clean({ dryRun: true })).removed.archive).toBe(1);
    expect(bundleNames(scene)).toEqual([oldest, newest]);
    scene.storage.forgetCalls();
    expect(await cleaner.clean()).toMatchObject({ removed: { archive: 1 }, complete: true });
    expect(bundleNames(scene)).toEqual([newest]);
    expect(scene.storage.calls.filter(({ method }) => method === "delete").map(({ args }) => args[1])).toEqual([[oldest]]);
    expect(await kinds(scene)).toEqual(["notice retention: events before 4 are not in the archive any more"]);
  });

  test("a bundle counts as one blob of those that a run may remove", async () => {
    const scene = await handled([3, 1, 3, 1]);
    await scene.clock.advance(8 * DAY_MS);
    const cleaner = createCleaner({ storage: scene.storage });
    expect(await cleaner.clean({ maxDeletes: 3 })).toMatchObject({ removed: { archive: 3 }, complete: false });
    expect(archivedEntries(scene.storage)).toHaveLength(1);
    expect(await cleaner.clean({ maxDeletes: 3 })).toMatchObject({ removed: { archive: 1 }, complete: true });
  });

  test("bundles that overlap, as a dead holder may leave them, go together with what they hold twice", async () => {
    const scene = await handled([5]);
    for (const [name, { bytes, metadata }] of archivedEntries(scene.storage).slice(1, 4)) {
      scene.storage.putBlob("archive", name, bytes, metadata);
    }
    await scene.clock.advance(8 * DAY_MS);
    expect(await createCleaner({ storage: scene.storage }).clean()).toMatchObject({ removed: { archive: 4 }, complete: true });
    expect(scene.storage.blobEntries("archive")).toEqual([]);
  });

  test("a bundle whose events all have blobs of their own is listed once these are gone: the run before says that something is left", async () => {
    const scene = await handled([3, 3]);
    for (const [name, { bytes, metadata }] of archivedEntries(scene.storage).slice(0, 3)) {
      scene.storage.putBlob("archive", name, bytes, metadata);
    }
    const cleaner = createCleaner({ storage: scene.storage });
    expect(await cleaner.clean()).toMatchObject({ removed: { archive: 0 }, complete: true });
    await scene.clock.advance(8 * DAY_MS);
    expect(await cleaner.clean()).toMatchObject({ removed: { archive: 4 }, complete: false });
    expect(await cleaner.clean()).toMatchObject({ removed: { archive: 1 }, complete: true });
    expect(scene.storage.blobEntries("archive")).toEqual([]);
  });

  test("a foreign blob with the name of a bundle is counted and left alone", async () => {
    const scene = await handled([3]);
    const [name] = bundleNames(scene);
    scene.storage.putBlob("archive", name!, new Uint8Array([1]), { bundle: "1", index: "" });
    await scene.clock.advance(100 * DAY_MS);
    expect(await createCleaner({ storage: scene.storage }).clean()).toMatchObject({ removed: { archive: 0 }, foreign: 1 });
    expect(bundleNames(scene)).toEqual([name]);
  });

  test("as long as a dead letter speaks of one of its events, a bundle stays, and stays young", async () => {
    const scene = await handled([3]);
    const letter = eventBlobName("audit", key("o-1"), scene.ids("archive")[1] as never);
    scene.storage.putBlob("dead", letter, new Uint8Array([1]));
    const cleaner = createCleaner({ storage: scene.storage });
    await scene.clock.advance(31 * DAY_MS);
    const [[name, before] = ["", undefined]] = scene.storage.blobEntries("archive");
    expect((await cleaner.clean()).removed.archive).toBe(0);
    expect(scene.storage.blobEntries("archive")).toEqual([[name, { ...before, etag: expect.not.stringMatching(before!.etag) }]]);
    scene.storage.deleteBlob("dead", letter);
    expect((await cleaner.clean()).removed.archive).toBe(0);
    await scene.clock.advance(8 * DAY_MS);
    expect((await cleaner.clean()).removed.archive).toBe(1);
  });
});
