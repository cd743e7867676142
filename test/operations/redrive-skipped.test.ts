/** F4, F9: an event that its stream has skipped can be redriven, out of order, when that is asked for. */
import { describe, expect, test } from "vitest";
import { OutboxError } from "../../src/core/errors.ts";
import { PermanentError } from "../../src/core/retry.ts";
import { decideMany, decideOrder } from "../../src/operations/decide-many.ts";
import { listDeadLetters } from "../../src/operations/dead-letters.ts";
import { dismiss } from "../../src/operations/dismiss.ts";
import { showOrder } from "../../src/operations/show-order.ts";
import { verifyOrder } from "../../src/operations/verify.ts";
import { parseOrderId } from "../../src/core/order-id.ts";
import { createCleaner } from "../../src/operations/cleanup.ts";
import { redriveRow } from "../../src/operations/redrive-record.ts";
import type { CommitResult } from "../../src/producer/order-change.ts";
import { createOutbox } from "../../src/producer/outbox.ts";
import { settle } from "../support/manual-clock.ts";
import { key, mortal, Scene, workflow } from "../worker/round-support.ts";

const OPERATOR = { actor: "kim", reason: "the partner wants it after all" };
const ORDER = parseOrderId("o-1");

/** E1 of `erp` was skipped, E2 has run; `mail` has had both. */
async function skipped(): Promise<{ scene: Scene; round: () => Promise<void> }> {
  const scene = new Scene();
  const subscriptions = [scene.subscription("erp", { retry: { onDead: "skip" } }), scene.subscription("mail")];
  scene.onHandle = (entry) => {
    if (entry === "erp E1") throw new PermanentError("no such customer");
  };
  await scene.commit("o-1", [1, 2]);
  const worker = scene.worker(subscriptions);
  await worker.handle("o-1");
  expect(scene.log.toSorted()).toEqual(["erp E1", "erp E2", "mail E1", "mail E2"]);
  scene.onHandle = () => undefined;
  scene.log.length = 0;
  return { scene, round: async () => void (await worker.handle("o-1")) };
}

