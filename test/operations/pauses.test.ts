/** F5: pauses and resumes whose answers are lost, and the orders with the longest ids. */
import { describe, expect, test } from "vitest";
import { isPaused } from "../../src/core/controls.ts";
import { OutboxError } from "../../src/core/errors.ts";
import { MAX_ORDER_ID_LENGTH } from "../../src/core/order-id.ts";
import { listPauses } from "../../src/operations/list-pauses.ts";
import { pause, resume } from "../../src/operations/pauses.ts";
import { systemClock } from "../../src/system/clock.ts";
import { connectTestStorage } from "../support/azurite-storage.ts";
import { faultyHttp } from "../support/faulty-http.ts";
import { ANN, BOB, id, Scene } from "./support.ts";

const AUDIT = { subscription: "audit" };

function outcomes(scene: Scene, wanted: string): readonly string[] {
  return scene.audit().flatMap(({ action, outcome }) => (action === wanted ? [outcome] : []));
}

describe("was it mine?", () => {
  async function paused(): Promise<Scene> {
    const scene = new Scene();
    scene.pending("o-1", 1);
    await pause(scene.context, AUDIT, ANN, { force: true });
    return scene;
  }

  test("a resume that lands without an answer has resumed, is recorded so, and wakes the orders", async () => {
    const scene = await paused();
    scene.storage.onCall = ({ method }) => (method === "deleteEntity" ? "lose-response" : undefined);
    expect(await resume(scene.context, AUDIT, BOB)).toEqual({ outcome: "resumed", woken: 1 });
    expect(outcomes(scene, "resume")).toEqual(["intended", "resumed"]);
    expect(scene.wakeUps()).toEqual(["o-1"]);
    expect(await resume(scene.context, AUDIT, BOB)).toEqual({ outcome: "not-paused", woken: 0 });
  });

  test("with Azurite: so has one whose request the client repeats, because its answer was lost", async () => {
    const http = faultyHttp();
    const storage = await connectTestStorage({ httpClient: http });
    const context = { storage, clock: systemClock };
    await pause(context, AUDIT, ANN, { force: true });
    http.rule = ({ operation, nth }) => (operation === "table DeleteEntity" && nth === 1 ? "lose-response" : "pass");
    expect(await resume(context, AUDIT, BOB)).toEqual({ outcome: "resumed", woken: 0 });
    expect(http.count("table DeleteEntity")).toBe(2);
    expect(await listPauses(context)).toEqual([]);
  });

  test("of two at the very same time both are told that it is resumed, and both wake the orders", async () => {
    const scene = await paused();
    const both = await Promise.all([ANN, BOB].map((operator) => resume(scene.context, AUDIT, operator)));
    expect(both).toEqual([
      { outcome: "resumed", woken: 1 },
      { outcome: "resumed", woken: 1 },
    ]);
  });

  test("a resume that does not arrive fails and is recorded so", async () => {
    const scene = await paused();
    scene.storage.onCall = ({ method }) => {
      if (method === "deleteEntity") throw new OutboxError("unavailable", "503");
    };
    await expect(resume(scene.context, AUDIT, BOB)).rejects.toMatchObject({ code: "unavailable" });
    expect(outcomes(scene, "resume")).toEqual(["intended", expect.stringMatching(/^failed: unavailable/)]);
    expect(await listPauses(scene.context)).toHaveLength(1);
  });

  test("a pause that lands without an answer has paused, and is recorded so", async () => {
    const scene = new Scene();
    scene.storage.onCall = ({ method }) => (method === "insertEntity" ? "lose-response" : undefined);
    expect(await pause(scene.context, AUDIT, ANN, { force: true })).toMatchObject({ outcome: "paused", pause: ANN });
    expect(outcomes(scene, "pause")).toEqual(["intended", "paused"]);
  });

  test("a pause that does not arrive, or can't be looked for, fails with what the first request met", async () => {
    const scene = new Scene();
    let looks = 0;
    scene.storage.onCall = ({ method }) => {
      if (method === "insertEntity") throw new OutboxError("timeout", "no answer");
      if (method === "readEntity" && ++looks === 4) throw new OutboxError("unavailable", "503");
    };
    for (let tries = 0; tries < 2; tries++) {
      await expect(pause(scene.context, AUDIT, ANN, { force: true })).rejects.toMatchObject({ code: "timeout" });
    }
    expect(await listPauses(scene.context)).toEqual([]);
  });
});

test("with Azurite: one order is paused and resumed however long its id is", async () => {
  const storage = await connectTestStorage();
  const context = { storage, clock: systemClock };
  const target = { subscription: "audit", orderId: id("注".repeat(MAX_ORDER_ID_LENGTH)) };
  expect(await pause(context, target, ANN, { force: true })).toMatchObject({ outcome: "paused" });
  expect(await pause(context, target, BOB, { force: true })).toMatchObject({ outcome: "already-paused", pause: { ...target, ...ANN } });
  const pauses = await listPauses(context);
  expect(isPaused(pauses, "audit", target.orderId)).toMatchObject(ANN);
  expect(isPaused(pauses, "audit", target.orderId.slice(1))).toBeUndefined();
  expect(await resume(context, target, BOB)).toMatchObject({ outcome: "resumed" });
  expect(await listPauses(context)).toEqual([]);
});
