import { describe, expect, test } from "vitest";
import { OutboxError } from "../../src/core/errors.ts";
import type { OrderTransaction } from "../../src/core/ports.ts";
import type { CommitOptions } from "../../src/producer/order-change.ts";
import type { PortCall } from "../support/memory-storage.ts";
import { commitTokenOf, expectDense, failure, isCommit, orderKey, Scene, steps, transactionOf } from "./support.ts";

const noAnswer = (): never => {
  throw new OutboxError("timeout", "no answer");
};

function isRead({ port, method }: PortCall): boolean {
  return port === "orders" && method === "readOrder";
}

/** A producer whose transactions vanish: they are kept here and may land late. Reads after a transaction fail too if `blind`. */
async function commitInTheDark(
  scene: Scene,
  options: CommitOptions = {},
  blind = true,
): Promise<{ readonly error: OutboxError; readonly sent: OrderTransaction }> {
  const sent: OrderTransaction[] = [];
  scene.storage.onCall = (call) => {
    if (isCommit(call)) {
      sent.push(transactionOf(call));
      noAnswer();
    }
    if (blind && sent.length > 0 && isRead(call)) noAnswer();
  };
  const error = await failure(scene.outbox().commit("o-1", steps(1, 2), options), "outcome-unknown");
  scene.storage.onCall = undefined;
  const [first] = sent;
  return { error, sent: first ?? expect.fail("no transaction was sent") };
}

describe("no answer at all (C3)", () => {
  test("C3: the answer is found by reading: the transaction had landed", async () => {
    const scene = new Scene();
    scene.storage.onCall = (call) => (isCommit(call) ? { after: noAnswer } : undefined);
    const result = await scene.outbox().commit("o-1", steps(1));
    expect(result).toMatchObject({ sequence: 1, repeated: false });
    expectDense(scene.stored(), 1);
    expect(scene.storage.calls.filter(isCommit)).toHaveLength(1);
    expect(scene.storage.messages()).toMatchObject([{ hiddenForMs: 0 }]);
  });

  test("C3: the answer is found by reading: it had not, and the same transaction is sent again with the same ids", async () => {
    const scene = new Scene();
    const sent: OrderTransaction[] = [];
    scene.storage.onCall = (call) => {
      if (isCommit(call) && sent.push(transactionOf(call)) < 3) noAnswer();
    };
    const result = await scene.outbox().commit("o-1", steps(1));
    expect(sent).toHaveLength(3);
    expect(new Set(sent.map((transaction) => JSON.stringify(transaction))).size).toBe(1);
    expect(result.events[0]?.id).toBe(sent[0]?.outbox[0]?.id);
    expectDense(scene.stored(), 1);
  });

  test("C3: neither transaction nor reading is answered: outcome-unknown with a commitToken; the hidden wake-up stays", async () => {
    const scene = new Scene();
    const { error } = await commitInTheDark(scene);
    expect(commitTokenOf(error)).toMatch(/^[A-Za-z0-9_-]+$/);
    expect(scene.storage.messages()).toMatchObject([{ text: '"o-1"', hiddenForMs: 60_000 }]);
  });

  test("C3: reading says no, but the transaction may still be on its way: outcome-unknown after three tries", async () => {
    const scene = new Scene();
    await commitInTheDark(scene, {}, false);
    expect(scene.storage.calls.filter(isCommit)).toHaveLength(3);
  });

  test("C3: a refusal after an unanswered try says nothing about that try: outcome-unknown, its payload stays", async () => {
    const scene = new Scene();
    let sent: OrderTransaction | undefined;
    scene.storage.onCall = (call) => {
      if (!isCommit(call)) return;
      if (sent !== undefined) throw new OutboxError("forbidden", "the credential expired");
      sent = transactionOf(call);
      noAnswer();
    };
    const outbox = scene.outbox();
    const decide = () => ({ state: { commits: 1 }, events: [{ type: "document" as const, data: "x".repeat(400_000) }] });
    const error = await failure(outbox.commit("o-1", decide), "outcome-unknown");
    scene.storage.onCall = undefined;
    await scene.storage.orders.commit(sent ?? expect.fail("no transaction was sent"));
    expect(scene.storage.blobEntries("payloads").map(([name]) => name)).toEqual([scene.stored().outbox[0]?.payloadBlob]);
    expect(await outbox.commit("o-1", decide, { commitToken: commitTokenOf(error) })).toMatchObject({ sequence: 1, repeated: true });
  });

  test("a token that is none is refused", async () => {
    await failure(new Scene().outbox().commit("o-1", steps(1), { commitToken: "hello" }), "invalid-option");
  });
});

