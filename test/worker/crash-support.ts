/** Processes that die in their handlers, one after another. */
import type { Container } from "../../src/core/names.ts";
import type { RetryOptions } from "../../src/core/retry.ts";
import type { Worker } from "../../src/worker/round-result.ts";
import { settle } from "../support/manual-clock.ts";
import type { PortCall } from "../support/memory-storage.ts";
import { key, type Scene } from "./round-support.ts";

export const MAX_CRASHES = 3;

/** A worker of a fresh process. */
export function processOf(scene: Scene, maxCrashes = MAX_CRASHES): Worker {
  return scene.worker([scene.subscription("audit", { retry: { maxCrashes } })]);
}

export function processWith(scene: Scene, retry: RetryOptions): Worker {
  return scene.worker([scene.subscription("audit", { retry: { maxCrashes: MAX_CRASHES, ...retry } })]);
}

/** The process dies in what it has started by then, and its lease runs out. */
export async function dieIn(scene: Scene, worker: Worker): Promise<void> {
  worker.handle("o-1").catch(() => undefined);
  await settle();
  await scene.clock.advance(1);
  await settle();
  scene.storage.breakLease(key("o-1"));
  await scene.clock.advance(31_000);
}

/** The process dies at its first call that `isLast` tells, which gets no answer; its lease runs out. */
export async function dieAt(scene: Scene, worker: Worker, isLast: (call: PortCall) => boolean): Promise<void> {
  scene.storage.onCall = (call) => (isLast(call) ? new Promise<never>(() => undefined) : undefined);
  worker.handle("o-1").catch(() => undefined);
  await settle();
  scene.storage.onCall = undefined;
  scene.storage.breakLease(key("o-1"));
  await scene.clock.advance(31_000);
}

/** It writes an archive blob, or one of another container. */
export function creates(container: Container): (call: PortCall) => boolean {
  return ({ port, method, args }) => port === "blobs" && method === "create" && args[0] === container;
}

/** Kills a fresh process in the handler of E1, `times` at most; its lease runs out each time. */
export async function kill(scene: Scene, times: number): Promise<void> {
  scene.onHandle = () => new Promise(() => undefined);
  for (let life = 0; life < times; life++) {
    processOf(scene)
      .handle("o-1")
      .catch(() => undefined);
    await settle();
    scene.storage.breakLease(key("o-1"));
    await scene.clock.advance(31_000);
  }
}
