import { describe, expect, it } from "vitest";
import { CONTROL_PARTITION } from "../../src/core/controls.ts";
import { OutboxError } from "../../src/core/errors.ts";
import { idempotencyRow, outboxRow, payloadBlobName } from "../../src/core/names.ts";
import { createCleaner, type CleanerOptions } from "../../src/operations/cleanup.ts";
import { eventId, failure, outboxEntity, transaction } from "../contract/harness.ts";
import { connectTestStorage } from "../support/azurite-storage.ts";
import { ManualClock } from "../support/manual-clock.ts";
import { createMemoryStorage, type MemoryStorage } from "../support/memory-storage.ts";
import { blobName, DAY_MS, keyOf, putPending, wakeUps } from "./maintenance-support.ts";

interface Scene {
  readonly clock: ManualClock;
  readonly storage: MemoryStorage;
}

function scene(): Scene {
  const clock = new ManualClock();
  return { clock, storage: createMemoryStorage(clock) };
}

const NONE = new Uint8Array();
const names = (storage: MemoryStorage, container: "archive" | "audit" | "payloads" | "events" | "dead"): readonly string[] =>
  storage.blobEntries(container).map(([name]) => name);

/** One of everything, all of it of the same age. */
async function putEverything(storage: MemoryStorage): Promise<void> {
  storage.putBlob("archive", blobName("o-1"), NONE, { outcome: "handled" });
  storage.putBlob("archive", blobName("o-2"), NONE, { outcome: "discarded" });
  storage.putBlob("archive", blobName("o-3"), NONE, { outcome: "dead" });
  storage.putBlob("dead", blobName("o-3"), NONE);
  storage.putBlob("dead", blobName("o-4"), NONE);
  storage.putBlob("audit", "2026-01-01/01JZ0000000000000000000001.json", NONE);
  await putPending(storage, "o-5");
  await putPending(storage, "o-5", { number: 2, state: { status: "parked", nextAttemptMs: 1 } });
  await putPending(storage, "o-6", { state: { status: "blocked" } });
  const idempotency = { rowKey: idempotencyRow("k"), result: "{}" };
  await storage.orders.commit(transaction(keyOf("o-7"), { idempotency, entities: [{ action: "insert", rowKey: "line", properties: {} }] }));
}

function everything(storage: MemoryStorage): unknown {
  const containers = (["archive", "audit", "payloads", "events", "dead"] as const).map((container) => storage.blobEntries(container));
  return { containers, rows: [keyOf("o-7"), CONTROL_PARTITION].map((order) => storage.rows(order)), messages: wakeUps(storage) };
}

