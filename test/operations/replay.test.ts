/** F9: a range of archived events of an order runs again for one subscription, exactly once a run. */
import { describe, expect, test } from "vitest";
import { rawJson } from "../../src/core/json.ts";
import { OutboxError } from "../../src/core/errors.ts";
import { MAX_INLINE_EVENT_UNITS } from "../../src/core/limits.ts";
import { PermanentError } from "../../src/core/retry.ts";
import { createCleaner } from "../../src/operations/cleanup.ts";
import type { OperationsContext } from "../../src/operations/context.ts";
import { replay, type ReplayOptions, type ReplayTarget } from "../../src/operations/replay.ts";
import type { ReplayResult } from "../../src/operations/replay-totals.ts";
import { showOrder } from "../../src/operations/show-order.ts";
import { createOutbox } from "../../src/producer/outbox.ts";
import { unbundle } from "../support/archived-entries.ts";
import { live } from "../worker/operator-support.ts";
import { key, Scene, workflow } from "../worker/round-support.ts";
import { archivedEvents, blobsOf, everyFate, expectWhole, KIM, ORDER, writes } from "./replay-support.ts";

const DAY_MS = 24 * 60 * 60 * 1000;

/** `audit` and `mail` have had the events; the log is empty. */
async function handled(numbers: readonly number[] = [1, 2, 3, 4, 5]): Promise<Scene> {
  const scene = new Scene();
  for (let start = 0; start < numbers.length; start += 90) await scene.commit("o-1", numbers.slice(start, start + 90));
  await round(scene);
  scene.log.length = 0;
  return scene;
}

async function round(scene: Scene): Promise<void> {
  await scene.until(scene.worker([scene.subscription("audit"), scene.subscription("mail")]).handle("o-1"));
}

function run(context: OperationsContext, target: Partial<ReplayTarget> = {}, options: ReplayOptions = {}): Promise<ReplayResult> {
  return replay(context, { orderId: ORDER, subscription: "audit", ...target }, KIM, options);
}

