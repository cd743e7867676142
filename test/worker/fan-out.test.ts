/** C14, G4: subscriptions of one order get on independently of each other. `mail` works, `erp` throws twice on E1. */
import { describe, expect, test } from "vitest";
import { OutboxError } from "../../src/core/errors.ts";
import { PermanentError, type RetryOptions } from "../../src/core/retry.ts";
import type { Subscription } from "../../src/core/workflow.ts";
import { settle } from "../support/manual-clock.ts";
import { archived, contextOf, deadLetters, decideAbout, deliver, findings, live, oid, pendingStates } from "./operator-support.ts";
import { decideOrder } from "../../src/operations/decide-many.ts";
import { createSweeper } from "../../src/operations/sweep.ts";
import { mortal, Scene, type Fate } from "./round-support.ts";

const ORDERS = [
  ["mail", "erp"],
  ["erp", "mail"],
] as const;

/** `erp` throws at its first `times` starts of E1. */
function failing(scene: Scene, times: number, error: () => unknown = () => new Error("erp is down")): void {
  let left = times;
  scene.onHandle = (entry) => {
    if (entry !== "erp E1" || left === 0) return;
    left -= 1;
    throw error();
  };
}

function subscriptions(scene: Scene, names: readonly string[], retry?: RetryOptions): Subscription[] {
  return names.map((name) => scene.subscription(name, retry === undefined ? {} : { retry }));
}

function logOf(scene: Scene, name: string): string[] {
  return scene.log.filter((entry) => entry.startsWith(`${name} `)).map((entry) => entry.slice(name.length + 1));
}

describe.each(ORDERS)("C14: subscriptions %s, %s", (...names) => {
  test("mail has E1, E2, one call each, before erp is through; erp has E1 three times, then E2", async () => {
    const scene = new Scene();
    failing(scene, 2);
    await scene.commit("o-1", [1, 2]);
    const worker = scene.worker(subscriptions(scene, names));
    await deliver(scene, worker);
    expect(logOf(scene, "mail")).toEqual(["E1", "E2"]);
    expect(logOf(scene, "erp")).toEqual(["E1"]);
    await live(scene, worker, 40_000);
    expect(logOf(scene, "mail")).toEqual(["E1", "E2"]);
    expect(logOf(scene, "erp")).toEqual(["E1", "E1", "E1", "E2"]);
    expect(archived(scene, "mail").map(({ attempts }) => attempts)).toEqual(["1", "1"]);
    expect(archived(scene, "erp").map(({ attempts }) => attempts)).toEqual(["3", "1"]);
    expect(scene.storage.messages()).toEqual([]);
    expect(await findings(scene)).toEqual([]);
  });

  test("with short retries: mail does not wait for them either", async () => {
    const scene = new Scene();
    failing(scene, 2);
    await scene.commit("o-1", [1, 2]);
    const round = scene.worker(subscriptions(scene, names, { shortStarts: 3, shortDelayMs: 2_000 })).handle("o-1");
    await settle();
    expect(logOf(scene, "mail")).toEqual(["E1", "E2"]);
    expect(logOf(scene, "erp")).toEqual(["E1"]);
    expect(await scene.until(round)).toMatchObject({ status: "done", handled: 4 });
    expect(logOf(scene, "mail")).toEqual(["E1", "E2"]);
    expect(logOf(scene, "erp")).toEqual(["E1", "E1", "E1", "E2"]);
  });

  test("E1 is a dead letter of erp alone; redriven, erp alone goes on", async () => {
    const scene = new Scene();
    failing(scene, 1, () => new PermanentError("no such customer"));
    await scene.commit("o-1", [1, 2]);
    const worker = scene.worker(subscriptions(scene, names));
    await live(scene, worker, 5_000);
    expect(logOf(scene, "mail")).toEqual(["E1", "E2"]);
    expect(logOf(scene, "erp")).toEqual(["E1"]);
    expect(deadLetters(scene, "erp")).toMatchObject([{ sequence: 1, attempts: 1 }]);
    expect(deadLetters(scene, "mail")).toEqual([]);
    await scene.commit("o-1", [3]);
    await live(scene, worker, 5_000);
    expect(logOf(scene, "mail")).toEqual(["E1", "E2", "E3"]);
    expect(logOf(scene, "erp")).toEqual(["E1"]);
    await decideAbout(scene, "redrive");
    await live(scene, worker, 5_000);
    expect(logOf(scene, "mail")).toEqual(["E1", "E2", "E3"]);
    expect(logOf(scene, "erp")).toEqual(["E1", "E1", "E2", "E3"]);
    expect(await findings(scene)).toEqual([]);
  });

  describe.each<Fate>(["dies-before", "dies-after"])("the process %s a call", (fate) => {
    test("at every call after mail's first success: mail repeats at most what was not recorded, erp has its three starts of E1", async () => {
      const starts: number[] = [];
      // Undisturbed: at which call does mail's first handler end, and how many calls are there?
      const calm = new Scene();
      failing(calm, 2);
      await calm.commit("o-1", [1, 2]);
      const counted = mortal(calm.storage, -1, "is-refused", new Error("unused"));
      const inner = calm.onHandle;
      calm.onHandle = (entry, call) => {
        if (entry === "mail E1") starts.push(counted.calls());
        return inner(entry, call);
      };
      await calm.worker(subscriptions(calm, names), { storage: counted.storage }).handle("o-1");
      const [first = 0] = starts;
      expect(counted.calls() - first).toBeGreaterThan(7);
      for (let at = first + 1; at <= counted.calls(); at++) {
        const scene = new Scene();
        failing(scene, 2);
        await scene.commit("o-1", [1, 2]);
        const disturbed = mortal(scene.storage, at, fate, new OutboxError("unavailable", "unused"));
        void scene.worker(subscriptions(scene, names), { storage: disturbed.storage }).handle("o-1");
        await settle();
        const recorded = { mail: scene.progress().streams["mail"]?.sequence ?? 0, erp: scene.progress().streams["erp"]?.sequence ?? 0 };
        const before = { mail: logOf(scene, "mail").length, erp: logOf(scene, "erp").length };
        await scene.clock.advance(31_000);
        const worker = scene.worker(subscriptions(scene, names));
        // The queue may be without a message by now: the sweep is what G5 has for that.
        const sweeper = createSweeper({ storage: scene.storage, clock: scene.clock });
        for (let minute = 0; minute < 2; minute++) {
          await sweeper.sweep();
          await live(scene, worker, 60_000);
        }
        // G3: what was not on record runs again, nothing else; C14: the failures of erp are its own.
        const rest = ["E1", "E2"].slice(recorded.mail);
        expect(logOf(scene, "mail"), `call ${at}`).toEqual([...["E1", "E2"].slice(0, before.mail), ...rest]);
        expect(recorded.erp).toBe(0);
        expect(logOf(scene, "erp"), `call ${at}`).toEqual(["E1", "E1", "E1", "E2"]);
        expect(await findings(scene)).toEqual([]);
        expect(scene.storage.messages()).toEqual([]);
      }
    });
  });
});

