import { describe, expect, test } from "vitest";
import type { ApplicationEntity, TableValue } from "../../src/core/ports.ts";
import type { Decide } from "../../src/producer/order-change.ts";
import { failure, isCommit, orderKey, Scene, steps, type TestWorkflow } from "./support.ts";

/** One step, and rows of the application's own. */
function withRows(...entities: readonly ApplicationEntity[]): Decide<TestWorkflow> {
  return (state) => ({ state: { commits: (state?.commits ?? 0) + 1 }, events: [{ type: "step", data: { n: 1 } }], entities });
}

describe("rows of the application's own in the same transaction (G1)", () => {
  test("inserted, replaced, updated at their etag and deleted together with the order", async () => {
    const scene = new Scene();
    const outbox = scene.outbox();
    await outbox.commit(
      "o-1",
      withRows(
        { action: "insert", rowKey: "line:1", properties: { amount: 5 } },
        { action: "upsert", rowKey: "line:2", properties: { amount: 1, note: "old" } },
        { action: "insert", rowKey: "line:3" },
      ),
    );
    const etag = (await outbox.readEntity("o-1", "line:1"))?.etag ?? expect.fail();
    await outbox.commit(
      "o-1",
      withRows(
        { action: "update", rowKey: "line:1", etag, properties: { amount: 6 } },
        { action: "upsert", rowKey: "line:2", properties: { amount: 2 } },
        { action: "delete", rowKey: "line:3" },
      ),
    );
    expect(scene.storage.calls.filter(isCommit)).toHaveLength(2);
    expect((await outbox.readEntity("o-1", "line:1"))?.properties).toEqual({ amount: 6 });
    // Replaced as a whole: what is left out is cleared (C25).
    expect((await outbox.readEntity("o-1", "line:2"))?.properties).toEqual({ amount: 2 });
    expect(await outbox.readEntity("o-1", "line:3")).toBeUndefined();
  });

  test("every scalar comes back as it was", async () => {
    const scene = new Scene();
    const properties = {
      text: "caf\u00E9 \u{1F4E6}",
      empty: "",
      number: 1.5,
      whole: 5,
      big: 2n ** 60n,
      yes: true,
      at: new Date(1_000),
      bytes: Uint8Array.of(0, 255),
    };
    await scene.outbox().commit("o-1", withRows({ action: "insert", rowKey: "line:1", properties }));
    expect((await scene.outbox().readEntity("o-1", "line:1"))?.properties).toEqual(properties);
  });

  test.each<[string, ApplicationEntity, "already-exists" | "precondition-failed"]>([
    ["an insert of a row that exists", { action: "insert", rowKey: "line:1" }, "already-exists"],
    ["an update at a stale etag (C04)", { action: "update", rowKey: "line:1", etag: '"0x1"' }, "precondition-failed"],
    ["an update of a row that is gone", { action: "update", rowKey: "line:9", etag: '"0x1"' }, "precondition-failed"],
    ["a delete of a row that is gone", { action: "delete", rowKey: "line:9" }, "precondition-failed"],
  ])("%s is the caller's matter: the error names the row, nothing is written, nothing is tried again", async (_name, entity, code) => {
    for (const options of [{}, { idempotencyKey: "key" }]) {
      const scene = new Scene();
      const outbox = scene.outbox();
      await outbox.commit("o-1", withRows({ action: "insert", rowKey: "line:1" }, { action: "insert", rowKey: "line:2" }));
      const rows = scene.storage.rows(orderKey());
      scene.storage.forgetCalls();
      const error = await failure(outbox.commit("o-1", withRows({ action: "upsert", rowKey: "line:2" }, entity), options), code);
      expect(error.message).toContain(entity.rowKey);
      expect(scene.storage.rows(orderKey())).toEqual(rows);
      expect(scene.storage.calls.filter(isCommit)).toHaveLength(1);
    }
  });

  test("a conflict of the order itself is decided again, even with own rows around", async () => {
    const scene = new Scene();
    let decisions = 0;
    await scene.outbox().commit("o-1", async (state, order) => {
      decisions += 1;
      if (decisions === 1) await scene.outbox().commit("o-1", steps(9));
      return withRows({ action: "insert", rowKey: "line:1" })(state, order);
    });
    expect(decisions).toBe(2);
  });

  test.each(["order", "orders", "outbox:01JZ0000000000000000000001", "outbox:x", "idempotency:x"])(
    "the row %s belongs to the outbox: refused, nothing is written",
    async (rowKey) => {
      for (const action of ["insert", "upsert", "update", "delete"] as const) {
        const scene = new Scene();
        const error = await failure(scene.outbox().commit("o-1", withRows({ action, rowKey, etag: '"0x1"' })), "invalid-option");
        expect(error.message).toContain(rowKey);
        expect(scene.storage.rows(orderKey())).toEqual([]);
        expect(scene.storage.messages()).toEqual([]);
      }
    },
  );

  test.each<[string, unknown]>([
    ["NaN", Number.NaN],
    ["null", null],
    ["undefined", undefined],
    ["an object", { a: 1 }],
    ["an empty object", {}],
    ["a list", [1]],
    ["a typed value", { type: "Int64", value: "5" }],
    ["-0", -0],
    ["an invalid date", new Date(Number.NaN)],
    ["a bigint beyond Int64", 2n ** 63n],
    ["half of a surrogate pair", "\uD83D"],
  ])("C6, C25: %s as a property is refused with its name, nothing is written", async (_name, value) => {
    const scene = new Scene();
    const properties = { price: value as TableValue };
    const error = await failure(
      scene.outbox().commit("o-1", withRows({ action: "upsert", rowKey: "line:1", properties })),
      "invalid-state",
    );
    expect(error.message).toContain("price");
    expect(scene.storage.rows(orderKey())).toEqual([]);
    expect(scene.storage.messages()).toEqual([]);
  });

  test("C04: an update without its etag is refused", async () => {
    const scene = new Scene();
    for (const etag of [undefined, "", "*"]) {
      await failure(
        scene.outbox().commit("o-1", withRows({ action: "update", rowKey: "line:1", ...(etag === undefined ? {} : { etag }) })),
        "invalid-state",
      );
    }
    expect(scene.storage.rows(orderKey())).toEqual([]);
  });

  test("a row refused late takes the payloads that were stored before it along", async () => {
    const scene = new Scene();
    const decide: Decide<TestWorkflow> = () => ({
      state: { commits: 1 },
      events: [{ type: "document", data: "x".repeat(400_000) }],
      entities: [{ action: "insert", rowKey: "a/b" }],
    });
    await failure(scene.outbox().commit("o-1", decide), "invalid-state");
    expect(scene.storage.blobEntries("payloads")).toEqual([]);
    expect(scene.storage.rows(orderKey())).toEqual([]);
  });
});
