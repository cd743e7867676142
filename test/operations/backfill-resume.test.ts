/** F9: a backfill that goes on reads few of the orders again that it has finished, and leaves none out. */
import { describe, expect, test } from "vitest";
import { CONTROL_PARTITION } from "../../src/core/controls.ts";
import { OutboxError } from "../../src/core/errors.ts";
import type { StoredEvent } from "../../src/core/event.ts";
import type { OrderKey } from "../../src/core/order-id.ts";
import type { ListedBlob, Storage } from "../../src/core/ports.ts";
import type { Subscription } from "../../src/core/workflow.ts";
import { backfill, type BackfillOptions } from "../../src/operations/backfill.ts";
import type { OperationsContext } from "../../src/operations/context.ts";
import type { ReplayResult } from "../../src/operations/replay-totals.ts";
import { settle } from "../support/manual-clock.ts";
import { live } from "../worker/operator-support.ts";
import { key, Scene } from "../worker/round-support.ts";
import { KIM } from "./replay-support.ts";

interface Shop extends Scene {
  readonly mail: Subscription;
  readonly added: Subscription;
}

function shop(): Shop {
  const scene = new Scene();
  return Object.assign(scene, { mail: scene.subscription("mail"), added: scene.subscription("audit") });
}

function run(scene: Shop, options: BackfillOptions = {}, context: OperationsContext = scene): Promise<ReplayResult> {
  return backfill(context, { subscription: scene.added }, KIM, options);
}

/** What the new subscription's handler gets, order by order. */
function watch(scene: Shop): Map<string, number[]> {
  const got = new Map<string, number[]>();
  scene.onEvent = ({ orderId, dataText }: StoredEvent) => {
    const { n } = JSON.parse(dataText) as { n: number };
    if (scene.log.at(-1)!.startsWith("audit")) got.set(orderId, [...(got.get(orderId) ?? []), n]);
  };
  return got;
}

