/** Workers together with what surrounds them in production: a queue that is emptied, sweeps, operators, and an audit at the end. */
import { decodeDeadLetterSummary, type DeadLetterSummary } from "../../src/core/dead-letter.ts";
import type { EventId } from "../../src/core/event-id.ts";
import { parseOrderId, type OrderId } from "../../src/core/order-id.ts";
import { decodePendingState, type PendingState } from "../../src/core/pending-event.ts";
import type { Metadata } from "../../src/core/ports.ts";
import { decodeWakeUp } from "../../src/core/wake-up.ts";
import type { OperationsContext, Operator } from "../../src/operations/context.ts";
import { decideOrder } from "../../src/operations/decide-many.ts";
import type { DecisionAction, DecisionResult } from "../../src/operations/decide.ts";
import { verifyAll } from "../../src/operations/verify.ts";
import type { Worker } from "../../src/worker/round-result.ts";
import { archivedEntries } from "../support/archived-entries.ts";
import { key, type Scene } from "./round-support.ts";

export const ANN: Operator = { actor: "ann", reason: "carrier is back" };
export const BOB: Operator = { actor: "bob", reason: "order was a test" };

export function contextOf(scene: Scene): OperationsContext {
  return { storage: scene.storage, clock: scene.clock };
}

/** Does with every visible wake-up what a host does, one after another, until none is visible. */
export async function deliver(scene: Scene, worker: Worker): Promise<void> {
  const { wakeUps } = scene.storage;
  for (;;) {
    const [message] = await wakeUps.receive(1, 30_000);
    if (message === undefined) return;
    const { status, retryInMs } = await scene.until(worker.handle(decodeWakeUp(message.text)));
    if (status === "done") await wakeUps.delete(message.receipt);
    else await wakeUps.hide(message.receipt, message.text, Math.max(1_000, retryInMs));
  }
}

/** Turns the clock second by second and delivers what becomes visible. */
export async function live(scene: Scene, worker: Worker, ms: number): Promise<void> {
  await deliver(scene, worker);
  for (let spent = 0; spent < ms; spent += 1_000) {
    await scene.clock.advance(1_000);
    await deliver(scene, worker);
  }
}

export function decideAbout(
  scene: Scene,
  action: DecisionAction,
  operator: Operator = ANN,
  orderId = "o-1",
): Promise<readonly DecisionResult[]> {
  // A head that is not dead is discarded only when its id is given.
  const head = action === "discard" ? { subscription: "audit", id: headId(scene, "audit", orderId) } : {};
  return decideOrder(contextOf(scene), action, { orderId: parseOrderId(orderId), ...head }, operator);
}

/** State of the pending events of a stream, oldest first. */
export function pendingStates(scene: Scene, subscription = "audit", orderId = "o-1"): PendingState[] {
  return metadataOf(scene, "events", subscription, orderId).flatMap((metadata) => decodePendingState(metadata) ?? []);
}

export function archived(scene: Scene, subscription = "audit", orderId = "o-1"): Metadata[] {
  return metadataOf(scene, "archive", subscription, orderId);
}

/** The index of dead letters. */
export function deadLetters(scene: Scene, subscription = "audit", orderId = "o-1"): DeadLetterSummary[] {
  return metadataOf(scene, "dead", subscription, orderId).flatMap((metadata) => decodeDeadLetterSummary(metadata) ?? []);
}

function metadataOf(scene: Scene, container: "events" | "archive" | "dead", subscription: string, orderId: string): Metadata[] {
  const prefix = `${subscription}/${key(orderId)}/`;
  const entries = container === "archive" ? archivedEntries(scene.storage) : scene.storage.blobEntries(container);
  return entries.filter(([name]) => name.startsWith(prefix)).map(([, { metadata }]) => metadata);
}

export function oid(orderId: string): OrderId {
  return parseOrderId(orderId);
}

/** Id of the first event of a stream in `events`. */
export function headId(scene: Scene, subscription = "audit", orderId = "o-1"): EventId {
  return scene.ids("events", subscription, orderId)[0] as EventId;
}

/** What the audit of storage finds. */
export async function findings(scene: Scene): Promise<string[]> {
  const { findings: found } = await verifyAll(contextOf(scene));
  return found.map(({ kind, text }) => `${kind}: ${text}`);
}

/** A handler that fails while its event is in `broken`. */
export function failWhile(broken: ReadonlySet<string>, error: () => unknown = () => new Error("carrier is down")): Scene["onHandle"] {
  return (entry) => {
    if (broken.has(entry)) throw error();
  };
}
