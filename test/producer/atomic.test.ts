import { describe, expect, test } from "vitest";
import { OutboxError } from "../../src/core/errors.ts";
import { rawJson } from "../../src/core/json.ts";
import { MAX_TRANSACTION_OPERATIONS } from "../../src/core/limits.ts";
import type { Decide } from "../../src/producer/order-change.ts";
import { expectDense, failure, isCommit, orderKey, Scene, steps, type TestWorkflow } from "./support.ts";

/** A commit that must be refused: no row, no blob, no message is left, and no transaction was tried. */
function expectNothingWritten(scene: Scene): void {
  expect(scene.storage.calls.filter(isCommit)).toEqual([]);
  expect(scene.storage.rows(orderKey())).toEqual([]);
  expect(scene.storage.blobEntries("payloads")).toEqual([]);
  expect(scene.storage.messages()).toEqual([]);
}

const many = (count: number): number[] => Array.from({ length: count }, (_, index) => index + 1);

describe("together or not at all (G1)", () => {
  test("G1: state and events are written by one transaction", async () => {
    const scene = new Scene();
    await scene.outbox().commit("o-1", steps(1, 2));
    expect(scene.storage.rows(orderKey()).map(({ rowKey }) => rowKey.split(":")[0])).toEqual(["order", "outbox", "outbox"]);
    expect(scene.storage.calls.filter(isCommit)).toHaveLength(1);
  });

  test.each(["unavailable", "timeout"] as const)(
    "G1: a transaction that was never applied leaves nothing, even after repeats (%s)",
    async (code) => {
      const scene = new Scene();
      scene.storage.onCall = (call) => {
        if (isCommit(call)) throw new OutboxError(code, "no answer");
      };
      await failure(scene.outbox().commit("o-1", steps(1)), "outcome-unknown");
      expect(scene.storage.rows(orderKey())).toEqual([]);
    },
  );

  test("G1: a refusal by the service is passed on, nothing is left", async () => {
    const scene = new Scene();
    scene.storage.onCall = (call) => {
      if (isCommit(call)) throw new OutboxError("forbidden", "no role");
    };
    await failure(scene.outbox().commit("o-1", steps(1)), "forbidden");
    expect(scene.storage.rows(orderKey())).toEqual([]);
    expect(scene.storage.messages()).toEqual([]);
  });

  test("what decide throws is passed on as it is, nothing is written", async () => {
    const scene = new Scene();
    const error = new Error("out of stock");
    await expect(
      scene.outbox().commit("o-1", () => {
        throw error;
      }),
    ).rejects.toBe(error);
    expectNothingWritten(scene);
  });

  test("a decision for no change writes nothing and reports the order as it is", async () => {
    const scene = new Scene();
    expect(await scene.outbox().commit("o-1", () => undefined)).toEqual({ sequence: 0, events: [], repeated: false });
    expectNothingWritten(scene);
    await scene.outbox().commit("o-1", steps(1, 2));
    const rows = scene.storage.rows(orderKey());
    expect(await scene.outbox().commit("o-1", () => undefined)).toEqual({ sequence: 2, events: [], repeated: false });
    expect(scene.storage.rows(orderKey())).toEqual(rows);
  });

  test("a change without events is stored, keeps sequence and last id", async () => {
    const scene = new Scene();
    await scene.outbox().commit("o-1", steps(1, 2));
    const { lastEventId } = scene.stored().order ?? {};
    expect(await scene.outbox().commit("o-1", steps())).toEqual({ sequence: 2, events: [], repeated: false });
    expectDense(scene.stored(), 2);
    expect(scene.stored().order).toMatchObject({ lastEventId, state: '{"commits":2}' });
  });
});

describe("never two transactions (C5)", () => {
  test("C5: 100 operations are one transaction", async () => {
    const scene = new Scene();
    await scene.outbox().commit("o-1", steps(...many(MAX_TRANSACTION_OPERATIONS - 1)));
    expectDense(scene.stored(), 99);
    expect(scene.storage.calls.filter(isCommit)).toHaveLength(1);
  });

  test.each<[string, Decide<TestWorkflow>, string | undefined]>([
    ["100 events and the order", steps(...many(100)), undefined],
    ["99 events, the order and an idempotency row", steps(...many(99)), "key"],
    [
      "98 events, the order and two rows",
      () => ({
        state: { commits: 1 },
        events: many(98).map((n) => ({ type: "step" as const, data: { n } })),
        entities: ["a", "b"].map((rowKey) => ({ action: "upsert" as const, rowKey })),
      }),
      undefined,
    ],
  ])("C5: %s are refused with the limit, nothing is written", async (_name, decide, idempotencyKey) => {
    const scene = new Scene();
    const error = await failure(scene.outbox().commit("o-1", decide, idempotencyKey === undefined ? {} : { idempotencyKey }), "too-large");
    expect(error.message).toContain("100");
    expectNothingWritten(scene);
  });

  test("C5, C26: a state that does not fit the entity is refused, nothing is written", async () => {
    const scene = new Scene();
    await failure(
      scene.outbox().commit("o-1", () => ({ state: { commits: 1, note: "x".repeat(600_000) }, events: [] })),
      "too-large",
    );
    expectNothingWritten(scene);
  });
});

