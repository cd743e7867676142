/** F3, C06: events that no attempt would help, types that are not deployed, and what handlers can throw. */
import { describe, expect, test } from "vitest";
import { z } from "zod";
import { defineSubscription, defineWorkflow } from "../../src/core/workflow.ts";
import { createWorker } from "../../src/worker/worker.ts";
import { archived, deadLetters, decideAbout, deliver, failWhile, live, pendingStates } from "./operator-support.ts";
import { Scene } from "./round-support.ts";

describe("events that no attempt would help", () => {
  function bytesOfHead(scene: Scene): Uint8Array {
    return scene.storage.blobEntries("events")[0]![1].bytes;
  }

  test.each<[string, (bytes: Uint8Array) => Uint8Array, RegExp]>([
    ["a cut blob", (bytes) => bytes.slice(0, 20), /corrupt/],
    ["no UTF-8", () => new Uint8Array([0xff, 0xfe, 0x00]), /corrupt/],
    ["an unknown version", (bytes) => replace(bytes, '"specversion":"1.0"', '"specversion":"9.0"'), /corrupt.*specversion/],
    ["invalid data", (bytes) => replace(bytes, '"n":1', '"n":"one"'), /invalid-event/],
    ["another event", (bytes) => replace(bytes, '"sequence":"1"', '"sequence":"7"'), /corrupt/],
  ])("%s: dead at once, without an attempt, bytes kept, under both policies", async (_name, damage, reason) => {
    for (const onDead of ["block", "skip"] as const) {
      const scene = new Scene();
      await scene.commit("o-1", [1, 2]);
      // Relayed, but not run: the worker's time is over.
      let mayRun = false;
      scene.onHandle = () => {
        if (!mayRun) throw new Error("not yet");
      };
      const worker = scene.worker([scene.subscription("audit", { retry: { shortStarts: 1, longDelayMs: 1_000, onDead } })]);
      await worker.handle("o-1");
      mayRun = true;
      const [name, blob] = scene.storage.blobEntries("events")[0]!;
      const damaged = damage(blob.bytes);
      scene.storage.putBlob("events", name, damaged, blob.metadata);
      scene.log.length = 0;
      await live(scene, worker, 3_000);
      expect(scene.log).toEqual(onDead === "block" ? [] : ["audit E2"]);
      expect(deadLetters(scene)).toMatchObject([
        { sequence: 1, policy: onDead, attempts: 1, reason: expect.stringMatching(reason) as string },
      ]);
      const kept = onDead === "block" ? bytesOfHead(scene) : scene.storage.blobEntries("archive")[0]![1].bytes;
      expect(kept).toEqual(damaged);
    }
  });

  test("a type that is not deployed yet waits without an attempt, and runs when it is", async () => {
    const scene = new Scene();
    await scene.commit("o-1", [1], "other");
    await scene.commit("o-1", [2]);
    const old = defineWorkflow({ name: "test", state: z.object({ committed: z.number() }), events: { step: z.object({ n: z.number() }) } });
    const subscription = defineSubscription(old, { name: "audit", handle: () => void scene.log.push("old") });
    const worker = createWorker({ workflow: old, subscriptions: [subscription], storage: scene.storage, clock: scene.clock });
    await worker.handle("o-1");
    const { etag } = scene.storage.blobEntries("events")[0]![1];
    await live(scene, worker, 130_000);
    expect(scene.log).toEqual([]);
    expect(pendingStates(scene)[0]).toMatchObject({ status: "pending", attempts: 0, crashes: 0 });
    // Why it stands is on record, once: `orders list` and `explain` tell it.
    expect(pendingStates(scene)[0]?.lastError).toMatch(/^handler-missing: event type other is not in the deployed workflow test/);
    expect(scene.storage.blobEntries("events")[0]![1].etag).toBe(etag);
    expect(deadLetters(scene)).toEqual([]);
    await live(scene, scene.worker(), 61_000);
    expect(scene.log).toEqual(["audit E1", "audit E2"]);
    expect(archived(scene).map(({ attempts }) => attempts)).toEqual(["1", "1"]);
  });

  test.each<[string, () => unknown, string]>([
    ["undefined", () => undefined, "undefined"],
    ["null", () => null, "null"],
    ["a string", () => "no", "no"],
    ["a cyclic object", () => cyclic(), "[object Object]"],
    ["an error of 1 MB", () => new Error("x".repeat(1_000_000)), "Error: xxx"],
    ["letters outside Latin-1 by the thousand", () => new Error("漢".repeat(5_000)), "Error: 漢"],
  ])("C06: a handler throws %s: a failure like any other", async (_name, thrown, text) => {
    const scene = new Scene();
    const broken = new Set(["audit E1"]);
    scene.onHandle = failWhile(broken, thrown);
    await scene.commit("o-1", [1, 2]);
    const worker = scene.worker([scene.subscription("audit", { retry: { shortStarts: 1, longRetries: 1 } })]);
    await deliver(scene, worker);
    expect(pendingStates(scene)[0]).toMatchObject({ status: "parked", attempts: 1, lastError: expect.stringContaining(text) as string });
    await live(scene, worker, 12_000);
    expect(scene.log).toEqual(["audit E1", "audit E1"]);
    expect(deadLetters(scene)).toMatchObject([{ attempts: 2, reason: expect.stringContaining(text) as string }]);
    broken.clear();
    await decideAbout(scene, "redrive");
    await deliver(scene, worker);
    expect(scene.log).toEqual(["audit E1", "audit E1", "audit E1", "audit E2"]);
  });
});

function replace(bytes: Uint8Array, from: string, to: string): Uint8Array {
  const text = new TextDecoder().decode(bytes);
  if (!text.includes(from)) throw new Error(`${text} does not hold ${from}`);
  return new TextEncoder().encode(text.replace(from, to));
}

function cyclic(): object {
  const value: { self?: object } = {};
  value.self = value;
  return value;
}
