import { describe, expect, test } from "vitest";
import { idempotencyRow } from "../../src/core/names.ts";
import { OutboxError } from "../../src/core/errors.ts";
import { expectDense, failure, isCommit, orderKey, Scene, steps } from "./support.ts";

describe("a command with an idempotencyKey is done once (C3)", () => {
  test("a repetition gets the first one's result and decides nothing", async () => {
    const scene = new Scene();
    const outbox = scene.outbox();
    const first = await outbox.commit("o-1", steps(1, 2), { idempotencyKey: "pay" });
    await outbox.commit("o-1", steps(3));
    const again = await outbox.commit("o-1", () => expect.fail("decided again"), { idempotencyKey: "pay" });
    expect(first.repeated).toBe(false);
    expect(again).toEqual({ ...first, repeated: true });
    expectDense(scene.stored(), 3);
    // Visible ones of the two commits. That of the repetition stays hidden: the first producer may have died with the queue down.
    expect(scene.storage.messages().map(({ hiddenForMs }) => hiddenForMs)).toEqual([0, 0, 60_000]);
  });

  test("a repetition is answered even if it expects another sequence by now", async () => {
    const scene = new Scene();
    const options = { idempotencyKey: "pay", expectedSequence: 0 };
    await scene.outbox().commit("o-1", steps(1), options);
    expect(await scene.outbox().commit("o-1", steps(1), options)).toMatchObject({ repeated: true, sequence: 1 });
  });

  test.each([0, 20])(
    "two producers at once with the same key: one commits, the other gets its result (maxConflicts %d)",
    async (maxConflicts) => {
      const scene = new Scene();
      const options = { idempotencyKey: "pay" };
      const results = await Promise.all([1, 2].map((n) => scene.outbox({ maxConflicts }).commit("o-1", steps(n, n), options)));
      expectDense(scene.stored(), 2);
      expect(results.filter(({ repeated }) => repeated)).toHaveLength(1);
      expect(results[0]?.events).toEqual(results[1]?.events);
      expect(results[0]?.events.map(({ id }) => id)).toEqual(scene.stored().outbox.map(({ id }) => id));
    },
  );

  test("ten producers at once with one key each of two keys: each key is done once", async () => {
    const scene = new Scene();
    const commits = Array.from({ length: 10 }, (_, index) =>
      scene.outbox().commit("o-1", steps(index), { idempotencyKey: `key-${index % 2}` }),
    );
    const results = await Promise.all(commits);
    expectDense(scene.stored(), 2);
    expect(results.filter(({ repeated }) => !repeated)).toHaveLength(2);
  });

  test("a repetition that read before the first one landed runs into its row, and is answered", async () => {
    const scene = new Scene();
    const first = scene.outbox();
    let landed = false;
    scene.storage.onCall = async (call) => {
      // The row was read before, the order entity is read after the first one's transaction: the etag alone would not stop it.
      if (landed || call.method !== "readOrder") return;
      landed = true;
      await scene.storage.orders.readIdempotency(orderKey(), idempotencyRow("pay"));
      await first.commit("o-1", steps(1), { idempotencyKey: "pay" });
    };
    const result = await scene.outbox().commit("o-1", steps(1), { idempotencyKey: "pay" });
    expect(result.repeated).toBe(true);
    expectDense(scene.stored(), 1);
  });

  test("another key, or the same key of another order, is another command", async () => {
    const scene = new Scene();
    const outbox = scene.outbox();
    await outbox.commit("o-1", steps(1), { idempotencyKey: "a/b" });
    await outbox.commit("o-1", steps(2), { idempotencyKey: "a%2Fb" });
    await outbox.commit("o-2", steps(3), { idempotencyKey: "a/b" });
    expectDense(scene.stored(), 2);
    expectDense(scene.stored("o-2"), 1);
  });

  test("a refused command leaves no result behind: the same key can be tried again", async () => {
    const scene = new Scene();
    const outbox = scene.outbox();
    await failure(outbox.commit("o-1", steps(1), { idempotencyKey: "pay", expectedSequence: 5 }), "sequence-mismatch");
    expect(await outbox.commit("o-1", steps(1), { idempotencyKey: "pay" })).toMatchObject({ repeated: false, sequence: 1 });
  });

  test("an answer that is lost is found by the key as well", async () => {
    const scene = new Scene();
    let blind = false;
    scene.storage.onCall = (call) => {
      if (blind && call.method === "readOrder") throw new OutboxError("timeout", "no answer");
      if (!isCommit(call)) return undefined;
      blind = true;
      return "lose-response";
    };
    await failure(scene.outbox().commit("o-1", steps(1), { idempotencyKey: "pay" }), "outcome-unknown");
    scene.storage.onCall = undefined;
    expect(await scene.outbox().commit("o-1", steps(1), { idempotencyKey: "pay" })).toMatchObject({ repeated: true, sequence: 1 });
    expectDense(scene.stored(), 1);
  });

  test.each(["", "a".repeat(121), "\uD83D"])("the key %j is refused before any call", async (idempotencyKey) => {
    const scene = new Scene();
    await failure(scene.outbox().commit("o-1", steps(1), { idempotencyKey }), "invalid-option");
    expect(scene.storage.calls).toEqual([]);
  });

  test("a stored result that something else broke is corrupt", async () => {
    const scene = new Scene();
    scene.storage.putRow(orderKey(), idempotencyRow("pay"), { result: "{" });
    await failure(scene.outbox().commit("o-1", steps(1), { idempotencyKey: "pay" }), "corrupt");
    expect(scene.stored().outbox).toEqual([]);
  });
});
