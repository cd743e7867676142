import * as fc from "fast-check";
import { describe, expect, test } from "vitest";
import type { MemoryStorage } from "../support/memory-storage.ts";
import { ManualClock, settle } from "../support/manual-clock.ts";
import { AutoClock, expectDense, expectReported, failure, Scene, steps } from "./support.ts";

const MINUTE = 60_000;

/** Every port call waits here twice, before it is applied and before it answers, until somebody lets it go. */
class Gates {
  readonly waiting: (() => void)[] = [];

  constructor(storage: MemoryStorage) {
    storage.onCall = async () => {
      await this.#gate();
      return { after: () => this.#gate() };
    };
  }

  /** Lets one waiting call go on. */
  open(choice: number): void {
    this.waiting.splice(choice % this.waiting.length, 1)[0]?.();
  }

  #gate(): Promise<void> {
    return new Promise((resolve) => this.waiting.push(resolve));
  }
}

describe("one producer (C1, §4.3)", () => {
  test("events of one commit and of the next continue one sequence with growing ids", async () => {
    const scene = new Scene();
    const outbox = scene.outbox();
    const results = [
      await outbox.commit("o-1", steps(1, 2, 3)),
      await outbox.commit("o-1", steps(4)),
      await outbox.commit("o-1", steps(5, 6)),
    ];
    expectDense(scene.stored(), 6);
    expectReported(scene.stored(), ...results);
    expect(scene.steps()).toEqual([1, 2, 3, 4, 5, 6].map((n) => ({ n })));
    expect(results.map(({ sequence }) => sequence)).toEqual([3, 4, 6]);
  });

  test.each([
    ["the clock stands still", [0, 0, 0]],
    ["the clock steps back an hour", [0, -60 * MINUTE, -60 * MINUTE]],
    ["each commit comes from a machine minutes apart", [5 * MINUTE, -5 * MINUTE, 0]],
  ])("ids grow when %s", async (_name, offsets) => {
    const scene = new Scene();
    const start = scene.clock.now();
    for (const offset of offsets) {
      scene.clock.setNow(start + offset);
      await scene.outbox().commit("o-1", steps(1, 2));
    }
    expectDense(scene.stored(), 6);
  });

  test("ids grow when the random part is all Z", async () => {
    const scene = new Scene();
    let salt = 0;
    // Almost 1 for the ids; the token's last character differs, as two tokens of a millisecond must.
    const outbox = scene.outbox({ random: () => (++salt % 16 === 0 ? (salt % 512) / 512 : 1 - Number.EPSILON) });
    await outbox.commit("o-1", steps(1, 2, 3));
    await outbox.commit("o-1", steps(4, 5, 6));
    expectDense(scene.stored(), 6);
  });

  test("orders don't share sequences", async () => {
    const scene = new Scene();
    const outbox = scene.outbox();
    await Promise.all(["o-1", "o-10", "o-1-x"].map((orderId) => outbox.commit(orderId, steps(1, 2))));
    for (const orderId of ["o-1", "o-10", "o-1-x"]) expectDense(scene.stored(orderId), 2);
  });
});

