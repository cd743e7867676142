/** G6: what the hostile inputs found, each with the smallest one. */
import { expect, test } from "vitest";
import { key } from "../../worker/round-support.ts";
import { HostileScene } from "./scene.ts";

test("G6: progress whose id is ahead of its sequence makes no event disappear", async () => {
  const hostile = await HostileScene.make();
  const { storage } = hostile.scene;
  const order = key("o-1");
  await hostile.commit("o-1", 2);
  await hostile.round("o-1");
  // Two characters of the id are others, and it is still a ULID: greater than any that is to come.
  const { etag, metadata } = storage.leaseOf(order)!;
  await storage.leases.acquire(order, { id: "hostile", durationMs: 15_000, etag });
  await storage.leases.writeMetadata(
    order,
    { ...metadata, progress: metadata["progress"]!.replace('"01', '"0A') },
    { leaseId: "hostile", etag },
  );
  await storage.leases.release(order, "hostile");
  await hostile.commit("o-1", 1);
  await hostile.meet(["o-1"]);
  expect(() => hostile.assertHarmless(["o-1"])).not.toThrow();
});

test("G2: an event blob whose bytes and metadata agree on a sequence that is finished is not handled under it", async () => {
  const hostile = await HostileScene.make();
  const { scene } = hostile;
  await hostile.commit("o-1", 2);
  scene.onHandle = () => {
    throw new Error("carrier is down");
  };
  await hostile.round("o-1");
  scene.onHandle = () => undefined;
  hostile.handled.splice(2);
  // Without a sequence in its metadata the blob itself is asked, and says 1 instead of 2.
  const [name, { bytes, metadata }] = scene.storage.blobEntries("events").filter(([each]) => each.startsWith(`audit/${key("o-1")}/`))[1]!;
  const text = new TextDecoder().decode(bytes).replace('"sequence":"2"', '"sequence":"1"');
  scene.storage.putBlob("events", name, new TextEncoder().encode(text), { ...metadata, sequence: "" });
  await scene.clock.advance(20_000);
  await hostile.meet(["o-1"]);
  expect(() => hostile.assertHarmless(["o-1"])).not.toThrow();
});
