/** Replays on memory storage: what was committed for whom, and operators who die. */
import { expect } from "vitest";
import { decodeEventBytes, type StoredEvent } from "../../src/core/event.ts";
import { OutboxError } from "../../src/core/errors.ts";
import { parseOrderId } from "../../src/core/order-id.ts";
import type { Storage } from "../../src/core/ports.ts";
import type { OperationsContext } from "../../src/operations/context.ts";
import { verifyAll } from "../../src/operations/verify.ts";
import { archivedEntries } from "../support/archived-entries.ts";
import { settle } from "../support/manual-clock.ts";
import { mortal, type Fate, type Scene } from "../worker/round-support.ts";

export const KIM = { actor: "kim", reason: "a new partner" };
export const ORDER = parseOrderId("o-1");
const DOWN = new OutboxError("unavailable", "gone");

/** Calls that change something. */
const WRITES = [
  "orders.commit",
  "orders.putEntity",
  "orders.insertEntity",
  "orders.deleteEntity",
  "orders.insertIdempotency",
  "orders.deleteIdempotency",
  "orders.deleteOutbox",
  "wakeUps.send",
  "wakeUps.hide",
  "wakeUps.delete",
  "leases.create",
  "leases.acquire",
  "leases.writeMetadata",
  "blobs.create",
  "blobs.writeMetadata",
  "blobs.delete",
];

export function writes(scene: Scene): number {
  const counts = scene.storage.callCounts();
  return WRITES.reduce((sum, call) => sum + (counts[call] ?? 0), 0);
}

/** The events of a stream in `archive`, in order. */
export function archivedEvents(scene: Scene, subscription: string, orderId = "o-1"): readonly StoredEvent[] {
  return archivedEntries(scene.storage)
    .filter(([name]) => name.startsWith(`${subscription}/${orderId}/`))
    .map(([, { bytes }]) => decodeEventBytes(bytes));
}

/** Everything of one subscription in storage, to see that nobody touched it. */
export function blobsOf(scene: Scene, subscription: string): readonly unknown[] {
  const { storage } = scene;
  const entries = [storage.blobEntries("events"), archivedEntries(storage), storage.blobEntries("dead")];
  return entries.flatMap((blobs) => blobs.filter(([name]) => name.startsWith(`${subscription}/`)));
}

export async function expectWhole(scene: Scene): Promise<void> {
  const { findings } = await verifyAll(scene);
  expect(findings.filter(({ severity }) => severity === "damage")).toEqual([]);
}

/**
 * For every call that the operation makes, and every fate of it: lets an operator's process meet it there, then has another one repeat the
 * operation. `check` sees what came of it.
 */
export async function everyFate<S extends Scene>(
  setUp: () => Promise<S>,
  operation: (context: OperationsContext) => Promise<unknown>,
  check: (scene: S) => Promise<void>,
): Promise<number> {
  const fates: readonly Fate[] = ["dies-before", "dies-after", "loses-response", "is-refused"];
  for (let at = 1; ; at++) {
    for (const fate of fates) {
      const scene = await setUp();
      const { storage, calls } = mortal(scene.storage, at, fate, DOWN);
      const context = (own: Storage): OperationsContext => ({ storage: own, clock: scene.clock });
      operation(context(storage)).catch(() => undefined);
      await settle();
      if (calls() < at) return at - 1;
      await operation(context(scene.storage));
      await check(scene);
    }
  }
}