describe("two producers (C1)", () => {
  const clocks = [
    ["in the same millisecond", 0],
    ["the second 5 minutes ahead", 5 * MINUTE],
    ["the second 5 minutes behind", -5 * MINUTE],
  ] as const;
  const calls = ["orders.readOrder", "wakeUps.send", "orders.commit", "wakeUps.hide"] as const;
  const cases = clocks.flatMap(([clock, offset]) =>
    calls.flatMap((call) => (["before", "after"] as const).map((when) => ({ clock, offset, call, when }))),
  );

  test.each(cases)("$clock: the second commits $when the first one's $call is applied", async ({ offset, call, when }) => {
    for (const existing of [0, 1]) {
      const scene = new Scene();
      const first = scene.outbox();
      const second = scene.outbox({ clock: new AutoClock(scene.clock.now() + offset) });
      if (existing === 1) await first.commit("o-1", steps(0));
      let interleaved: ReturnType<typeof second.commit> | undefined;
      scene.storage.onCall = async ({ port, method }) => {
        if (interleaved !== undefined || `${port}.${method}` !== call) return undefined;
        const commitSecond = async (): Promise<void> => {
          interleaved = second.commit("o-1", steps(3, 4));
          await interleaved;
        };
        if (when === "after") return { after: commitSecond };
        await commitSecond();
        return undefined;
      };
      const result = await first.commit("o-1", steps(1, 2));
      const stored = scene.stored();
      expectDense(stored, 4 + existing);
      expect(stored.order?.state).toBe(JSON.stringify({ commits: 2 + existing }));
      const other = await interleaved;
      expect(other).toBeDefined();
      const reported = [...result.events, ...(other?.events ?? [])].map(({ id }) => id).toSorted();
      expect(reported).toEqual(stored.outbox.slice(existing).map(({ id }) => id));
    }
  });

  test("property: however many commits of any producers interleave, at every await, each happens once and the sequence is dense", async () => {
    const producers = fc.array(
      fc.record({ offset: fc.integer({ min: -5 * MINUTE, max: 5 * MINUTE }), events: fc.integer({ min: 0, max: 3 }) }),
      { minLength: 2, maxLength: 6 },
    );
    await fc.assert(
      fc.asyncProperty(producers, fc.infiniteStream(fc.nat()), async (plans, choices) => {
        const scene = new Scene();
        const gates = new Gates(scene.storage);
        let open = plans.length;
        const commits = plans.map(async ({ offset, events }, index) => {
          const outbox = scene.outbox({ clock: new AutoClock(scene.clock.now() + offset) });
          return outbox.commit("o-1", steps(...Array.from({ length: events }, (_, n) => 10 * index + n))).finally(() => (open -= 1));
        });
        while (open > 0) {
          await settle();
          gates.open(choices.next().value);
        }
        const results = await Promise.all(commits);
        const total = plans.reduce((sum, { events }) => sum + events, 0);
        const stored = scene.stored();
        expectDense(stored, total);
        expectReported(stored, ...results);
        expect(stored.order?.state).toBe(JSON.stringify({ commits: plans.length }));
      }),
      { numRuns: 40 },
    );
  });

  test("a commit that keeps losing gives up with conflict, and nothing of it is written", async () => {
    const scene = new Scene();
    const first = scene.outbox({ maxConflicts: 2 });
    let rival = 0;
    let attempts = 0;
    const promise = first.commit("o-1", async (state) => {
      attempts += 1;
      await scene.outbox().commit("o-1", steps((rival += 1)));
      return { state: { commits: (state?.commits ?? 0) + 100 }, events: [{ type: "step", data: { n: 999 } }] };
    });
    await failure(promise, "conflict");
    expect(attempts).toBe(3);
    expectDense(scene.stored(), 3);
    expect(scene.steps()).not.toContainEqual({ n: 999 });
    // Three visible ones of the rivals; the loser took its own back.
    expect(scene.storage.messages()).toHaveLength(3);
  });

  test("a caller who gives up between two attempts gets aborted, and nothing of it is written", async () => {
    const scene = new Scene();
    const clock = new ManualClock();
    const outbox = scene.outbox({ clock });
    const controller = new AbortController();
    const promise = outbox.commit(
      "o-1",
      async () => {
        await scene.outbox().commit("o-1", steps(1));
        return { state: { commits: 1 }, events: [{ type: "step", data: { n: 2 } }] };
      },
      { signal: controller.signal },
    );
    const aborted = failure(promise, "aborted");
    await settle();
    expect(clock.pending()).toBe(1);
    controller.abort(new Error("enough"));
    await aborted;
    expect(scene.steps()).toEqual([{ n: 1 }]);
  });
});
