import { describe, expect, test } from "vitest";
import { OutboxError } from "../../src/core/errors.ts";
import type { Outbox } from "../../src/producer/outbox.ts";
import type { PortCall } from "../support/memory-storage.ts";
import { expectDense, failure, isCommit, Scene, steps, type TestWorkflow } from "./support.ts";

const WAKE_UP = '"o-1"';

/** What the queue looks like when the transaction is sent. */
function watchTransaction(scene: Scene): { messages: ReturnType<Scene["storage"]["messages"]> } {
  const seen: { messages: ReturnType<Scene["storage"]["messages"]> } = { messages: [] };
  scene.storage.onCall = (call) => {
    if (isCommit(call)) seen.messages = scene.storage.messages();
  };
  return seen;
}

describe("the wake-up is sent before the commit and survives the producer (design §4)", () => {
  test("it is hidden for the safety delay at the transaction, and visible with the same text after it", async () => {
    const scene = new Scene();
    const seen = watchTransaction(scene);
    await scene.outbox({ safetyDelayMs: 45_000 }).commit("o-1", steps(1));
    expect(seen.messages).toEqual([{ text: WAKE_UP, hiddenForMs: 45_000, dequeueCount: 0 }]);
    expect(scene.storage.messages()).toEqual([{ text: WAKE_UP, hiddenForMs: 0, dequeueCount: 0 }]);
  });

  test("a producer that dies right after its transaction leaves a wake-up that fires by itself", async () => {
    const scene = new Scene();
    const dead = new Promise<never>(() => undefined);
    const written = Promise.withResolvers<void>();
    scene.storage.onCall = (call) => {
      if (!isCommit(call)) return undefined;
      return {
        after: () => {
          written.resolve();
          return dead;
        },
      };
    };
    void scene.outbox().commit("o-1", steps(1));
    await written.promise;
    expectDense(scene.stored(), 1);
    scene.storage.onCall = undefined;
    await scene.clock.advance(59_000);
    expect(await scene.storage.wakeUps.receive(1, 30_000)).toEqual([]);
    await scene.clock.advance(1_000);
    expect(await scene.storage.wakeUps.receive(1, 30_000)).toMatchObject([{ text: WAKE_UP }]);
  });

  test("a slow decision does not let it fire before there is something to find", async () => {
    const scene = new Scene();
    const seen = watchTransaction(scene);
    await scene.outbox().commit("o-1", (state, order) => {
      scene.clock.skipMonotonic(40_000);
      return steps(1)(state, order);
    });
    expect(seen.messages).toEqual([{ text: WAKE_UP, hiddenForMs: 60_000, dequeueCount: 0 }]);
    expect(scene.storage.messages()).toHaveLength(1);
  });

  test("a quick decision pays nothing for that", async () => {
    const scene = new Scene();
    await scene.outbox().commit("o-1", (state, order) => {
      scene.clock.skipMonotonic(29_000);
      return steps(1)(state, order);
    });
    expect(scene.storage.callCounts()["wakeUps.hide"]).toBe(1);
  });

  test.each(["taken by a worker", "handled and deleted"])(
    "one that fired during the decision and was %s is replaced by a fresh one",
    async (fate) => {
      const scene = new Scene();
      const seen = watchTransaction(scene);
      await scene.outbox().commit("o-1", async (state, order) => {
        scene.clock.skipMonotonic(61_000);
        const [early] = await scene.storage.wakeUps.receive(1, 30_000);
        expect(early?.text).toBe(WAKE_UP);
        if (fate === "handled and deleted" && early !== undefined) await scene.storage.wakeUps.delete(early.receipt);
        return steps(1)(state, order);
      });
      expect(seen.messages).toContainEqual({ text: WAKE_UP, hiddenForMs: 60_000, dequeueCount: 0 });
      expect(scene.storage.messages()).toContainEqual({ text: WAKE_UP, hiddenForMs: 0, dequeueCount: 0 });
    },
  );

  test("one that fired while the transaction was under way is replaced by a visible one", async () => {
    const scene = new Scene();
    scene.storage.onCall = async (call) => {
      if (!isCommit(call)) return;
      scene.clock.skipMonotonic(61_000);
      await scene.storage.wakeUps.receive(1, 30_000);
    };
    await scene.outbox().commit("o-1", steps(1));
    expect(scene.storage.messages()).toEqual([
      { text: WAKE_UP, hiddenForMs: 0, dequeueCount: 0 },
      { text: WAKE_UP, hiddenForMs: 30_000, dequeueCount: 1 },
    ]);
  });
});

