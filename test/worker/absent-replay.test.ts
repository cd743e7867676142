/** F9, F10: a replay that is relayed by a deployment without its subscription waits for one that has it. */
import { describe, expect, test } from "vitest";
import type { EventId } from "../../src/core/event-id.ts";
import { parseOrderId } from "../../src/core/order-id.ts";
import { PermanentError } from "../../src/core/retry.ts";
import type { Subscription } from "../../src/core/workflow.ts";
import { backfill } from "../../src/operations/backfill.ts";
import { decideOrder } from "../../src/operations/decide-many.ts";
import { replay } from "../../src/operations/replay.ts";
import { readStatus } from "../../src/operations/status.ts";
import { settle } from "../support/manual-clock.ts";
import { archived, ANN, contextOf, findings, pendingStates } from "./operator-support.ts";
import { key, mortal, Scene } from "./round-support.ts";

const ORDER = parseOrderId("o-1");

interface Shop extends Scene {
  readonly erp: Subscription;
  readonly mail: Subscription;
}

/** `mail` has had E1 to E3; `erp` is new, and its replays are in the outbox. */
async function backfilled(): Promise<Shop> {
  const scene = new Scene();
  const shop = Object.assign(scene, { erp: scene.subscription("erp"), mail: scene.subscription("mail") });
  await scene.commit("o-1", [1, 2, 3]);
  await scene.worker([shop.mail]).handle("o-1");
  expect(await backfill(contextOf(scene), { subscription: shop.erp }, ANN)).toMatchObject({ events: 3 });
  scene.log.length = 0;
  return shop;
}

function ran(scene: Scene, name: string): string[] {
  return scene.log.filter((entry) => entry.startsWith(name));
}

async function expectWhole(scene: Scene): Promise<void> {
  expect(await findings(scene)).toEqual([]);
  expect(archived(scene, "_unrouted")).toEqual([]);
  expect(scene.outboxRows()).toEqual([]);
}

test("W1, W3: the first events of a new subscription, whose relay dies at any call, are relayed again", async () => {
  for (let at = 1; ; at++) {
    const scene = new Scene();
    await scene.commit("o-1", [1, 2, 3]);
    await scene.worker([scene.subscription("mail")]).handle("o-1");
    scene.log.length = 0;
    scene.onHandle = () => new Promise(() => undefined);
    await scene.commit("o-1", [4, 5]);
    const both = [scene.subscription("erp"), scene.subscription("mail")];
    const { storage, calls } = mortal(scene.storage, at, "dies-before", new Error("gone"));
    void scene.worker(both, { storage }).handle("o-1");
    await settle();
    if (calls() < at) break;
    scene.onHandle = () => undefined;
    scene.storage.breakLease(key("o-1"));
    await scene.clock.advance(31_000);
    await scene.worker(both).handle("o-1");
    expect(new Set(ran(scene, "erp")), `${at}`).toEqual(new Set(["erp E4", "erp E5"]));
    await expectWhole(scene);
  }
});