describe("C14, F10: a subscription added or removed while E1 waits for erp", () => {
  /** E1 and E2 are relayed to mail and erp, erp's E1 has failed once. */
  async function waiting(failures: number): Promise<Scene> {
    const scene = new Scene();
    failing(scene, failures);
    await scene.commit("o-1", [1, 2]);
    await deliver(scene, scene.worker(subscriptions(scene, ["mail", "erp"])));
    return scene;
  }

  test("added: it starts with the next event that is relayed; those before are not for it", async () => {
    const scene = await waiting(2);
    const worker = scene.worker(subscriptions(scene, ["mail", "erp", "stats"]));
    await live(scene, worker, 40_000);
    await scene.commit("o-1", [3]);
    await live(scene, worker, 5_000);
    expect(logOf(scene, "stats")).toEqual(["E3"]);
    expect(logOf(scene, "mail")).toEqual(["E1", "E2", "E3"]);
    expect(logOf(scene, "erp")).toEqual(["E1", "E1", "E1", "E2", "E3"]);
    expect(scene.ids("events", "erp")).toEqual([]);
    expect(scene.storage.messages()).toEqual([]);
    expect(await findings(scene)).toEqual([]);
  });

  test("added after the commit, before the relay: it gets the event, for relaying is what decides", async () => {
    const scene = new Scene();
    await scene.commit("o-1", [1]);
    await deliver(scene, scene.worker(subscriptions(scene, ["mail", "stats"])));
    expect(scene.log).toEqual(["mail E1", "stats E1"]);
  });

  test("removed: its events wait, visible and discardable; nothing else waits, no wake-up goes round for ever", async () => {
    const scene = await waiting(2);
    const worker = scene.worker(subscriptions(scene, ["mail"]));
    await scene.commit("o-1", [3]);
    await live(scene, worker, 60_000);
    expect(logOf(scene, "mail")).toEqual(["E1", "E2", "E3"]);
    expect(logOf(scene, "erp")).toEqual(["E1"]);
    expect(pendingStates(scene, "erp").map(({ sequence }) => sequence)).toEqual([1, 2]);
    expect(scene.storage.messages()).toEqual([]);
    for (const id of scene.ids("events", "erp")) {
      await decideOrder(
        contextOf(scene),
        "discard",
        { orderId: oid("o-1"), subscription: "erp", id: id as never },
        { actor: "ann", reason: "gone" },
      );
      await live(scene, worker, 5_000);
    }
    expect(scene.ids("events", "erp")).toEqual([]);
    expect(archived(scene, "erp").map(({ outcome }) => outcome)).toEqual(["discarded", "discarded"]);
    expect(await findings(scene)).toEqual([]);
  });

  test("removed and added again: it goes on where it was; what was relayed in between is not for it", async () => {
    const scene = await waiting(2);
    await scene.commit("o-1", [3]);
    await live(scene, scene.worker(subscriptions(scene, ["mail"])), 30_000);
    await scene.commit("o-1", [4]);
    await live(scene, scene.worker(subscriptions(scene, ["mail", "erp"])), 60_000);
    expect(logOf(scene, "erp")).toEqual(["E1", "E1", "E1", "E2", "E4"]);
    expect(logOf(scene, "mail")).toEqual(["E1", "E2", "E3", "E4"]);
    expect(await findings(scene)).toEqual([]);
  });
});