describe("replay", () => {
  test("F9, G4: a range runs again in its order, after what was committed, for its subscription alone", async () => {
    const scene = await handled();
    const mail = blobsOf(scene, "mail");
    const originals = archivedEvents(scene, "audit");
    await scene.commit("o-1", [6]);
    const result = await run(scene, { from: 2, to: 4 });
    expect(result).toMatchObject({ outcome: "done", events: 3, before: 0, failed: 0, skipped: {} });
    expect(result.details).toMatchObject([{ orderId: "o-1", outcome: "replayed", firstSequence: 2, lastSequence: 4 }]);
    const seen: unknown[] = [];
    scene.onEvent = (event) => void seen.push([event.sequence, event.replayOf, event.replayFor, event.dataText]);
    await round(scene);
    expect(scene.log.filter((entry) => entry.startsWith("audit"))).toEqual(["audit E6", "audit E2", "audit E3", "audit E4"]);
    expect(scene.log.filter((entry) => entry.startsWith("mail"))).toEqual(["mail E6"]);
    const again = originals.slice(1, 4).map(({ id, dataText }, index) => [7 + index, id, "audit", dataText]);
    expect(seen.filter((entry) => (entry as unknown[])[1] !== undefined)).toEqual(again);
    expect(blobsOf(scene, "mail").slice(0, mail.length)).toEqual(mail);
    expect(blobsOf(scene, "mail")).toHaveLength(mail.length + 1);
    await expectWhole(scene);
  });

  test("F9: the bytes of the data stay what they are, of big events too", async () => {
    const scene = new Scene();
    const outbox = createOutbox({ workflow, storage: scene.storage, clock: scene.clock });
    const texts = ['{"n":  1.0, "odd":12345678901234567890}', `{"n":2,"big":"${"é".repeat(MAX_INLINE_EVENT_UNITS)}"}`];
    await outbox.commit("o-1", () => ({
      state: { committed: 2 },
      events: texts.map((text) => ({ type: "step" as const, data: rawJson(text) })),
    }));
    await round(scene);
    expect(await run(scene)).toMatchObject({ outcome: "done", events: 2 });
    await round(scene);
    const all = archivedEvents(scene, "audit").map(({ dataText }) => dataText);
    expect(all).toEqual([...texts, ...texts]);
    expect(scene.storage.blobEntries("payloads")).toEqual([]);
  });

  test("a dry run writes nothing and tells what would run", async () => {
    const scene = await handled();
    await run(scene, { from: 3, to: 3 });
    await round(scene);
    scene.storage.forgetCalls();
    const result = await run(scene, { from: 2 }, { dryRun: true });
    expect(writes(scene)).toBe(0);
    expect(result).toMatchObject({ outcome: "would-replay", events: 4, skipped: { replay: 1 } });
    expect(result.details).toMatchObject([{ outcome: "would-replay", firstSequence: 2, lastSequence: 5 }]);
    await round(scene);
    expect(scene.log).toEqual(["audit E3"]);
  });

  test("the same command does nothing more, whatever was finished since; another run does", async () => {
    const scene = await handled([1, 2]);
    await run(scene);
    await scene.commit("o-1", [3]);
    await round(scene);
    scene.storage.forgetCalls();
    expect(await run(scene)).toMatchObject({ outcome: "done-before", events: 0 });
    expect(writes(scene)).toBe(0);
    scene.log.length = 0;
    // Long after cleanup has removed all marks.
    await scene.clock.advance(400 * DAY_MS);
    expect(await run(scene)).toMatchObject({ outcome: "done-before" });
    expect(await run(scene, {}, { run: "again" })).toMatchObject({ outcome: "done", events: 3, skipped: { replay: 2 } });
    await round(scene);
    expect(scene.log).toEqual(["audit E1", "audit E2", "audit E3"]);
  });

  test("a run means one thing: other parameters are refused", async () => {
    const scene = await handled();
    await run(scene, { from: 2 }, { run: "mine" });
    await expect(run(scene, { from: 1 }, { run: "mine" })).rejects.toMatchObject({
      code: "invalid-option",
      message: expect.stringContaining("--run"),
    });
    await expect(run(scene, {}, { run: "No Name" })).rejects.toMatchObject({ code: "invalid-option" });
    await expect(run(scene, { from: 3, to: 2 })).rejects.toMatchObject({ code: "invalid-option" });
    await expect(replay(scene, { orderId: ORDER, subscription: "audit" }, { actor: "kim", reason: "" })).rejects.toMatchObject({
      code: "invalid-option",
    });
  });

  test("C5, G2: 250 events are three transactions, one after another", async () => {
    const numbers = Array.from({ length: 250 }, (_, index) => index + 1);
    const scene = await handled(numbers);
    scene.storage.forgetCalls();
    expect(await run(scene)).toMatchObject({ outcome: "done", events: 250 });
    expect(scene.storage.callCounts()["orders.commit"]).toBe(3);
    await round(scene);
    expect(scene.log).toEqual(numbers.map((n) => `audit E${n}`));
    await expectWhole(scene);
  });

  test("C5: texts that do not fit into one transaction are several, in order", async () => {
    const scene = new Scene();
    const outbox = createOutbox({ workflow, storage: scene.storage, clock: scene.clock });
    const pad = "é".repeat(200_000);
    for (let n = 1; n <= 5; n++) {
      await outbox.commit("o-1", () => ({
        state: { committed: n },
        events: [{ type: "step", data: rawJson(`{"n":${n},"pad":"${pad}"}`) }],
      }));
    }
    await round(scene);
    scene.log.length = 0;
    scene.storage.forgetCalls();
    expect(await run(scene)).toMatchObject({ outcome: "done", events: 5 });
    expect(scene.storage.callCounts()["orders.commit"]).toBe(3);
    await round(scene);
    expect(scene.log).toEqual([1, 2, 3, 4, 5].map((n) => `audit E${n}`));
  });

  test("what is not finished, dead or a replay itself is told and left out; what was discarded runs", async () => {
    const scene = new Scene();
    const subscriptions = [scene.subscription("audit", { retry: { onDead: "skip" } })];
    scene.onHandle = (entry) => {
      if (entry === "audit E2") throw new PermanentError("no");
      if (entry === "audit E4") throw new Error("not yet");
    };
    await scene.commit("o-1", [1, 2, 3, 4, 5]);
    await scene.until(scene.worker(subscriptions).handle("o-1"));
    const [name, { bytes, metadata }] = scene.storage.blobEntries("archive")[2]!;
    scene.storage.putBlob("archive", name, bytes, { ...metadata, outcome: "discarded" });
    const result = await run(scene);
    expect(result).toMatchObject({ outcome: "left", events: 2, left: 1, skipped: { "dead-lettered": 1, unfinished: 2 } });
    expect(result.details).toMatchObject([{ firstSequence: 1, lastSequence: 3 }]);
  });

  test("G2: a run that met unfinished events stays open, and the same command replays them once they are finished", async () => {
    const scene = new Scene();
    const down = { on: true };
    scene.onHandle = (entry) => {
      if (entry === "audit E2" && down.on) throw new Error("not yet");
    };
    const audit = scene.subscription("audit");
    await scene.commit("o-1", [1, 2, 3]);
    await scene.until(scene.worker([audit]).handle("o-1"));
    for (let again = 0; again < 2; again++) {
      expect(await run(scene, { from: 2, to: 3 })).toMatchObject({ outcome: "left", events: 0, left: 1, skipped: { unfinished: 2 } });
    }
    down.on = false;
    await live(scene, scene.worker([audit]), 600_000);
    scene.log.length = 0;
    expect(await run(scene, { from: 2, to: 3 })).toMatchObject({ outcome: "done", events: 2, left: 0, skipped: {} });
    expect(await run(scene, { from: 2, to: 3 })).toMatchObject({ outcome: "done-before" });
    await live(scene, scene.worker([audit]), 0);
    expect(scene.log).toEqual(["audit E2", "audit E3"]);
  });

  test.each([
    ["hide", "shows by itself within 60 s"],
    ["send", "reconcile will find the order"],
  ])("C4: a wake-up that fails at %s is told as what it is", async (failing, text) => {
    const scene = await handled([1]);
    const warnings: string[] = [];
    const note = (): void => undefined;
    const logger = { debug: note, info: note, error: note, warn: (message: string) => void warnings.push(message) };
    scene.storage.onCall = ({ method }) => {
      if (method === failing) throw new OutboxError("unavailable", "the queue is down");
    };
    expect(await run({ storage: scene.storage, clock: scene.clock, logger })).toMatchObject({ outcome: "done", events: 1 });
    expect(new Set(warnings)).toEqual(new Set([expect.stringContaining(text)]));
    scene.storage.onCall = undefined;
    if (failing === "send") return;
    await live(scene, scene.worker([scene.subscription("audit"), scene.subscription("mail")]), 61_000);
    expect(scene.log).toEqual(["audit E1"]);
  });

  test("with the filter, events that the subscription never had run too, those of others' archives and unwanted ones", async () => {
    const scene = new Scene();
    const old = [scene.subscription("mail", { when: ({ sequence }) => sequence !== 2 })];
    await scene.commit("o-1", [1, 2, 3, 4]);
    await scene.worker(old).handle("o-1");
    const audit = scene.subscription("audit", { when: ({ sequence }) => sequence !== 3 });
    await scene.commit("o-1", [5]);
    await scene.worker([...old, audit]).handle("o-1");
    scene.log.length = 0;
    expect(await run(scene, {}, { dryRun: true })).toMatchObject({ events: 1 });
    // What it has had runs again even if its filter says no by now.
    const wants: typeof audit.wants = ({ sequence }) => sequence !== 3 && sequence !== 5;
    expect(await run(scene, { wants })).toMatchObject({ events: 4, skipped: { unwanted: 1 } });
    await scene.worker([...old, audit]).handle("o-1");
    expect(scene.log).toEqual(["audit E1", "audit E2", "audit E4", "audit E5"]);
  });

  test("an order that is deleted, gone or damaged is told", async () => {
    const scene = await handled();
    unbundle(scene.storage);
    const [name, { metadata }] = scene.storage.blobEntries("archive").filter(([blob]) => blob.startsWith("audit/"))[2]!;
    scene.storage.putBlob("archive", name, new TextEncoder().encode("torn"), metadata);
    expect(await run(scene)).toMatchObject({
      outcome: "incomplete",
      events: 2,
      failed: 1,
      details: [{ outcome: "failed", message: expect.stringContaining("event 3") }],
    });
    await round(scene);
    // In order up to the damage, nothing after it; and the run goes on behind it once it is mended.
    expect(scene.log).toEqual(["audit E1", "audit E2"]);
    const outbox = createOutbox({ workflow, storage: scene.storage, clock: scene.clock });
    await outbox.commit("o-1", () => ({ state: null, events: [] }));
    expect(await run(scene, { from: 4 })).toMatchObject({ outcome: "done", deleted: 1, events: 0 });
    scene.storage.deleteRow(key("o-1"), "order");
    expect(await run(scene, { from: 5 })).toMatchObject({ outcome: "done", gone: 1, events: 0 });
  });

  test("a name that nothing in storage knows is no run that is done", async () => {
    const scene = await handled();
    const before = scene.storage.blobEntries("audit").length;
    await expect(run(scene, { orderId: "o-9" })).rejects.toMatchObject({ code: "not-found", message: expect.stringContaining("o-9") });
    await expect(run(scene, { subscription: "audi" })).rejects.toMatchObject({
      code: "not-found",
      message: expect.stringContaining("audit, mail"),
    });
    await expect(run(scene, { orderId: "" })).rejects.toMatchObject({ code: "invalid-order-id" });
    await expect(replay(scene, { orderId: "", subscription: "audit" }, { actor: "", reason: "x" })).rejects.toThrow("actor");
    expect(scene.storage.blobEntries("audit")).toHaveLength(before);
    expect(await run(scene, { subscription: "added", wants: () => true })).toMatchObject({ outcome: "done", events: 5 });
  });

  test("the timeline of the order tells a replay from a redrive", async () => {
    const scene = await handled([1, 2]);
    await run(scene, { from: 2 });
    await round(scene);
    const audit = (await showOrder(scene, ORDER)).timeline.filter(({ subscription }) => subscription === "audit");
    expect(audit.map(({ sequence, state, replayOf, redriveOf }) => [sequence, state, replayOf?.sequence, redriveOf])).toEqual([
      [1, "Sent", undefined, undefined],
      [2, "Sent", undefined, undefined],
      [3, "Sent", 2, undefined],
    ]);
  });
});