describe("redrive of a skipped dead letter", () => {
  test("F4: is refused without the flag", async () => {
    const { scene, round } = await skipped();
    const [result] = await decideOrder(scene, "redrive", { orderId: ORDER }, OPERATOR);
    expect(result?.outcome).toBe("skipped");
    await round();
    expect(scene.log).toEqual([]);
  });

  test("F9: with the flag it runs once, for its subscription alone, as a new event that names the old one", async () => {
    const { scene, round } = await skipped();
    const [before] = (await listDeadLetters(scene)).letters;
    const replays: unknown[] = [];
    scene.onEvent = (event) => void replays.push([event.sequence, event.replayOf, event.replayFor]);
    const [result] = await decideOrder(scene, "redrive", { orderId: ORDER }, OPERATOR, { outOfOrder: true });
    expect(result).toMatchObject({ outcome: "recorded" });
    expect(result?.message).toContain("out of order");
    await round();
    await round();
    expect(scene.log).toEqual(["erp E1"]);
    expect(replays).toEqual([[3, before?.id, "erp"]]);
    const erp = (await showOrder(scene, ORDER)).timeline.filter(({ subscription }) => subscription === "erp");
    expect(erp).toMatchObject([
      { sequence: 1, state: "Redriven", redrivenAs: { sequence: 3 }, decision: { action: "redrive", carriedOut: true } },
      { sequence: 2, state: "Sent" },
      { sequence: 3, state: "Sent", redriveOf: { id: before?.id, sequence: 1 } },
    ]);
    expect((await listDeadLetters(scene)).letters).toEqual([]);
    expect((await verifyOrder(scene, ORDER)).findings).toEqual([]);
  });

  test("F4: killed in between and repeated, it is committed once", async () => {
    const { scene, round } = await skipped();
    let down = true;
    scene.storage.onCall = ({ port, method, args }) => {
      if (down && port === "blobs" && method === "delete" && args[0] === "dead") throw new OutboxError("unavailable", "gone");
    };
    await expect(decideOrder(scene, "redrive", { orderId: ORDER }, OPERATOR, { outOfOrder: true })).rejects.toMatchObject({
      code: "unavailable",
    });
    down = false;
    await decideOrder(scene, "redrive", { orderId: ORDER }, OPERATOR, { outOfOrder: true });
    await round();
    expect(scene.log).toEqual(["erp E1"]);
  });

  test("C2: an answer that was lost does not double it", async () => {
    const { scene, round } = await skipped();
    let lost = false;
    scene.storage.onCall = ({ method }) => {
      if (method !== "commit" || lost) return undefined;
      lost = true;
      return "lose-response";
    };
    await scene.until(decideOrder(scene, "redrive", { orderId: ORDER }, OPERATOR, { outOfOrder: true }));
    await round();
    expect(scene.log).toEqual(["erp E1"]);
  });

  test("F4: of a redrive and a discard at once, one is in force", async () => {
    const { scene, round } = await skipped();
    const all = await Promise.all([
      decideMany(scene, "discard", {}, { actor: "bob", reason: "no" }),
      decideMany(scene, "redrive", {}, OPERATOR, { outOfOrder: true }),
    ]);
    const outcomes = all.flatMap(({ results }) => results.map(({ outcome }) => outcome));
    expect(outcomes.filter((outcome) => outcome === "recorded" || outcome === "dismissed")).toHaveLength(1);
    await round();
    expect(scene.log).toHaveLength(outcomes.includes("recorded") ? 1 : 0);
  });

  test("F4: a discard that died before it tidied up stands against a redrive, and the other way round", async () => {
    for (const first of ["discard", "redrive"] as const) {
      const { scene } = await skipped();
      let down = true;
      scene.storage.onCall = ({ port, method, args }) => {
        if (down && port === "blobs" && method === "delete" && args[0] === "dead") throw new OutboxError("unavailable", "gone");
      };
      const decideFirst = decideOrder(scene, first, { orderId: ORDER }, OPERATOR, { outOfOrder: true });
      await expect(decideFirst).rejects.toMatchObject({ code: "unavailable" });
      down = false;
      const other = first === "discard" ? "redrive" : "discard";
      const [result] = await decideOrder(scene, other, { orderId: ORDER }, { actor: "bob", reason: "no" }, { outOfOrder: true });
      expect(result?.outcome).toBe(first === "discard" ? "finished" : "already-decided");
      expect(result?.message).toContain("kim");
      expect((await listDeadLetters(scene)).letters).toHaveLength(1);
    }
  });

  test("F4: who dismisses a letter that another has dismissed meanwhile is told who it was", async () => {
    const { scene } = await skipped();
    const [letter] = (await listDeadLetters(scene)).letters;
    const first = await dismiss(scene, letter!, OPERATOR);
    await scene.clock.advance(1_000);
    const second = await dismiss(scene, letter!, { actor: "lee", reason: "late" });
    expect([first.outcome, second.outcome, second.message]).toEqual([
      "dismissed",
      "finished",
      expect.stringMatching(/^kim took it off the list at 2026-/),
    ]);
  });

  test("the letter stays until the wake-up is sent", async () => {
    const { scene, round } = await skipped();
    let down = true;
    scene.storage.onCall = ({ port }) => {
      if (down && port === "wakeUps") throw new OutboxError("unavailable", "gone");
    };
    const redrive = (): ReturnType<typeof decideMany> => decideMany(scene, "redrive", {}, OPERATOR, { outOfOrder: true });
    expect((await redrive()).results).toMatchObject([{ outcome: "failed", message: expect.stringContaining("wake-up") }]);
    expect((await listDeadLetters(scene)).letters).toHaveLength(1);
    down = false;
    expect((await redrive()).results).toMatchObject([{ outcome: "recorded" }]);
    await round();
    expect(scene.log).toEqual(["erp E1"]);
  });

  test("a letter whose event is lost is neither redriven nor dismissed, and stops no other", async () => {
    const { scene } = await skipped();
    const [name] = scene.storage.blobEntries("archive").find(([each]) => each.startsWith("erp/"))!;
    await scene.storage.blobs.delete("archive", [name]);
    expect((await decideMany(scene, "redrive", {}, OPERATOR, { outOfOrder: true })).results).toMatchObject([{ outcome: "failed" }]);
    expect((await decideMany(scene, "discard", {}, OPERATOR)).results).toMatchObject([
      { outcome: "failed", message: expect.stringContaining("verify") },
    ]);
    expect((await listDeadLetters(scene)).letters).toHaveLength(1);
  });

  test("F4: an operator who dies at any call and repeats the command has it run once, and no letter is left", async () => {
    for (let dieAt = 1; ; dieAt++) {
      const { scene, round } = await skipped();
      let calls = 0;
      let down = true;
      scene.storage.onCall = () => {
        if (down && ++calls >= dieAt) throw new OutboxError("unavailable", "gone");
      };
      const redrive = (): ReturnType<typeof decideMany> => decideMany(scene, "redrive", {}, OPERATOR, { outOfOrder: true });
      await scene.until(redrive().catch(() => undefined));
      const died = calls >= dieAt;
      down = false;
      // No letter left: then the wake-up is on its way.
      const { results } = await redrive();
      expect(results.length === 1 || scene.storage.messages().length > 0).toBe(true);
      await round();
      expect(scene.log).toEqual(["erp E1"]);
      expect((await listDeadLetters(scene)).letters).toEqual([]);
      if (!died) break;
    }
  });

  test("C2: it shares no idempotency key with producers, in neither direction", async () => {
    const { scene, round } = await skipped();
    const [letter] = (await listDeadLetters(scene)).letters;
    const outbox = createOutbox({ workflow, storage: scene.storage, clock: scene.clock });
    const commitE = (n: number, idempotencyKey: string): Promise<CommitResult> =>
      outbox.commit("o-1", (state) => ({ state: state!, events: [{ type: "step", data: { n } }] }), { idempotencyKey });
    const keys = [`redrive:erp:${letter!.id}`, `redrive.erp.${letter!.id}`];
    for (const [index, idempotencyKey] of keys.entries()) await commitE(3 + index, idempotencyKey);
    const [result] = await decideOrder(scene, "redrive", { orderId: ORDER }, OPERATOR, { outOfOrder: true });
    expect(result).toMatchObject({ outcome: "recorded", message: expect.stringContaining("sequence 5") });
    for (const idempotencyKey of keys) expect(await commitE(9, idempotencyKey)).toMatchObject({ repeated: true });
    const later = `redrive:mail:${letter!.id}`;
    expect(await commitE(5, later)).toMatchObject({ repeated: false, sequence: 6 });
    await round();
    expect(scene.log.filter((entry) => entry.startsWith("erp"))).toEqual(["erp E3", "erp E4", "erp E1", "erp E5"]);
    expect((await listDeadLetters(scene)).letters).toEqual([]);
  });

  test("G6: a record of it that something else has changed is told, and nothing is done", async () => {
    const { scene } = await skipped();
    const [letter] = (await listDeadLetters(scene)).letters;
    await scene.storage.orders.insertIdempotency(key("o-1"), redriveRow("erp", letter!.id), '{"sequence":3,"events":[]}');
    const { results } = await decideMany(scene, "redrive", {}, OPERATOR, { outOfOrder: true });
    expect(results).toMatchObject([{ outcome: "failed", message: expect.stringContaining("changed by something else") }]);
    expect((await listDeadLetters(scene)).letters).toHaveLength(1);
  });

  test("F7, C2: repeated however late, it commits its event once", async () => {
    const { scene, round } = await skipped();
    scene.storage.onCall = ({ port }) => {
      if (port === "wakeUps") throw new OutboxError("unavailable", "gone");
    };
    const redrive = (): ReturnType<typeof decideMany> => decideMany(scene, "redrive", {}, OPERATOR, { outOfOrder: true });
    expect((await redrive()).results).toMatchObject([{ outcome: "failed" }]);
    scene.storage.onCall = undefined;
    await round();
    const cleaner = createCleaner({ storage: scene.storage });
    for (let month = 0; month < 3; month++) {
      await scene.clock.advance(30 * 86_400_000);
      expect((await cleaner.clean()).removed.idempotency).toBe(0);
    }
    expect((await redrive()).results).toMatchObject([{ outcome: "recorded" }]);
    await round();
    expect(scene.log).toEqual(["erp E1"]);
    // The letter is gone, nothing can be repeated.
    expect((await cleaner.clean()).removed.idempotency).toBe(1);
  });
});