describe("F7: what a cleanup removes", () => {
  it("nothing that is as old as its retention to the millisecond; what is finished, one millisecond later", async () => {
    const { clock, storage } = scene();
    const cleaner = createCleaner({ storage, archiveDays: 1, idempotencyDays: 1 });
    await putEverything(storage);
    const before = everything(storage);
    await clock.advance(DAY_MS);
    expect((await cleaner.clean()).removed).toEqual({ archive: 0, audit: 0, payloads: 0, idempotency: 0 });
    expect(everything(storage)).toEqual(before);
    await clock.advance(1);
    expect(await cleaner.clean()).toEqual({ removed: { archive: 1, audit: 0, payloads: 0, idempotency: 1 }, foreign: 0, complete: true });
    expect(names(storage, "archive")).toEqual([blobName("o-2"), blobName("o-3")]);
  });

  it("no pending, parked, blocked or dead event, no outbox entity and no order, however old", async () => {
    const { clock, storage } = scene();
    await putEverything(storage);
    await clock.advance(10 * 365 * DAY_MS);
    const result = await createCleaner({ storage, archiveDays: 1, discardedDays: 1, auditDays: 1, idempotencyDays: 1 }).clean();
    expect(result.removed).toEqual({ archive: 2, audit: 1, payloads: 0, idempotency: 1 });
    expect(names(storage, "events")).toEqual([blobName("o-5"), blobName("o-5", 2), blobName("o-6")]);
    expect(names(storage, "dead")).toEqual([blobName("o-3"), blobName("o-4")]);
    expect(storage.rows(keyOf("o-7")).map(({ rowKey }) => rowKey)).toEqual(["line", "order", outboxRow(eventId(1))]);
  });

  it("G6: the bytes of a skipped dead letter stay in the archive as long as the dead letter does", async () => {
    const { clock, storage } = scene();
    await putEverything(storage);
    await clock.advance(29 * DAY_MS);
    await createCleaner({ storage }).clean();
    expect(names(storage, "archive")).toEqual([blobName("o-2"), blobName("o-3")]);
    storage.deleteBlob("dead", blobName("o-3"));
    await createCleaner({ storage }).clean();
    expect(names(storage, "archive")).toEqual([blobName("o-2")]);
  });

  it("G6: the bytes of a skipped dead letter never look old to a rule of the account that deletes by age", async () => {
    const { clock, storage } = scene();
    await putEverything(storage);
    const ageDays = async (): Promise<number> => {
      for await (const { name, ageMs } of storage.blobs.list("archive", "")) if (name === blobName("o-3")) return ageMs / DAY_MS;
      throw new Error("it is gone");
    };
    const bytes = await storage.blobs.read("archive", blobName("o-3"));
    await clock.advance(31 * DAY_MS);
    await createCleaner({ storage }).clean({ dryRun: true });
    expect(await ageDays()).toBe(31);
    for (let month = 0; month < 24; month++) {
      await createCleaner({ storage }).clean();
      expect(await ageDays()).toBe(0);
      await clock.advance(30 * DAY_MS);
      await createCleaner({ storage }).clean();
      expect(await ageDays()).toBe(30);
      await clock.advance(DAY_MS);
    }
    expect(await storage.blobs.read("archive", blobName("o-3"))).toMatchObject({ bytes: bytes?.bytes, metadata: { outcome: "dead" } });
    // It goes like every other once the dead letter is decided.
    storage.deleteBlob("dead", blobName("o-3"));
    await createCleaner({ storage }).clean();
    expect(names(storage, "archive")).toEqual([]);
  });

  it("G6: an operator who decides about a dead letter meanwhile is not overwritten, and does not stop the cleanup", async () => {
    const { clock, storage } = scene();
    await putEverything(storage);
    await clock.advance(365 * DAY_MS);
    const writeMetadata = storage.blobs.writeMetadata.bind(storage.blobs);
    storage.blobs.writeMetadata = async (container, name, metadata, etag, options) => {
      const current = await storage.blobs.read(container, name);
      await writeMetadata(container, name, { outcome: "dead", decision: "discard" }, current!.etag);
      return writeMetadata(container, name, metadata, etag, options);
    };
    expect((await createCleaner({ storage }).clean()).removed).toMatchObject({ archive: 2, audit: 1 });
    expect((await storage.blobs.read("archive", blobName("o-3")))?.metadata).toEqual({ outcome: "dead", decision: "discard" });
  });

  it.each([2, -2, 3_650])("nothing early when our clock is %d days off: the service says what is old", async (days) => {
    const { clock, storage } = scene();
    await putEverything(storage);
    const before = everything(storage);
    clock.setNow(clock.now() + days * DAY_MS);
    await clock.advance(DAY_MS);
    await createCleaner({ storage, archiveDays: 1, discardedDays: 1, auditDays: 1, idempotencyDays: 1 }).clean();
    expect(everything(storage)).toEqual(before);
  });

  it("defaults: 7 days for archived events and idempotency results, 30 for discarded ones and the audit log", async () => {
    const { clock, storage } = scene();
    await putEverything(storage);
    await clock.advance(7 * DAY_MS + 1);
    expect((await createCleaner({ storage }).clean()).removed).toEqual({ archive: 1, audit: 0, payloads: 0, idempotency: 1 });
    await clock.advance(23 * DAY_MS - 1);
    expect((await createCleaner({ storage }).clean()).removed).toMatchObject({ archive: 0, audit: 0 });
    await clock.advance(1);
    expect((await createCleaner({ storage }).clean()).removed).toMatchObject({ archive: 1, audit: 1 });
  });

  it("payloads older than a day that no outbox entity refers to; the others, and those of orders that can't be read, stay", async () => {
    const { clock, storage } = scene();
    const payload = (orderId: string, number: number): string => payloadBlobName(keyOf(orderId), eventId(number));
    const spilled = { id: eventId(1), sequence: 1, text: undefined, payloadBlob: payload("o-1", 1) };
    await storage.orders.commit(transaction(keyOf("o-1"), { outbox: [spilled] }));
    await storage.orders.commit(transaction(keyOf("odd"), { outbox: [outboxEntity(1)] }));
    storage.putRow(keyOf("odd"), outboxRow(eventId(2)), { payload: payload("odd", 2) });
    storage.putRow(keyOf("corrupt"), "order", {});
    const all = [payload("o-1", 1), payload("o-1", 2), payload("none", 1), payload("odd", 2), payload("corrupt", 1), "foreign.bin"];
    for (const name of all) storage.putBlob("payloads", name, NONE);
    await clock.advance(DAY_MS);
    expect((await createCleaner({ storage }).clean()).removed.payloads).toBe(0);
    await clock.advance(1);
    storage.putBlob("payloads", payload("o-1", 3), NONE);
    expect(await createCleaner({ storage }).clean()).toMatchObject({ removed: { payloads: 2 }, foreign: 1 });
    const kept = [payload("corrupt", 1), "foreign.bin", payload("o-1", 1), payload("o-1", 3), payload("odd", 2)];
    expect(names(storage, "payloads")).toEqual(kept);
  });

  it("W10: foreign names in archive and audit log are told and left alone", async () => {
    const { clock, storage } = scene();
    storage.putBlob("archive", "mail/notes.txt", NONE);
    storage.putBlob("audit", "notes.txt", NONE);
    await clock.advance(365 * DAY_MS);
    expect(await createCleaner({ storage }).clean()).toMatchObject({ removed: { archive: 0, audit: 0 }, foreign: 2 });
    expect([...names(storage, "archive"), ...names(storage, "audit")]).toHaveLength(2);
  });
});