describe("exactly once", () => {
  test("an operator who meets any fate at any call, and another who repeats the command", async () => {
    const calls = await everyFate(
      () => handled([1, 2, 3]),
      (context) => run(context, { from: 2 }),
      async (scene) => {
        await live(scene, scene.worker([scene.subscription("audit"), scene.subscription("mail")]), 61_000);
        expect(scene.log).toEqual(["audit E2", "audit E3"]);
        await expectWhole(scene);
        expect(await run(scene, { from: 2 })).toMatchObject({ outcome: "done-before" });
      },
    );
    expect(calls).toBeGreaterThan(12);
  });

  test("a process that dies right after a commit leaves a wake-up behind", async () => {
    const scene = await handled([1]);
    scene.storage.onCall = ({ method }) => {
      if (method === "commit") return { after: () => new Promise<void>(() => undefined) };
      return undefined;
    };
    void run(scene);
    await live(scene, scene.worker([scene.subscription("audit"), scene.subscription("mail")]), 61_000);
    expect(scene.log).toEqual(["audit E1"]);
  });

  test("between two batches", async () => {
    const numbers = Array.from({ length: 120 }, (_, index) => index + 1);
    for (const lost of ["before", "after"] as const) {
      const scene = await handled(numbers);
      let commits = 0;
      scene.storage.onCall = ({ method }) => {
        if (method !== "commit" || ++commits !== 2) return undefined;
        const never = new Promise<undefined>(() => undefined);
        return lost === "after" ? { after: () => never } : never;
      };
      void run(scene);
      await live(scene, scene.worker([scene.subscription("audit"), scene.subscription("mail")]), 0);
      scene.storage.onCall = undefined;
      expect(await run(scene)).toMatchObject({ outcome: "done", before: lost === "after" ? 120 : 98, events: lost === "after" ? 0 : 22 });
      await round(scene);
      await live(scene, scene.worker([scene.subscription("audit"), scene.subscription("mail")]), 61_000);
      expect(scene.log).toEqual(numbers.map((n) => `audit E${n}`));
    }
  });

  test("between two tries it waits, longer each time; told to stop, it does not try again", async () => {
    const scene = await handled([1]);
    const tries: number[] = [];
    scene.storage.onCall = ({ method }) => {
      if (method !== "commit") return;
      tries.push(scene.clock.monotonic());
      throw new OutboxError("precondition-failed", "another writer was faster");
    };
    const stop = new AbortController();
    const stopped = run({ storage: scene.storage, clock: scene.clock, random: () => 0.5, signal: stop.signal });
    const began = scene.clock.monotonic();
    await scene.clock.advance(40);
    expect(tries.map((at) => at - began)).toEqual([0, 5, 15, 35]);
    stop.abort();
    expect(await stopped).toMatchObject({ events: 0 });
    expect(scene.clock.pending()).toBe(0);
    expect(tries).toHaveLength(4);
  });

  test("H10: two operators at once, and producers in between", async () => {
    const numbers = Array.from({ length: 120 }, (_, index) => index + 1);
    const scene = await handled(numbers);
    let commits = 0;
    scene.storage.onCall = async ({ method, args }) => {
      const { outbox } = method === "commit" ? (args[0] as { outbox: readonly unknown[] }) : { outbox: [] };
      if (outbox.length > 1 && ++commits === 1) await scene.commit("o-1", [999]);
    };
    const both = await scene.until(Promise.all([run(scene), run(scene)]));
    expect(both.map(({ outcome }) => outcome)).toEqual(["done", "done"]);
    expect(both.reduce((sum, { events }) => sum + events, 0)).toBe(120);
    await round(scene);
    const replayed = scene.log.filter((entry) => entry.startsWith("audit") && entry !== "audit E999");
    expect(replayed).toEqual(numbers.map((n) => `audit E${n}`));
    expect(scene.log).toContain("audit E999");
    await expectWhole(scene);
  });

  test("an unfinished run goes on for 29 days, its marks outlive a short retention; then it is refused", async () => {
    const scene = await handled(Array.from({ length: 120 }, (_, index) => index + 1));
    let commits = 0;
    scene.storage.onCall = ({ method }) => {
      if (method === "commit" && ++commits === 2) throw new Error("the process ends");
    };
    await expect(run(scene)).rejects.toThrow("the process ends");
    scene.storage.onCall = undefined;
    await scene.clock.advance(28 * DAY_MS);
    // The archive is gone by then too; here it is kept.
    await createCleaner({ storage: scene.storage, idempotencyDays: 1, archiveDays: 100 }).clean();
    expect(await run(scene, {}, { dryRun: true })).toMatchObject({ events: 22 });
    await scene.clock.advance(2 * DAY_MS);
    await expect(run(scene)).rejects.toMatchObject({ code: "invalid-option", message: expect.stringContaining("--run NAME") });
    await scene.clock.advance(2 * DAY_MS);
    const { removed } = await createCleaner({ storage: scene.storage, idempotencyDays: 1, archiveDays: 100 }).clean();
    expect(removed.idempotency).toBe(1);
  });

  test("what is finished while a run is interrupted is none of its matter", async () => {
    const scene = await handled([1, 2]);
    scene.storage.onCall = ({ method }) => {
      if (method === "commit") throw new Error("the process ends");
    };
    await expect(run(scene)).rejects.toThrow("the process ends");
    scene.storage.onCall = undefined;
    await scene.commit("o-1", [3]);
    await round(scene);
    scene.log.length = 0;
    expect(await run(scene)).toMatchObject({ outcome: "done", events: 2 });
    await round(scene);
    expect(scene.log).toEqual(["audit E1", "audit E2"]);
  });

  test("an audit record tells who, why and which run; the wake-up shows at once", async () => {
    const scene = await handled([1]);
    expect(await scene.storage.wakeUps.receive(32, 60_000)).toHaveLength(1);
    await run(scene, {}, { run: "mine" });
    const records = scene.storage.blobEntries("audit").map(([, { bytes }]) => JSON.parse(new TextDecoder().decode(bytes)) as object);
    expect(records).toMatchObject([
      { ...KIM, action: "replay", outcome: "intended", target: { subscription: "audit", orderId: "o-1", run: "mine" } },
      { ...KIM, action: "replay", outcome: "done: 1 event of 1 order, 0 orders failed" },
    ]);
    const [message] = await scene.storage.wakeUps.receive(1, 1_000);
    expect(message?.text).toBe('"o-1"');
  });
});