describe("a redrive that came to nothing", () => {
  const BOB = { actor: "bob", reason: "no" };
  const changing = ({ method }: { readonly method: string }): void => {
    if (method === "commit") throw new OutboxError("precondition-failed", "another writer was faster");
  };

  test("between two tries it waits, longer each time; told to stop, it does not try again", async () => {
    const { scene } = await skipped();
    const tries: number[] = [];
    scene.storage.onCall = (call) => {
      if (call.method === "commit") tries.push(scene.clock.monotonic());
      changing(call);
    };
    const stop = new AbortController();
    const context = { storage: scene.storage, clock: scene.clock, random: () => 0.5, signal: stop.signal };
    const redrive = decideOrder(context, "redrive", { orderId: ORDER }, OPERATOR, { outOfOrder: true });
    const ended = redrive.then(
      (results) => results[0]?.message,
      (error: unknown) => String(error),
    );
    const began = scene.clock.monotonic();
    await scene.clock.advance(40);
    expect(tries.map((at) => at - began)).toEqual([0, 5, 15, 35]);
    stop.abort();
    expect(await ended).toMatch(/redrive of event .* of order o-1 was stopped/);
    expect(scene.clock.pending()).toBe(0);
    expect(tries).toHaveLength(4);
    // Repeated, it goes on.
    scene.storage.onCall = undefined;
    expect(await decideOrder(scene, "redrive", { orderId: ORDER }, OPERATOR, { outOfOrder: true })).toMatchObject([
      { outcome: "recorded" },
    ]);
  });

  test("F4: its letter can be discarded, and the archive tells who did", async () => {
    const { scene, round } = await skipped();
    scene.storage.onCall = changing;
    const failed = await scene.until(decideOrder(scene, "redrive", { orderId: ORDER }, OPERATOR, { outOfOrder: true }));
    expect(failed).toMatchObject([{ outcome: "failed", message: expect.stringMatching(/^conflict: /) }]);
    scene.storage.onCall = undefined;
    expect(await decideOrder(scene, "discard", { orderId: ORDER }, BOB)).toMatchObject([{ outcome: "dismissed" }]);
    expect((await listDeadLetters(scene)).letters).toEqual([]);
    const [, { metadata }] = scene.storage.blobEntries("archive").find(([name]) => name.startsWith("erp/"))!;
    expect(metadata).toMatchObject({ decision: "discard", decidedby: "bob" });
    await round();
    expect(scene.log).toEqual([]);
  });

  test("F4: also of an order that is gone from the table", async () => {
    const { scene } = await skipped();
    scene.storage.deleteRow(key("o-1"), "order");
    const redrive = await decideOrder(scene, "redrive", { orderId: ORDER }, OPERATOR, { outOfOrder: true });
    expect(redrive).toMatchObject([{ outcome: "failed", message: expect.stringMatching(/^not-found: /) }]);
    expect(await decideOrder(scene, "discard", { orderId: ORDER }, BOB)).toMatchObject([{ outcome: "dismissed" }]);
  });

  test("H10: a request of it that arrives after the discard is refused, one that came before is told", async () => {
    for (const first of ["discard", "redrive"] as const) {
      const { scene, round } = await skipped();
      const arrives = Promise.withResolvers<void>();
      scene.storage.onCall = ({ method }) => (method === "commit" ? arrives.promise : undefined);
      const redrive = decideOrder(scene, "redrive", { orderId: ORDER }, OPERATOR, { outOfOrder: true });
      await settle();
      const discard = async (): Promise<unknown> => (await decideMany(scene, "discard", {}, BOB)).results[0]?.outcome;
      if (first === "redrive") {
        const inserted = Promise.withResolvers<void>();
        scene.storage.onCall = ({ method }) => (method === "insertIdempotency" ? inserted.promise : undefined);
        const discarding = discard();
        await settle();
        arrives.resolve();
        expect(await scene.until(redrive)).toMatchObject([{ outcome: "recorded" }]);
        inserted.resolve();
        expect(await discarding).toBe("already-decided");
      } else {
        expect(await discard()).toBe("dismissed");
        arrives.resolve();
        expect(await scene.until(redrive)).toMatchObject([
          { outcome: "finished", message: expect.stringContaining("bob took it off the list") },
        ]);
      }
      await round();
      expect(scene.log).toEqual(first === "redrive" ? ["erp E1"] : []);
    }
  });

  test("H10: a discard of it that meets any fate at any call, repeated", async () => {
    for (const fate of ["dies-before", "dies-after", "loses-response"] as const) {
      for (let at = 1; ; at++) {
        const { scene, round } = await skipped();
        scene.storage.onCall = changing;
        await scene.until(decideMany(scene, "redrive", {}, OPERATOR, { outOfOrder: true }));
        scene.storage.onCall = undefined;
        const { storage, calls } = mortal(scene.storage, at, fate, new OutboxError("unavailable", "gone"));
        void decideMany({ storage, clock: scene.clock }, "discard", {}, BOB).catch(() => undefined);
        await settle();
        if (calls() < at) break;
        const { results } = await decideMany(scene, "discard", {}, BOB);
        for (const { outcome } of results) expect(outcome, `${fate} ${at}`).toBe("dismissed");
        expect((await listDeadLetters(scene)).letters).toEqual([]);
        await round();
        expect(scene.log).toEqual([]);
      }
    }
  });
});