describe("no silent loss (C6, C25)", () => {
  const lossy: readonly (readonly [string, unknown])[] = [
    ["NaN", Number.NaN],
    ["Infinity", Number.POSITIVE_INFINITY],
    ["-0", -0],
    ["undefined inside", { a: undefined }],
    ["a bigint", 5n],
    ["a date", new Date(0)],
    ["an invalid date", new Date(Number.NaN)],
    ["a buffer", Buffer.from("x")],
    ["half of a surrogate pair", "\uD83D"],
  ];

  test.each(lossy)("C6: %s in an event is refused with invalid-event, nothing is written", async (_name, value) => {
    const scene = new Scene();
    const error = await failure(
      scene.outbox().commit("o-1", () => ({ state: { commits: 1 }, events: [{ type: "document", data: { value } }] })),
      "invalid-event",
    );
    expect(error.message).toContain("o-1");
    expectNothingWritten(scene);
  });

  test.each(lossy)("C6: %s in the state is refused with invalid-state, nothing is written", async (_name, value) => {
    const scene = new Scene();
    const error = await failure(
      scene.outbox().commit("o-1", () => ({ state: { commits: 1, note: { value } }, events: [] })),
      "invalid-state",
    );
    expect(error.message).toContain("note.value");
    expectNothingWritten(scene);
  });

  test("what does not fit the workflow's schemas is refused, nothing is written", async () => {
    const scene = new Scene();
    const outbox = scene.outbox();
    const wrong = { n: "1" } as unknown as { n: number };
    await failure(
      outbox.commit("o-1", () => ({ state: { commits: 1 }, events: [{ type: "step", data: wrong }] })),
      "invalid-event",
    );
    await failure(
      outbox.commit("o-1", () => ({ state: wrong as unknown as { commits: number }, events: [] })),
      "invalid-state",
    );
    for (const type of ["lost", "toString", "__proto__"]) {
      await failure(
        outbox.commit("o-1", () => ({ state: { commits: 1 }, events: [{ type: type as "step", data: { n: 1 } }] })),
        "unknown-event-type",
      );
    }
    expectNothingWritten(scene);
  });

  test.each(["yesterday", "5 Jan 2026", "2026-01-05", "2026-01-05T08:00:00", "2026-13-05T08:00:00Z", "", new Date(Number.NaN)])(
    "the time %j is refused: CloudEvents wants RFC 3339",
    async (time) => {
      const scene = new Scene();
      await failure(
        scene.outbox().commit("o-1", () => ({ state: { commits: 1 }, events: [{ type: "step", data: { n: 1 }, time }] })),
        "invalid-event",
      );
      expectNothingWritten(scene);
    },
  );

  test("event texts carry the caller's time and JSON as they are, and the clock's time by default", async () => {
    const scene = new Scene();
    const time = "2005-04-03T20:33:31.116-06:00";
    await scene.outbox().commit("o-1", () => ({
      state: { commits: 1 },
      events: [
        { type: "document", data: rawJson(' {"id":9007199254740993,"total":1.0} '), time },
        { type: "document", data: { a: 1 } },
        { type: "document", data: null, time: new Date(0) },
      ],
    }));
    const texts = scene.stored().outbox.map(({ text }) => text ?? "");
    expect(texts[0]?.endsWith(',"data": {"id":9007199254740993,"total":1.0} }')).toBe(true);
    expect(texts.map((text) => (JSON.parse(text) as { time: string }).time)).toEqual([
      time,
      new Date(scene.clock.now()).toISOString(),
      "1970-01-01T00:00:00.000Z",
    ]);
  });

  test("a stored state that something else broke is corrupt, or invalid for the schema of today, and is not overwritten", async () => {
    const scene = new Scene();
    await scene.outbox().commit("o-1", steps(1));
    const row = scene.storage.rows(orderKey())[0]?.properties ?? {};
    scene.storage.putRow(orderKey(), "order", { ...row, state: "{" });
    await failure(scene.outbox().commit("o-1", steps(2)), "corrupt");
    await failure(scene.outbox().read("o-1"), "corrupt");
    scene.storage.putRow(orderKey(), "order", { ...row, state: '{"commits":"many"}' });
    await failure(scene.outbox().commit("o-1", steps(2)), "invalid-state");
    expect(scene.steps()).toEqual([{ n: 1 }]);
  });
});