describe("repeating a commit of unknown outcome never doubles it (C3)", () => {
  const ways = [
    ["commitToken", (error: OutboxError): CommitOptions => ({ commitToken: commitTokenOf(error) })],
    ["idempotencyKey", (): CommitOptions => ({ idempotencyKey: "command-1" })],
  ] as const;
  const landings = [
    "before the repetition",
    "while the repetition decides",
    "while the repetition's transaction is under way",
    "after the repetition",
    "never",
  ] as const;
  const cases = ways.flatMap(([way, options]) =>
    landings.flatMap((landing) => [false, true].map((existing) => ({ way, options, landing, existing }))),
  );

  test.each(cases)("with $way, when it lands $landing (existing order: $existing)", async ({ way, options, landing, existing }) => {
    const scene = new Scene();
    const before = existing ? 1 : 0;
    if (existing) await scene.outbox().commit("o-1", steps(0));
    const { error, sent } = await commitInTheDark(scene, way === "idempotencyKey" ? { idempotencyKey: "command-1" } : {});
    const land = (): Promise<void> => scene.storage.orders.commit(sent);

    if (landing === "before the repetition") await land();
    let landed = false;
    scene.storage.onCall = async (call) => {
      if (landing !== "while the repetition's transaction is under way" || landed || !isCommit(call)) return;
      landed = true;
      await land();
    };
    const result = await scene.outbox({ maxConflicts: 0 }).commit(
      "o-1",
      async (state, order) => {
        if (landing === "while the repetition decides" && order.sequence === before) await land();
        return steps(1, 2)(state, order);
      },
      options(error),
    );
    scene.storage.onCall = undefined;
    if (landing === "after the repetition") await failure(land(), existing ? "precondition-failed" : "already-exists");

    expectDense(scene.stored(), before + 2);
    expect(result.events.map(({ id }) => id)).toEqual(
      scene
        .stored()
        .outbox.slice(before)
        .map(({ id }) => id),
    );
    expect(result.sequence).toBe(before + 2);
    expect(result.repeated).toBe(landing !== "never" && landing !== "after the repetition");
    expect(JSON.parse(scene.stored().order?.state ?? "null")).toEqual({ commits: before + 1 });
  });

  test.each([0, 1])("attempts add up: after two unknown outcomes, attempt %d landing late is recognised", async (which) => {
    const scene = new Scene();
    const first = await commitInTheDark(scene);
    const second = await commitInTheDark(scene, { commitToken: commitTokenOf(first.error) });
    await scene.storage.orders.commit([first, second][which]?.sent ?? expect.fail());
    const result = await scene.outbox().commit("o-1", steps(1, 2), { commitToken: commitTokenOf(second.error) });
    expect(result.repeated).toBe(true);
    expectDense(scene.stored(), 2);
    expect(result.events.map(({ id }) => id)).toEqual(scene.stored().outbox.map(({ id }) => id));
  });

  test("a landed commit behind more than 16 others and without a trace stays unknown, with a token to ask again", async () => {
    const scene = new Scene();
    const { error, sent } = await commitInTheDark(scene);
    await scene.storage.orders.commit(sent);
    for (let n = 0; n < 17; n++) await scene.outbox().commit("o-1", steps(n));
    for (const { id } of sent.outbox) scene.storage.deleteRow(orderKey(), `outbox:${id}`);
    const again = await failure(scene.outbox().commit("o-1", steps(1, 2), { commitToken: commitTokenOf(error) }), "outcome-unknown");
    expect(commitTokenOf(again)).toBe(commitTokenOf(error));
    expect(scene.stored().order?.sequence).toBe(19);
  });
});

describe("the caller gives up (C3, C8)", () => {
  test.each([true, false])("an abort while the transaction is under way is resolved by reading (landed: %s)", async (landed) => {
    const scene = new Scene();
    const controller = new AbortController();
    scene.storage.onCall = (call) => {
      if (!isCommit(call)) return undefined;
      const giveUp = (): never => {
        controller.abort(new Error("enough"));
        throw new OutboxError("aborted", "the caller gave up");
      };
      return landed ? { after: giveUp } : giveUp();
    };
    const commit = scene.outbox().commit("o-1", steps(1), { signal: controller.signal });
    if (landed) expect(await commit).toMatchObject({ sequence: 1, repeated: false });
    else commitTokenOf(await failure(commit, "outcome-unknown"));
    expect(scene.stored().outbox).toHaveLength(landed ? 1 : 0);
  });

  test.each(["before the call", "while it decides"])("an abort %s is aborted: nothing was sent, nothing is left", async (when) => {
    const scene = new Scene();
    const controller = new AbortController();
    if (when === "before the call") controller.abort();
    const commit = scene.outbox().commit(
      "o-1",
      (state, order) => {
        controller.abort();
        return steps(1)(state, order);
      },
      { signal: controller.signal },
    );
    await failure(commit, "aborted");
    expect(scene.storage.calls.filter(isCommit)).toEqual([]);
    expect(scene.storage.messages()).toEqual([]);
  });
});
