import { describe, expect, test } from "vitest";
import type { OutboxOptions } from "../../src/producer/outbox.ts";
import { expectDense, expectReported, failure, isCommit, orderKey, Scene, steps, type TestWorkflow } from "./support.ts";

const goodbye = () => ({ events: [{ type: "step" as const, data: { n: 99 } }] });

describe("deleting an order leaves a tombstone (C7)", () => {
  test("C7: the delete and its event are one transaction; the tombstone keeps sequence and last id", async () => {
    const scene = new Scene();
    const outbox = scene.outbox();
    await outbox.commit("o-1", steps(1, 2));
    const result = await outbox.delete("o-1", goodbye);
    expect(result.sequence).toBe(3);
    expectDense(scene.stored(), 3);
    expect(scene.stored().order).toMatchObject({ state: undefined, sequence: 3, lastEventId: result.events[0]?.id });
    expect(await outbox.read("o-1")).toEqual({ orderId: "o-1", state: undefined, sequence: 3, lastEventId: result.events[0]?.id });
  });

  test("C7: a recreated order continues the sequence with growing ids, even by a clock that went back", async () => {
    const scene = new Scene();
    const outbox = scene.outbox();
    const first = await outbox.commit("o-1", steps(1, 2));
    const second = await outbox.delete("o-1", goodbye);
    scene.clock.setNow(scene.clock.now() - 3_600_000);
    const seen: unknown[] = [];
    const third = await outbox.commit("o-1", (state, order) => {
      seen.push(state, order.sequence);
      return steps(3)(state, order);
    });
    expect(seen).toEqual([undefined, 3]);
    expectDense(scene.stored(), 4);
    expectReported(scene.stored(), first, second, third);
    expect(scene.stored().order?.state).toBe('{"commits":1}');
  });

  test("C7: a delete without an event keeps the sequence too", async () => {
    const scene = new Scene();
    const outbox = scene.outbox();
    await outbox.commit("o-1", steps(1));
    await outbox.delete("o-1", () => ({ events: [] }));
    expect(scene.stored().order).toMatchObject({ state: undefined, sequence: 1 });
    await outbox.commit("o-1", steps(2));
    expectDense(scene.stored(), 2);
  });

  test.each(["never there", "deleted already"])("deleting an order that was %s is not-found, nothing is written", async (name) => {
    const scene = new Scene();
    const outbox = scene.outbox();
    if (name === "deleted already") {
      await outbox.commit("o-1", steps(1));
      await outbox.delete("o-1", goodbye);
    }
    const rows = scene.storage.rows(orderKey());
    await failure(outbox.delete("o-1", goodbye), "not-found");
    expect(scene.storage.rows(orderKey())).toEqual(rows);
  });

  test("C04, C7: a delete carries the etag: a change in between is seen, not deleted unseen", async () => {
    const scene = new Scene();
    const outbox = scene.outbox();
    await outbox.commit("o-1", steps(1));
    let disturbed = false;
    scene.storage.onCall = async (call) => {
      if (disturbed || !isCommit(call)) return;
      disturbed = true;
      await scene.outbox().commit("o-1", steps(2));
    };
    const seen: unknown[] = [];
    await outbox.delete("o-1", ({ state }) => {
      seen.push(state?.commits);
      return goodbye();
    });
    expect(seen).toEqual([1, 2]);
    expectDense(scene.stored(), 3);
  });
});

describe("expectedSequence", () => {
  test("a commit at the expected sequence goes through, any other is refused and writes nothing", async () => {
    const scene = new Scene();
    const outbox = scene.outbox();
    await outbox.commit("o-1", steps(1, 2), { expectedSequence: 0 });
    for (const expectedSequence of [0, 1, 3]) await failure(outbox.commit("o-1", steps(3), { expectedSequence }), "sequence-mismatch");
    await outbox.commit("o-1", steps(3), { expectedSequence: 2 });
    expectDense(scene.stored(), 3);
  });

  test("another writer in between is a mismatch, not a second decision", async () => {
    const scene = new Scene();
    const rival = scene.outbox();
    let decisions = 0;
    const commit = scene.outbox().commit(
      "o-1",
      async (state, order) => {
        decisions += 1;
        await rival.commit("o-1", steps(1));
        return steps(2)(state, order);
      },
      { expectedSequence: 0 },
    );
    await failure(commit, "sequence-mismatch");
    expect(decisions).toBe(1);
    expect(scene.steps()).toEqual([{ n: 1 }]);
  });

  test.each([-1, 0.5, Number.NaN, "1"])("%j is refused", async (expectedSequence) => {
    await failure(new Scene().outbox().commit("o-1", steps(1), { expectedSequence: expectedSequence as number }), "invalid-option");
  });
});

describe("what can't be right is refused before any call", () => {
  test.each<[string, Partial<OutboxOptions<TestWorkflow>>]>([
    ["safetyDelayMs", { safetyDelayMs: 4_999 }],
    ["safetyDelayMs", { safetyDelayMs: 3_600_001 }],
    ["wakeUpTimeoutMs", { wakeUpTimeoutMs: 99 }],
    ["maxConflicts", { maxConflicts: -1 }],
    ["maxConflicts", { maxConflicts: 1.5 }],
  ])("%s of %j", (name, options) => {
    expect(() => new Scene().outbox(options)).toThrow(`invalid-option: ${name}`);
  });

  test.each(["", "a".repeat(129), "\uD83D"])("the order id %j", async (orderId) => {
    const scene = new Scene();
    const outbox = scene.outbox();
    await failure(outbox.commit(orderId, steps(1)), "invalid-order-id");
    await failure(outbox.delete(orderId, goodbye), "invalid-order-id");
    await failure(outbox.read(orderId), "invalid-order-id");
    expect(scene.storage.calls).toEqual([]);
  });

  test("a traceparent that is none; a good one is carried", async () => {
    const scene = new Scene();
    await failure(scene.outbox().commit("o-1", steps(1), { traceparent: "00-x" }), "invalid-option");
    expect(scene.storage.calls).toEqual([]);
    const traceparent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
    await scene.outbox().commit("o-1", steps(1), { traceparent });
    expect(scene.stored().outbox[0]?.text).toContain(`"traceparent":"${traceparent}"`);
  });

  test("an order that never was reads as undefined", async () => {
    expect(await new Scene().outbox().read("o-1")).toBeUndefined();
  });
});