describe("§8: a wake-up costs nothing for a subscription that has nothing to do", () => {
  /** The storage calls of one wake-up, `n` subscriptions beside erp, of which none wants what is committed. */
  async function calls(n: number, prepare: (scene: Scene, worker: ReturnType<Scene["worker"]>) => Promise<void>): Promise<unknown> {
    const scene = new Scene();
    const others = Array.from({ length: n - 1 }, (_, index) => scene.subscription(`other-${index}`, { events: ["other"] }));
    const worker = scene.worker([scene.subscription("erp", { events: ["step"] }), ...others]);
    // All of them are on record.
    await scene.commit("o-1", [100]);
    await scene.commit("o-1", [101], "other");
    await deliver(scene, worker);
    await prepare(scene, worker);
    scene.storage.forgetCalls();
    await scene.until(worker.handle("o-1"));
    return scene.storage.callCounts();
  }

  const situations: Readonly<Record<string, Parameters<typeof calls>[1]>> = {
    "nothing is there": async () => undefined,
    "an event for erp alone": (scene) => scene.commit("o-1", [1]),
    "a parked event of erp": async (scene, worker) => {
      failing(scene, 1);
      await scene.commit("o-1", [1, 2]);
      await deliver(scene, worker);
    },
    "a backlog of erp that is due": async (scene, worker) => {
      failing(scene, 1);
      await scene.commit("o-1", [1, 2]);
      await deliver(scene, worker);
      await scene.clock.advance(14_000);
    },
  };

  test.each(Object.keys(situations))("%s: 1, 3 and 10 subscriptions cost the same calls", async (name) => {
    const [one, three, ten] = await Promise.all([1, 3, 10].map((n) => calls(n, situations[name]!)));
    expect(three).toEqual(one);
    expect(ten).toEqual(one);
    if (name === "nothing is there")
      expect(one).toEqual({ "leases.read": 1, "leases.acquire": 1, "orders.readOutbox": 2, "leases.release": 1 });
    if (name === "a parked event of erp") expect(one).toMatchObject({ "blobs.list": 1 });
  });

  test("subscriptions that are added later are looked for once, then they cost nothing either", async () => {
    const scene = new Scene();
    await scene.commit("o-1", [1]);
    await deliver(scene, scene.worker(subscriptions(scene, ["erp"])));
    const worker = scene.worker(subscriptions(scene, ["erp", "mail", "stats"]));
    const lists: number[] = [];
    for (let time = 0; time < 3; time++) {
      scene.storage.forgetCalls();
      await worker.handle("o-1");
      lists.push(scene.storage.callCounts()["blobs.list"] ?? 0);
    }
    expect(lists).toEqual([2, 0, 0]);
    // An order that never was is not put on record.
    await worker.handle("o-2");
    expect(scene.progress("o-2").streams).toEqual({});
  });
});