describe("how a cleanup goes on", () => {
  it("a dry run counts the same and changes nothing", async () => {
    const { clock, storage } = scene();
    await putEverything(storage);
    await clock.advance(31 * DAY_MS);
    const before = everything(storage);
    const cleaner = createCleaner({ storage });
    const dry = await cleaner.clean({ dryRun: true });
    expect(everything(storage)).toEqual(before);
    expect(await cleaner.clean()).toEqual(dry);
    expect(dry.removed).toEqual({ archive: 2, audit: 1, payloads: 0, idempotency: 1 });
  });

  it("removes at most so many a run, in batches, tells how far it is, and goes on in the next run", async () => {
    const { clock, storage } = scene();
    for (let index = 0; index < 700; index++) storage.putBlob("archive", blobName(`o-${index}`), NONE);
    for (let index = 0; index < 5; index++) storage.putRow(keyOf(`o-${index}`), idempotencyRow("k"), { result: "{}" });
    await clock.advance(8 * DAY_MS);
    const cleaner = createCleaner({ storage });
    const progress: string[] = [];
    const first = await cleaner.clean({ maxDeletes: 600, onProgress: ({ step, removed }) => progress.push(`${step} ${removed}`) });
    expect(first).toMatchObject({ removed: { idempotency: 5, archive: 595 }, complete: false });
    expect(progress.slice(-3)).toEqual(["archive 256", "archive 512", "archive 595"]);
    expect(storage.callCounts()).toMatchObject({ "blobs.delete": 3 });
    expect(await cleaner.clean({ maxDeletes: 600 })).toMatchObject({ removed: { archive: 105 }, complete: true });
  });

  it("the scan for idempotency results keeps its place until all it found is removed", async () => {
    const { clock, storage } = scene();
    const rows = 10_500;
    for (let index = 0; index < rows; index++) storage.putRow(keyOf("o-1"), idempotencyRow(String(index)), { result: "{}" });
    await clock.advance(8 * DAY_MS);
    const cleaner = createCleaner({ storage });
    expect(await cleaner.clean({ dryRun: true, maxDeletes: rows })).toMatchObject({ removed: { idempotency: 10_000 }, complete: false });
    expect(storage.rows(CONTROL_PARTITION)).toEqual([]);
    const runs = [];
    for (let run = 0; run < 4; run++) runs.push(await cleaner.clean({ maxDeletes: 6_000 }));
    expect(runs.map(({ removed, complete }) => [removed.idempotency, complete])).toEqual([
      [6_000, false],
      [4_500, true],
      [0, true],
      [0, true],
    ]);
    expect(storage.rows(keyOf("o-1"))).toEqual([]);
    expect(storage.rows(CONTROL_PARTITION)).toEqual([]);
  });

  it("a run that fails in between has removed what it said, and the next one goes on", async () => {
    const { clock, storage } = scene();
    for (let index = 0; index < 600; index++) storage.putBlob("archive", blobName(`o-${index}`), NONE);
    await clock.advance(8 * DAY_MS);
    let deletes = 0;
    storage.onCall = ({ port, method }) => {
      if (port === "blobs" && method === "delete" && ++deletes === 2) throw new OutboxError("unavailable", "busy");
    };
    let removed = 0;
    await failure(createCleaner({ storage }).clean({ onProgress: (progress) => (removed = progress.removed) }), "unavailable");
    expect([removed, names(storage, "archive").length]).toEqual([256, 344]);
    expect(await createCleaner({ storage }).clean()).toMatchObject({ removed: { archive: 344 } });
  });

  it("two at once are harmless", async () => {
    const { clock, storage } = scene();
    await putEverything(storage);
    await clock.advance(8 * DAY_MS);
    await Promise.all([createCleaner({ storage }).clean(), createCleaner({ storage }).clean()]);
    expect(names(storage, "archive")).toEqual([blobName("o-2"), blobName("o-3")]);
  });

  const bad: ReadonlyArray<CleanerOptions[keyof CleanerOptions]> = [0, 0.5, 3_651, Number.NaN];
  it.each(bad)("F7: a retention of %s days is refused", (days) => {
    const { storage } = scene();
    for (const name of ["archiveDays", "discardedDays", "auditDays", "idempotencyDays"]) {
      expect(() => createCleaner({ storage, [name]: days })).toThrow(name);
    }
  });

  it("on Azurite: nothing is old yet, and an aborted signal ends it", async () => {
    const storage = await connectTestStorage();
    await storage.blobs.create("archive", blobName("o-1"), NONE, { outcome: "handled" });
    await storage.orders.commit(transaction(keyOf("o-1"), { idempotency: { rowKey: idempotencyRow("k"), result: "{}" } }));
    const cleaner = createCleaner({ storage, archiveDays: 1 });
    const nothing = { archive: 0, audit: 0, payloads: 0, idempotency: 0 };
    expect(await cleaner.clean()).toEqual({ removed: nothing, foreign: 0, complete: true });
    await failure(cleaner.clean({ signal: AbortSignal.abort() }), "aborted");
  });
});