describe("a deployment without the subscription relays its replay", () => {
  test("W4: it is on record when the lease is given back, so that no start is held against it later", async () => {
    const scene = new Scene();
    const [erp, mail] = [scene.subscription("erp"), scene.subscription("mail")];
    await scene.commit("o-1", [1]);
    await scene.worker([erp, mail]).handle("o-1");
    scene.onHandle = (entry) => {
      if (entry === "mail E2") throw new Error("down");
    };
    await scene.commit("o-1", [2], "other");
    await scene.worker([mail]).handle("o-1");
    await replay(contextOf(scene), { orderId: ORDER, subscription: "erp" }, ANN);
    await scene.worker([mail]).handle("o-1");
    expect(pendingStates(scene, "erp")).toHaveLength(1);
    scene.onHandle = () => new Promise(() => undefined);
    void scene.worker([erp, mail]).handle("o-1");
    await settle();
    expect(pendingStates(scene, "erp")).toMatchObject([{ attempts: 1, crashes: 1 }]);
  });

  test("a redrive out of order waits, and runs once the subscription is deployed again", async () => {
    const scene = new Scene();
    const erp = scene.subscription("erp", { retry: { onDead: "skip" } });
    const mail = scene.subscription("mail");
    scene.onHandle = (entry) => {
      if (entry === "erp E1") throw new PermanentError("no such customer");
    };
    await scene.commit("o-1", [1]);
    await scene.worker([erp, mail]).handle("o-1");
    scene.onHandle = () => undefined;
    scene.log.length = 0;
    await decideOrder(scene, "redrive", { orderId: ORDER }, ANN, { outOfOrder: true });
    await scene.worker([mail]).handle("o-1");
    expect(scene.log).toEqual([]);
    expect(pendingStates(scene, "erp")).toMatchObject([{ sequence: 2, previous: 1 }]);
    await scene.worker([erp, mail]).handle("o-1");
    expect(scene.log).toEqual(["erp E1"]);
    await expectWhole(scene);
  });

  test("a stream that the order has not known: visible, in order, after and before other commits", async () => {
    const scene = await backfilled();
    await scene.commit("o-1", [4]);
    await scene.worker([scene.mail]).handle("o-1");
    await scene.commit("o-1", [5]);
    await scene.worker([scene.mail]).handle("o-1");
    expect(scene.log).toEqual(["mail E4", "mail E5"]);
    expect(scene.progress().streams["erp"]).toEqual({ sequence: 0, id: undefined, relayed: 6 });
    expect(pendingStates(scene, "erp").map(({ sequence, previous }) => [sequence, previous])).toEqual([[4, 0], [5, 4], [6, 5]]); // prettier-ignore
    expect((await readStatus(contextOf(scene))).subscriptions).toMatchObject([{ subscription: "erp", pending: 3, orders: 1 }]);
    await scene.commit("o-1", [6]);
    await scene.worker([scene.erp, scene.mail]).handle("o-1");
    expect(ran(scene, "erp")).toEqual(["erp E1", "erp E2", "erp E3", "erp E6"]);
    await expectWhole(scene);
  });

  test("W3: it is on record, also when the round has nothing else to write", async () => {
    const scene = new Scene();
    const erp = scene.subscription("erp", { retry: { onDead: "skip" } });
    const mail = scene.subscription("mail");
    scene.onHandle = (entry) => {
      throw entry === "erp E1" ? new PermanentError("no such customer") : new Error("down");
    };
    await scene.commit("o-1", [1]);
    await scene.worker([erp, mail]).handle("o-1");
    await decideOrder(scene, "redrive", { orderId: ORDER }, ANN, { outOfOrder: true });
    await scene.worker([mail]).handle("o-1");
    scene.onHandle = () => undefined;
    scene.log.length = 0;
    await scene.worker([erp, mail]).handle("o-1");
    expect(scene.log).toEqual(["erp E1"]);
  });

  test("what is discarded while it waits does not run", async () => {
    const scene = await backfilled();
    await scene.worker([scene.mail]).handle("o-1");
    const [head] = scene.ids("events", "erp");
    const [result] = await decideOrder(contextOf(scene), "discard", { orderId: ORDER, id: head! as EventId }, ANN);
    expect(result).toMatchObject({ outcome: "recorded", id: head });
    await scene.worker([scene.mail]).handle("o-1");
    expect(scene.ids("events", "erp")).toHaveLength(2);
    await scene.worker([scene.erp, scene.mail]).handle("o-1");
    expect(scene.log).toEqual(["erp E2", "erp E3"]);
    await expectWhole(scene);
  });

  test("W1, W3: a relay that dies at any call; the next one has the subscription, or has it not", async () => {
    for (const next of ["has", "has not"]) {
      for (const fate of ["dies-before", "dies-after"] as const) {
        for (let at = 1; ; at++) {
          const scene = await backfilled();
          const { storage, calls } = mortal(scene.storage, at, fate, new Error("gone"));
          const first = scene.worker([scene.mail], { storage });
          void first.handle("o-1").catch(() => undefined);
          await settle();
          if (calls() < at) break;
          scene.storage.breakLease(key("o-1"));
          await scene.clock.advance(31_000);
          if (next === "has not") await scene.worker([scene.mail]).handle("o-1");
          await scene.worker([scene.erp, scene.mail]).handle("o-1");
          expect(scene.log, `${next}, ${fate} ${at}`).toEqual(["erp E1", "erp E2", "erp E3"]);
          await expectWhole(scene);
        }
      }
    }
  });
});
