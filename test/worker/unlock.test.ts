/** G2: an order that is taken from its holder by `unlock` has one holder at a time all the same (W5, C05). */
import { describe, expect, test } from "vitest";
import type { Clock } from "../../src/core/clock.ts";
import { explain } from "../../src/operations/explain.ts";
import { unlockOrder } from "../../src/operations/unlock.ts";
import { settle } from "../support/manual-clock.ts";
import { ANN, contextOf, findings, live, oid } from "./operator-support.ts";
import { Scene } from "./round-support.ts";

/** Two processes; the handler of "audit E1" hangs in the first one. */
class TwoProcesses extends Scene {
  readonly starts: string[] = [];

  worker2(process: string, clock: Clock = this.clock) {
    const subscriptions = ["audit", "mail"].map((name) => {
      const { handle, ...rest } = this.subscription(name);
      return {
        ...rest,
        handle: (...[event]: Parameters<typeof handle>): Promise<void> | void => {
          const entry = `${process}: ${name} E${(event.data as { readonly n: number }).n}`;
          this.starts.push(entry);
          return entry === "A: audit E1" ? new Promise(() => undefined) : undefined;
        },
      };
    });
    return this.worker(subscriptions, { clock });
  }
}

describe("unlock while one stream hangs and another goes on", () => {
  test.each([
    ["a relay that is quick", 0],
    ["a relay that takes 3 s", 3_000],
  ])("%s: the next holder starts nothing before the old one has stopped", async (_name, relayMs) => {
    const scene = new TwoProcesses();
    await scene.commit("o-1", [1]);
    void scene.worker2("A").handle("o-1");
    await settle();
    // Renewed at 10 s.
    await scene.clock.advance(10_500);
    expect(await unlockOrder(contextOf(scene), oid("o-1"), ANN)).toMatchObject({ outcome: "broken", endsInMs: 29_500 });
    await scene.commit("o-1", [2, 3]);
    let first = true;
    scene.storage.onCall = async ({ port, method, args }) => {
      if (port !== "blobs" || method !== "create" || args[0] !== "events" || !first) return;
      first = false;
      await scene.clock.sleep(relayMs);
    };
    await live(scene, scene.worker2("B"), 29_000);
    expect(scene.starts).toEqual(["A: audit E1", "A: mail E1", "A: mail E2", "A: mail E3"]);
    await live(scene, scene.worker2("B"), 2_000);
    expect(scene.starts.slice(4)).toEqual(["B: audit E1", "B: audit E2", "B: audit E3"]);
    expect(await findings(scene)).toEqual([]);
  });

  test("the holder learns of it at its next renewal, and starts nothing after that", async () => {
    const scene = new TwoProcesses();
    await scene.commit("o-1", [1]);
    void scene.worker2("A").handle("o-1");
    await settle();
    await scene.clock.advance(10_500);
    await unlockOrder(contextOf(scene), oid("o-1"), ANN);
    const { verdict } = await explain(contextOf(scene), oid("o-1"));
    expect(verdict).not.toHaveProperty("command");
    expect(verdict).toMatchObject({
      code: "lease-held",
      sentence: expect.stringMatching(/the order's lease.* was broken and ends within a minute; another worker can take the order then\.$/),
    });
    await scene.clock.advance(9_500);
    await scene.commit("o-1", [2]);
    await scene.clock.advance(5_000);
    expect(scene.starts).toEqual(["A: audit E1", "A: mail E1"]);
  });

  test("W5: also one whose clock is 15 % slow and whose renewals hang", async () => {
    const scene = new TwoProcesses();
    await scene.commit("o-1", [1]);
    const slow: Clock = {
      now: () => scene.clock.now(),
      monotonic: () => scene.clock.monotonic() * 0.85,
      sleep: (ms, signal) => scene.clock.sleep(ms / 0.85, signal),
    };
    void scene.worker2("A", slow).handle("o-1");
    await settle();
    scene.storage.onCall = ({ method }) => (method === "renew" ? new Promise(() => undefined) : undefined);
    await scene.clock.advance(1_000);
    await unlockOrder(contextOf(scene), oid("o-1"), ANN);
    const b = scene.worker2("B");
    for (let n = 2; n <= 45; n++) {
      await scene.commit("o-1", [n]);
      await live(scene, b, 1_000);
    }
    const mails = scene.starts.filter((entry) => entry.includes("mail"));
    expect(mails.map((entry) => entry.slice("A: mail E".length))).toEqual(Array.from({ length: 45 }, (_each, index) => `${index + 1}`));
    // Everything of A comes before anything of B.
    expect(mails.map(([process]) => process).join("")).toMatch(/^A{20,}B{10,}$/);
  });
});