describe("no event, no wake-up", () => {
  type Action = (outbox: Outbox<TestWorkflow>) => Promise<unknown>;

  test.each<[string, Action]>([
    ["a change without events", (outbox) => outbox.commit("o-1", steps())],
    ["no change", (outbox) => outbox.commit("o-1", () => undefined)],
  ])("%s takes it back", async (_name, action) => {
    const scene = new Scene();
    await action(scene.outbox());
    expect(scene.storage.messages()).toEqual([]);
  });

  test.each<[string, Action]>([
    ["another sequence than expected", (outbox) => outbox.commit("o-1", steps(1), { expectedSequence: 7 })],
    ["an invalid event", (outbox) => outbox.commit("o-1", steps(Number.NaN))],
    ["too many events", (outbox) => outbox.commit("o-1", steps(...Array.from({ length: 100 }, (_, n) => n)))],
    ["deleting nothing", (outbox) => outbox.delete("o-1", () => ({ events: [] }))],
    ["a decision that throws", (outbox) => outbox.commit("o-1", () => Promise.reject(new OutboxError("bug", "mine")))],
  ])("a commit refused for %s takes it back", async (_name, action) => {
    const scene = new Scene();
    await failure(action(scene.outbox()), "sequence-mismatch", "invalid-event", "too-large", "not-found", "bug");
    expect(scene.storage.messages()).toEqual([]);
    expect(scene.warnings).toEqual([]);
  });

  test("when taking it back fails, that is logged and the caller gets the real reason", async () => {
    const scene = new Scene();
    scene.storage.onCall = ({ port, method }) => {
      if (port === "wakeUps" && method === "delete") throw new OutboxError("unavailable", "the queue is down");
    };
    await failure(scene.outbox().commit("o-1", steps(1), { expectedSequence: 7 }), "sequence-mismatch");
    expect(scene.warnings).toEqual(["wake-up could not be taken back"]);
  });
});

describe("the queue is down (C4)", () => {
  const isQueue =
    (...methods: readonly string[]) =>
    ({ port, method }: PortCall): boolean =>
      port === "wakeUps" && methods.includes(method);

  test.each<[string, (call: PortCall) => boolean, number]>([
    ["before the commit", isQueue("send"), 2],
    ["after the commit", isQueue("hide"), 1],
    ["all the time", isQueue("send", "hide", "delete"), 2],
  ])("C4: %s: committed all the same, and logged", async (_name, isDown, warnings) => {
    for (const code of ["unavailable", "timeout", "forbidden", "storage"] as const) {
      const scene = new Scene();
      scene.storage.onCall = (call) => {
        if (isDown(call)) throw new OutboxError(code, "the queue is down");
      };
      expect(await scene.outbox().commit("o-1", steps(1))).toMatchObject({ sequence: 1, repeated: false });
      expectDense(scene.stored(), 1);
      expect(scene.warnings).toHaveLength(warnings);
    }
  });

  test("C4: down before the commit, up after it: a visible wake-up is sent then", async () => {
    const scene = new Scene();
    let down = true;
    scene.storage.onCall = (call) => {
      if (isCommit(call)) down = false;
      if (down && isQueue("send")(call)) throw new OutboxError("unavailable", "the queue is down");
    };
    await scene.outbox().commit("o-1", steps(1));
    expect(scene.storage.messages()).toEqual([{ text: WAKE_UP, hiddenForMs: 0, dequeueCount: 0 }]);
    expect(scene.warnings).toEqual(["wake-up could not be sent before the commit"]);
  });

  test("C4: up before the commit, down after it: the hidden one fires by itself", async () => {
    const scene = new Scene();
    scene.storage.onCall = (call) => {
      if (isQueue("hide")(call)) throw new OutboxError("unavailable", "the queue is down");
    };
    await scene.outbox().commit("o-1", steps(1));
    expect(scene.storage.messages()).toEqual([{ text: WAKE_UP, hiddenForMs: 60_000, dequeueCount: 0 }]);
    await scene.clock.advance(60_000);
    expect(await scene.storage.wakeUps.receive(1, 30_000)).toMatchObject([{ text: WAKE_UP }]);
  });

  test("C4: refused commits stay refused for their own reason", async () => {
    const scene = new Scene();
    scene.storage.onCall = ({ port }) => {
      if (port === "wakeUps") throw new OutboxError("unavailable", "the queue is down");
    };
    await failure(scene.outbox().commit("o-1", steps(1), { expectedSequence: 1 }), "sequence-mismatch");
  });
});

test("every tricky id is woken by its JSON text (C23)", async () => {
  const scene = new Scene();
  for (const orderId of ["100", "1e5", "12345678901234567890", "\u00E9\u{1F4E6}", '<a>&"']) await scene.outbox().commit(orderId, steps(1));
  const texts = (await scene.storage.wakeUps.receive(32, 1_000)).map(({ text }) => text);
  expect(texts.toSorted()).toEqual(['"100"', '"1e5"', '"12345678901234567890"', '"\\u00e9\\ud83d\\udce6"', '"<a>&\\""'].toSorted());
});