describe("goes on where it was", () => {
  const MANY = Array.from({ length: 60 }, (_, index) => `o-${String(index >> 1).padStart(2, "0")}${index % 2 === 0 ? "" : "-x"}`);

  async function many(): Promise<Shop> {
    const scene = shop();
    for (const order of MANY) {
      await scene.commit(order, [1, 2]);
      await scene.until(scene.worker([scene.mail]).handle(order));
    }
    scene.log.length = 0;
    return scene;
  }

  /** How many orders a run has read. */
  async function looked(scene: Shop, options: BackfillOptions = {}): Promise<{ readonly result: ReplayResult; readonly reads: number }> {
    scene.storage.forgetCalls();
    const result = await run(scene, options);
    return { result, reads: new Set(reads(scene)).size };
  }

  function reads(scene: Shop): readonly string[] {
    return scene.storage.calls.flatMap(({ method, args }) => (method === "readOutbox" ? [String(args[0])] : []));
  }

  test("killed at any time, it reads few finished orders again, and everything comes once, in order", async () => {
    for (const commits of [1, 19, 25, 41, 59]) {
      const scene = await many();
      let made = 0;
      const dead = new Promise<never>(() => undefined);
      let isDead = false;
      scene.storage.onCall = ({ method }) => {
        if (method === "commit" && ++made > commits) isDead = true;
        return isDead ? dead : undefined;
      };
      void run(scene).catch(() => undefined);
      await settle();
      expect(isDead).toBe(true);
      scene.storage.onCall = undefined;
      const dry = await looked(scene, { dryRun: true });
      const { result, reads: read } = await looked(scene);
      expect(result).toMatchObject({ outcome: "done", before: 2 * commits, events: 120 - 2 * commits });
      expect(dry).toMatchObject({ reads: read, result: { before: 2 * commits, events: 120 - 2 * commits } });
      // Those between two writes of the place, and those that were in work.
      expect(read).toBeLessThanOrEqual(60 - commits + 20 + 8);
      const got = watch(scene);
      await live(scene, scene.worker([scene.mail, scene.added]), 61_000);
      expect(got).toEqual(new Map(MANY.map((order) => [order, [1, 2]])));
    }
  });

  test("killed while one order takes long: no place after it is kept", async () => {
    const scene = await many();
    const slow = key(MANY[7]!);
    scene.storage.onCall = ({ method, args }) => {
      if (method === "readOutbox" && args[0] === slow) return new Promise<never>(() => undefined);
      return undefined;
    };
    void run(scene).catch(() => undefined);
    await settle();
    scene.storage.onCall = undefined;
    expect((await looked(scene)).result).toMatchObject({ outcome: "done", before: 118, events: 2 });
  });

  test("stopped, it reads none again that was finished; failed ones are read again, and again", async () => {
    const scene = await many();
    const isBroken = { on: true };
    const broken = [key(MANY[2]!), key(MANY[31]!)];
    const stop = new AbortController();
    let made = 0;
    scene.storage.onCall = ({ method, args }) => {
      if (method === "readOutbox" && isBroken.on && broken.includes(args[0] as OrderKey)) throw new OutboxError("corrupt", "broken");
      if (method === "commit" && ++made === 50) stop.abort();
    };
    const first = await run(scene, {}, { ...scene, signal: stop.signal });
    expect(first).toMatchObject({ outcome: "stopped", failed: 2 });
    expect(first.events).toBeGreaterThanOrEqual(100);
    const second = await looked(scene);
    expect(second.result).toMatchObject({ outcome: "incomplete", failed: 2, events: 116 - first.events, before: first.events });
    expect(second.reads).toBeLessThanOrEqual(60 - 50 + 8 + 2);
    const third = await looked(scene);
    expect(third).toMatchObject({ reads: 2, result: { outcome: "incomplete", failed: 2, events: 0, before: 116 } });
    isBroken.on = false;
    expect(await looked(scene)).toMatchObject({ reads: 2, result: { outcome: "done", events: 4, before: 116 } });
  });

  test("an order that is listed after its place is not left out, whether that shows at first or only later", async () => {
    for (const rule of ["everywhere", "below a subscription"]) {
      const scene = await many();
      const list: Storage["blobs"]["list"] = async function* (container, prefix, options) {
        const all: ListedBlob[] = [];
        for await (const blob of scene.storage.blobs.list(container, prefix, options)) all.push(blob);
        const isLate = ({ name }: ListedBlob): boolean => name.includes("/o-00/") && (rule === "everywhere" || prefix !== "");
        yield* all.filter((blob) => !isLate(blob));
        yield* all.filter(isLate);
      };
      const blobs = { ...scene.storage.blobs, list };
      const context = { storage: { ...scene.storage, blobs }, clock: scene.clock };
      const stop = new AbortController();
      let made = 0;
      scene.storage.onCall = ({ method, args }) => {
        const isLate = method === "readOutbox" && args[0] === key("o-00");
        if (isLate || (method === "commit" && ++made === 45 && rule === "everywhere")) stop.abort();
        if (isLate) throw new OutboxError("timeout", "stopped");
      };
      const { outcome, events } = await run(scene, {}, { ...context, signal: stop.signal });
      expect({ outcome, many: events >= 90 }).toEqual({ outcome: "stopped", many: true });
      scene.storage.onCall = undefined;
      expect(await run(scene, {}, context)).toMatchObject({ outcome: "done", before: events, events: 120 - events });
    }
  });

  test("a place of another run, and one among listings that sort by a rule of their own, count for nothing", async () => {
    for (const other of ["begun anew", "sorted otherwise"]) {
      const scene = await many();
      const stop = new AbortController();
      let made = 0;
      scene.storage.onCall = ({ method }) => {
        if (method === "commit" && ++made === 40) stop.abort();
      };
      const first = await run(scene, {}, { ...scene, signal: stop.signal });
      scene.storage.onCall = undefined;
      if (other === "begun anew") {
        await scene.storage.orders.deleteEntity(CONTROL_PARTITION, "replay:audit:backfill");
        await scene.clock.advance(1_000);
        expect(await looked(scene)).toMatchObject({ reads: 60, result: { outcome: "done", before: first.events } });
      } else {
        const list: Storage["blobs"]["list"] = async function* (...args) {
          const all: ListedBlob[] = [];
          for await (const blob of scene.storage.blobs.list(...args)) all.push(blob);
          yield* all.toReversed();
        };
        const blobs = { ...scene.storage.blobs, list };
        const result = await run(scene, {}, { storage: { ...scene.storage, blobs }, clock: scene.clock });
        expect(result).toMatchObject({ outcome: "done", before: first.events, events: 120 - first.events });
      }
    }
  });
});