describe("F7: what is behind a handled event that is kept", () => {
  /** Archived events of o-1 and their ages in days; then a cleanup after one day's retention. */
  async function left(ages: readonly (readonly [number: number, days: number, outcome?: string])[]): Promise<readonly string[]> {
    const { clock, storage } = scene();
    const oldest = Math.max(...ages.map(([, days]) => days));
    for (let age = oldest; age >= 0; age--) {
      for (const [number, days, outcome = "handled"] of ages)
        if (days === age) storage.putBlob("archive", blobName("o-1", number), NONE, { outcome });
      if (age > 0) await clock.advance(DAY_MS);
    }
    storage.putBlob("archive", blobName("o-9"), NONE, { outcome: "handled" });
    await clock.advance(1);
    await createCleaner({ storage, archiveDays: 1 }).clean();
    return names(storage, "archive").filter((name) => name !== blobName("o-9"));
  }

  it("stays: its archive write may have been the later one, and no hole looks like a loss", async () => {
    expect(
      await left([
        [1, 0],
        [2, 2],
        [3, 2, "unwanted"],
        [4, 0],
      ]),
    ).toEqual([1, 2, 3, 4].map((number) => blobName("o-1", number)));
  });

  it("and what is before it goes", async () => {
    expect(
      await left([
        [1, 2],
        [2, 0],
        [3, 2],
      ]),
    ).toEqual([blobName("o-1", 2), blobName("o-1", 3)]);
  });

  it("behind a discarded one, which is kept longer, nothing is", async () => {
    expect(
      await left([
        [1, 2, "discarded"],
        [2, 2],
      ]),
    ).toEqual([blobName("o-1", 1)]);
  });
});
