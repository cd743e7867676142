/** Reading the audit log (G6). */
import { expect, test } from "vitest";
import { listAudit } from "../../src/operations/list-audit.ts";
import { pause, resume } from "../../src/operations/pauses.ts";
import { wakeOrder } from "../../src/operations/wake.ts";
import { ANN, BOB, Scene } from "./support.ts";

async function threeChanges(): Promise<Scene> {
  const scene = new Scene();
  scene.pending("o-1", 1);
  await pause(scene.context, { subscription: "audit", orderId: "o-1" }, ANN);
  await scene.clock.advance(60_000);
  await resume(scene.context, { subscription: "audit", orderId: "o-1" }, BOB);
  await scene.clock.advance(60_000);
  await wakeOrder(scene.context, "o-2", ANN, { force: true });
  return scene;
}

const shown = (records: Awaited<ReturnType<typeof listAudit>>["records"]): unknown =>
  records.map(({ action, outcome, actor, target }) => [action, outcome, actor, target.orderId]);

test("every change once, with its outcome, the newest first; by age, by order, and bounded", async () => {
  const scene = await threeChanges();
  const all = await listAudit(scene.context);
  expect(shown(all.records)).toEqual([
    ["wake", "woken", "ann", "o-2"],
    ["resume", "resumed", "bob", "o-1"],
    ["pause", "paused", "ann", "o-1"],
  ]);
  expect(all).toMatchObject({ foreign: [], complete: true });
  expect((await listAudit(scene.context, { sinceMs: 90_000 })).records).toHaveLength(2);
  expect((await listAudit(scene.context, { orderId: "o-1" })).records).toHaveLength(2);
  expect(await listAudit(scene.context, { limit: 1 })).toMatchObject({ records: [{ action: "wake" }], complete: false });
  expect(await listAudit(scene.context, { limit: 3 })).toMatchObject({ complete: true });
  await expect(listAudit(scene.context, { limit: 0 })).rejects.toMatchObject({ code: "invalid-option" });
});

test("a change whose process died is told as intended; what is not ours is named", async () => {
  const scene = await threeChanges();
  const [newest] = scene.storage.blobEntries("audit").at(-1)!;
  scene.storage.deleteBlob("audit", newest);
  const day = newest.slice(0, "yyyy-mm-dd".length);
  const foreign = ["junk", `${day}/${scene.eventId("o-9", 1)}.json`];
  for (const name of foreign) scene.storage.putBlob("audit", name, new TextEncoder().encode("null"));
  const { records, foreign: told } = await listAudit(scene.context);
  expect(shown(records.slice(0, 1))).toEqual([["wake", "intended", "ann", "o-2"]]);
  expect(told.toSorted()).toEqual(foreign.toSorted());
});
